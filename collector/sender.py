"""Delivery of queued seconds to VictoriaMetrics, oldest first, and the mark that says how far it has come."""

import threading
from collections.abc import Callable

import structlog

from collector.queue import Batch, BatchQueue
from collector.sample_runs import one_sample
from domain.clock import MICROSECONDS, Clock
from domain.errors import InputError, UnavailableError
from domain.series import COLLECTOR_COMPLETE_UNTIL
from victoriametrics.encode import encode
from victoriametrics.push import Pusher

# One request after an outage: some three hundred seconds of eight cards.
_REQUEST_BYTES = 4 * 2**20
_FIRST_RETRY_SECONDS = 0.5
_LAST_RETRY_SECONDS = 5.0
# A tick wakes the sender; this is for what arrives while it is busy.
_POLL_SECONDS = 1.0

log = structlog.get_logger()


class Sender:
    """Empties a queue into one store, on a thread of its own."""

    def __init__(
        self, node: str, queue: BatchQueue, pusher: Pusher, clock: Clock, check_store: Callable[[], None]
    ) -> None:
        """`check_store` raises UnavailableError where the store would bend samples; until it does not, none is sent."""
        self._node = node
        self._queue = queue
        self._pusher = pusher
        self._clock = clock
        self._check_store = check_store
        self._is_store_checked = False
        self._arrived = threading.Event()
        self._failure: str | None = None
        self._marked_until_s = 0

    def wake(self) -> None:
        """Say that something waits, or that the sender should look whether it is to stop."""
        self._arrived.set()

    def run(self, stop: threading.Event) -> None:
        """Deliver until `stop` is set; while the store is away, try again after 0.5 s doubling to 5 s."""
        retry_s = _FIRST_RETRY_SECONDS
        while not stop.is_set():
            self._arrived.clear()
            if self.deliver():
                retry_s = _FIRST_RETRY_SECONDS
                if not len(self._queue):
                    self._arrived.wait(_POLL_SECONDS)
            else:
                stop.wait(retry_s)
                retry_s = min(2 * retry_s, _LAST_RETRY_SECONDS)

    def drain(self, seconds: float) -> None:
        """Deliver what waits, for at most `seconds` and one request more; the rest stays on disk."""
        until_s = self._clock.monotonic_s() + seconds
        while len(self._queue) and self._clock.monotonic_s() < until_s and self.deliver():
            pass

    def deliver(self) -> bool:
        """Send one request of waiting seconds and the mark that follows from it; False where the store is away.

        One that would bend samples is as good as away.
        """
        try:
            self._check_once()
            self._send(self._queue.pending(_REQUEST_BYTES))
            self._send_mark()
        except UnavailableError as error:
            self._note_failure(str(error))
            return False
        if self._failure is not None:
            self._failure = None
            log.info("store_available", node=self._node, waiting_seconds=len(self._queue))
        return True

    def _check_once(self) -> None:
        """Check the store before the first second goes to it."""
        if self._is_store_checked:
            return
        try:
            self._check_store()
        except InputError as error:
            # What answers so (an HTTPS port, a proxy) would call every second unusable, too.
            raise UnavailableError(str(error)) from error
        self._is_store_checked = True

    def _note_failure(self, error: str) -> None:
        """Say it once. A store that was away when we began, and answers now, may have to be refused for a reason."""
        if self._failure is not None and (self._is_store_checked or error == self._failure):
            return
        # What the store took but had not yet written to its disk may be gone.
        again = self._queue.send_again() if self._failure is None else 0
        self._failure = error
        log.warning("store_unavailable", node=self._node, error=error, sent_again_seconds=again)

    def _send(self, batches: list[Batch]) -> None:
        if not batches:
            return
        try:
            self._pusher.push(b"".join(batch.body for batch in batches))
        except InputError as error:
            if len(batches) == 1:
                self._queue.refuse(batches[0], str(error))
                log.error("second_refused", node=self._node, second_s=batches[0].second_s, error=str(error))
                return
            # One of them is unusable: send each by itself, so that the others arrive.
            for batch in batches:
                self._send([batch])
            return
        self._queue.delivered((batch.second_s for batch in batches), self._clock.now_us())

    def _send_mark(self) -> None:
        """Publish how far delivery has come, where that has changed.

        It never goes back, and is never beyond the present second: what was sampled on a clock that has been set
        back since must not vouch for a time to come.
        """
        until_s = self._queue.complete_until_s
        if until_s is None:
            return
        now_s = self._clock.now_us() // MICROSECONDS
        if self._marked_until_s > now_s + 1:
            # That was on such a clock, too.
            self._marked_until_s = 0
        until_s = min(until_s, now_s + 1)
        if until_s <= self._marked_until_s:
            return
        mark = one_sample(COLLECTOR_COMPLETE_UNTIL, {"node": self._node}, now_s, until_s)
        self._pusher.push(encode([mark]))
        self._marked_until_s = until_s
