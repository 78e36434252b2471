"""What a store says of itself, asked every few seconds: whether it was started since, and what it keeps."""

import math
from collections.abc import Callable

import structlog

from collector.delivery.queue import BatchQueue
from domain.clock import MICROSECONDS, Clock
from domain.errors import InputError
from victoriametrics.push import Pusher, ServerState

# A twelfth of the minute for which the queue keeps what was delivered, since the store may have lost it.
_LOOK_SECONDS = 5.0
_HOUR_SECONDS = 3_600

log = structlog.get_logger()


class StoreWatch:
    """One store, looked at by one collector; of its thread alone, but for `skew_s`."""

    def __init__(
        self, node: str, queue: BatchQueue, pusher: Pusher, clock: Clock, check_store: Callable[[], None]
    ) -> None:
        """`check_store` raises UnavailableError where the store would bend samples."""
        self._node = node
        self._queue = queue
        self._pusher = pusher
        self._clock = clock
        self._check_store = check_store
        self._store: ServerState | None = None
        self._next_look_s = -math.inf
        self.is_fit = False
        """Whether the process that answered last was seen to bend no samples."""
        self.skew_s: float | None = None
        """How far the store's clock is ahead: see `proved_skew_s`; None before it was asked."""

    def look_soon(self) -> None:
        """Ask again before anything more is sent: the store may be another since."""
        self._next_look_s = -math.inf

    def look(self) -> tuple[ServerState, bool]:
        """The store as it is, or was a few seconds ago; and whether it was asked just now.

        Then all that the queue calls delivered was taken by the process that answered, or is on its disk: one that
        was started since it was last asked may have lost what it took of late, which waits again. A store that is
        killed and back before the next push is not missed: the client opens the connection again and says nothing.
        That a connection is new would prove less: a proxy keeps its own, and the store closes each of ours after two
        minutes. One that a collector asks for the first time may have been killed while no collector ran. It tells its
        start in whole seconds: what it had taken by the end of that second is sent again too.

        Raises InputError where the store would drop what is sampled now, UnavailableError where it would bend it, as
        one may that was started again with other flags.
        """
        now_s = self._clock.now_us() // MICROSECONDS
        store = self._store
        is_due = store is None or now_s not in store.kept_s or self._clock.monotonic_s() >= self._next_look_s
        if store is None or is_due:
            store = self._ask()
        if now_s in store.kept_s:
            return store, is_due
        hours = round((now_s - store.now_s) / _HOUR_SECONDS)
        where = "ahead of" if hours > 0 else "behind"
        raise InputError(
            f"cannot send samples of {self._node!r}: its clock is {abs(hours)} h {where} that of the store, which "
            "would drop them; set the node's clock, or the store's"
        )

    def _ask(self) -> ServerState:
        if not self.is_fit:
            self._check()
        asked_us = self._clock.now_us()
        store = self._pusher.state()
        answered_us = self._clock.now_us()
        self.skew_s = proved_skew_s(store.now_s, asked_us, answered_us)
        last = self._store
        if last is not None and store.started_s != last.started_s:
            self._check()
        # One that was asked in the second of its start may have been killed since, and started again within it.
        if last is None or store.started_s != last.started_s or last.now_s == last.started_s:
            again = self._queue.send_again()
            if last is not None and store.started_s != last.started_s:
                log.warning("store_restarted", node=self._node, sent_again_seconds=again)
        self._store = store
        self._next_look_s = self._clock.monotonic_s() + _LOOK_SECONDS
        return store

    def _check(self) -> None:
        self.is_fit = False
        self._check_store()
        self.is_fit = True


def proved_skew_s(told_s: int, asked_us: int, answered_us: int) -> float:
    """How far a server's clock is ahead of ours at least, negative where it is behind.

    It was asked and had answered at those microseconds of ours, and tells whole seconds, so less than one apart is
    mostly 0: nothing is said that its answer does not prove.
    """
    # It answered at a moment of the second that it tells, which lay between these two by our clock.
    least_s = told_s - answered_us / MICROSECONDS
    most_s = told_s + 1 - asked_us / MICROSECONDS
    return max(least_s, 0.0) + min(most_s, 0.0)
