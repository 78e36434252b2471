"""Delivery of queued seconds to VictoriaMetrics, oldest first, and the mark that says how far it has come."""

import threading
from collections.abc import Callable

import structlog

from collector.delivery.queue import Batch, BatchQueue
from collector.delivery.queue_file import QueueDamagedError
from collector.sample_runs import one_sample
from domain.clock import MICROSECONDS, Clock
from domain.errors import InputError, UnavailableError
from domain.series import COLLECTOR_COMPLETE_UNTIL, COLLECTOR_QUEUED, Series
from victoriametrics.encode import encode
from victoriametrics.push import Pusher, ServerState

# One request after an outage: some three hundred seconds of eight cards.
_REQUEST_BYTES = 4 * 2**20
_FIRST_RETRY_SECONDS = 0.5
_LAST_RETRY_SECONDS = 5.0
# A tick wakes the sender; this is for what arrives while it is busy.
_POLL_SECONDS = 1.0
# How long a store may take to answer a collector that is to end.
_LAST_ANSWER_SECONDS = 2.0
_HOUR_SECONDS = 3_600

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
        self._store: ServerState | None = None
        self._arrived = threading.Event()
        self._failure: str | None = None
        self._published_until_s: int | None = None

    @property
    def is_failing(self) -> bool:
        """Whether the last delivery failed."""
        return self._failure is not None

    def wake(self) -> None:
        """Say that something waits, or that the sender should look whether it is to stop."""
        self._arrived.set()

    def run(self, stop: threading.Event) -> None:
        """Deliver until `stop` is set; while the store is away, try again after 0.5 s doubling to 5 s.

        Raises QueueDamagedError.
        """
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
        """Deliver what waits, for at most `seconds` and one delivery more; the rest stays on disk.

        For the end of a process: from now on no answer is waited for longer than 2 s.
        """
        self._pusher.limit_answers(_LAST_ANSWER_SECONDS)
        until_s = self._clock.monotonic_s() + seconds
        while len(self._queue) and self._clock.monotonic_s() < until_s and self.deliver():
            pass

    def deliver(self) -> bool:
        """Send one request of waiting seconds and the mark that follows from it; False where the store is away.

        As good as away is one that would bend samples, that takes nothing at all, or whose clock and this node's are
        so far apart that it would drop what is sampled now. Raises QueueDamagedError.
        """
        try:
            self._check_once()
            store = self._agreeing_store()
            self._send(self._set_unkept_aside(self._queue.pending(_REQUEST_BYTES), store))
            # Between the samples and the mark, which must not vouch for what a store took that has been killed since.
            self._look()
            self._send_mark()
        except QueueDamagedError:
            raise
        except (InputError, UnavailableError) as error:
            self._note_failure(error)
            return False
        if self._failure is not None:
            self._failure = None
            log.info("store_available", node=self._node, waiting_seconds=len(self._queue))
        return True

    def _check_once(self) -> None:
        """Check the store before the first second goes to it."""
        if not self._is_store_checked:
            self._check_store()
            self._is_store_checked = True

    def _look(self) -> ServerState:
        """Ask the store how it is; one that was started since it was last asked may have lost what it took of late.

        A store that is killed and back before the next push is not missed: the client opens the connection again and
        says nothing. So the store itself is asked when it began. That a connection is new would prove less: a proxy
        keeps its own, and the store closes each of ours after two minutes. One that a collector asks for the first
        time may have been killed while no collector ran. Starts within one second look like one.
        """
        store = self._pusher.state()
        if self._store is None or store.started_s != self._store.started_s:
            again = self._queue.send_again()
            if self._store is not None:
                log.warning("store_restarted", node=self._node, sent_again_seconds=again)
        self._store = store
        return store

    def _agreeing_store(self) -> ServerState:
        """The store as it is, or was a delivery ago. Raises InputError where it would drop what is sampled now."""
        now_s = self._clock.now_us() // MICROSECONDS
        store = self._store
        if store is None or now_s not in store.kept_s:
            store = self._look()
        if now_s in store.kept_s:
            return store
        hours = round((now_s - store.now_s) / _HOUR_SECONDS)
        where = "ahead of" if hours > 0 else "behind"
        raise InputError(
            f"cannot send samples of {self._node!r}: its clock is {abs(hours)} h {where} that of the store, which "
            "would drop them; set the node's clock, or the store's"
        )

    def _note_failure(self, error: InputError | UnavailableError) -> None:
        """Say it once, and again where it changes. In which words a store is away is no change.

        But a store that was away when we began, and answers now, may have to be refused for a reason.
        """
        is_away = self._is_store_checked and not isinstance(error, InputError)
        failure = "away" if is_away else str(error)
        # When it answers again, it may have been started since, with other flags.
        self._store = None
        if failure == self._failure:
            return
        # What the store took but had not yet written to its disk may be gone.
        again = self._queue.send_again() if self._failure is None else 0
        self._failure = failure
        log.warning(
            "store_unavailable",
            node=self._node,
            error=str(error),
            sent_again_seconds=again,
            waiting_seconds=len(self._queue),
        )

    def _set_unkept_aside(self, batches: list[Batch], store: ServerState) -> list[Batch]:
        """The seconds that the store would keep. The others never can be delivered: it would take and drop them.

        They were sampled by a clock that was wrong and has been set, or waited for longer than the store keeps any.
        """
        unkept = [batch for batch in batches if batch.second_s not in store.kept_s]
        if not unkept:
            return batches
        reason = "the store keeps nothing of that time"
        for batch in unkept:
            self._queue.refuse(batch, reason)
        log.error(
            "seconds_refused",
            node=self._node,
            first_s=unkept[0].second_s,
            last_s=unkept[-1].second_s,
            seconds=len(unkept),
            error=reason,
        )
        return [batch for batch in batches if batch.second_s in store.kept_s]

    def _send(self, batches: list[Batch]) -> None:
        if not batches:
            return
        try:
            self._pusher.push(b"".join(batch.body for batch in batches))
        except InputError as error:
            if len(batches) > 1:
                # One of them is unusable: send each by itself, so that the others arrive.
                for batch in batches:
                    self._send([batch])
                return
            # A door that refuses what is known to be good refuses everything: then no second is to blame.
            self._publish(COLLECTOR_QUEUED, len(self._queue))
            self._queue.refuse(batches[0], str(error))
            log.error("second_refused", node=self._node, second_s=batches[0].second_s, error=str(error))
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
        end_s = self._clock.now_us() // MICROSECONDS + 1
        until_s = min(until_s, end_s)
        marked_until_s = self._queue.marked_until_s
        # One of a time to come was published on such a clock, too.
        if until_s == self._published_until_s or until_s < marked_until_s <= end_s:
            return
        if until_s != marked_until_s:
            # First on disk: whatever is killed now, no later process says less.
            self._queue.mark(until_s)
        self._publish(COLLECTOR_COMPLETE_UNTIL, until_s)
        self._published_until_s = until_s

    def _publish(self, series: Series, value: int) -> None:
        """Push what the collector says of itself now."""
        now_s = self._clock.now_us() // MICROSECONDS
        self._pusher.push(encode([one_sample(series, {"node": self._node}, now_s, value)]))
