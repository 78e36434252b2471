"""Delivery of queued seconds to VictoriaMetrics, the newest first, and the mark that says how far it has come."""

import threading
from collections.abc import Callable, Sequence

import structlog

from collector.delivery.batch_rows import Batch
from collector.delivery.completeness import CompletenessMark
from collector.delivery.queue import BatchQueue
from collector.delivery.queue_file import QueueDamagedError
from collector.delivery.sieve import Sieve
from collector.delivery.store_watch import StoreWatch
from domain.clock import MICROSECONDS, Clock
from domain.errors import InputError, UnavailableError
from victoriametrics.connection import BodyTooLargeError, BusyError
from victoriametrics.push import Pusher, pack

# What was sampled of late goes before what has waited: some seconds, for where a request took longer than one.
_FRESH_SECONDS = 5
# One request of what has waited: some hundred seconds of eight cards. A fresh second waits for one at most, so it
# becomes smaller where one takes long, or fails.
_REQUEST_BYTES = 4 * 2**20
_LEAST_REQUEST_BYTES = 64 * 2**10
_LONG_REQUEST_SECONDS = 0.5
_FIRST_RETRY_SECONDS = 0.5
_LAST_RETRY_SECONDS = 5.0
# What a store may ask for; a longer rest would cost more than it spares.
_LONGEST_REST_SECONDS = 60.0
# A tick wakes the sender; this is for what arrives while it is busy.
_POLL_SECONDS = 1.0
# How long a store may take to answer, and when the collector is to end.
_ANSWER_SECONDS = 10.0
_LAST_ANSWER_SECONDS = 2.0

log = structlog.get_logger()


class Sender:
    """Empties a queue into one store, on a thread of its own.

    The newest seconds go first, with the mark where it has moved: one request a second. What has waited follows, oldest
    first, a bounded request at a time.
    """

    def __init__(
        self, node: str, queue: BatchQueue, pusher: Pusher, clock: Clock, check_store: Callable[[], None]
    ) -> None:
        """`check_store` raises UnavailableError where the store would bend samples; until it does not, none is sent."""
        self._node = node
        self._queue = queue
        self._pusher = pusher
        self._clock = clock
        self._watch = StoreWatch(node, queue, pusher, clock, check_store)
        self._mark = CompletenessMark(node, queue, clock)
        self._sieve = Sieve(node, queue, pusher, clock)
        self._arrived = threading.Event()
        self._failure: str | None = None
        self._rest_s = 0.0
        self._request_bytes = self._most_bytes = _REQUEST_BYTES
        self._newest_s = 0
        self.delivery_s: float | None = None
        """How long after it began the newest second that was delivered was taken; None before the first."""

    @property
    def is_failing(self) -> bool:
        """Whether the last delivery failed."""
        return self._failure is not None

    @property
    def store_skew_s(self) -> float | None:
        """How far the store's clock is ahead of this node's at least: see `StoreWatch.skew_s`."""
        return self._watch.skew_s

    def wake(self) -> None:
        """Say that something waits, or that the sender should look whether it is to stop."""
        self._arrived.set()

    def run(self, stop: threading.Event, answer_s: float = _ANSWER_SECONDS) -> None:
        """Deliver until `stop` is set; while the store is away, try again after 0.5 s doubling to 5 s.

        One that asks for a longer rest has it, up to a minute. No answer is waited for longer than `answer_s`. Raises
        QueueDamagedError.
        """
        self._pusher.limit_answers(answer_s)
        retry_s = _FIRST_RETRY_SECONDS
        while not stop.is_set():
            self._arrived.clear()
            if self.deliver():
                retry_s = _FIRST_RETRY_SECONDS
                if not len(self._queue):
                    self._arrived.wait(_POLL_SECONDS)
            else:
                stop.wait(max(retry_s, self._rest_s))
                retry_s = min(2 * retry_s, _LAST_RETRY_SECONDS)

    def drain(self, seconds: float) -> None:
        """Deliver what waits, for at most `seconds` and one delivery more; the rest stays on disk.

        For the end of a process: from now on no answer is waited for longer than 2 s. The mark follows at last.
        """
        self._pusher.limit_answers(_LAST_ANSWER_SECONDS)
        until_s = self._clock.monotonic_s() + seconds
        while self._clock.monotonic_s() < until_s and self.deliver():
            if len(self._queue):
                continue
            if not self._mark.is_behind:
                break
            # It may be seen only now that the store was started since: then what it took is sent again, and looked at.
            self._watch.look_soon()

    def deliver(self) -> bool:
        """Send the newest seconds that wait, and one request of older ones; False where the store is away.

        As good as away is one that would bend samples, that takes nothing at all, or whose clock and this node's are
        so far apart that it would drop what is sampled now. Raises QueueDamagedError.
        """
        try:
            store, is_seen = self._watch.look()
            if is_seen:
                self._mark.follow()
            self._send_fresh(self._sieve.kept(self._queue.newest(_FRESH_SECONDS), store))
            self._replay(self._sieve.kept(self._queue.pending(self._request_bytes), store))
        except QueueDamagedError:
            raise
        except (InputError, UnavailableError) as error:
            self._note_failure(error)
            return False
        if self._failure is not None:
            self._failure = None
            log.info("store_available", node=self._node, waiting_seconds=len(self._queue))
        return True

    def _send_fresh(self, batches: Sequence[Batch]) -> None:
        mark = self._mark.line()
        if not batches and not mark:
            return
        try:
            self._push(batches, mark)
        except (InputError, BodyTooLargeError):
            # Each by itself, so that only what is unusable stays behind. A mark that is refused is a door that is shut.
            for batch in batches:
                self._push_alone(batch)
            self._push((), mark)
        self._mark.published()

    def _replay(self, batches: Sequence[Batch]) -> None:
        """Send what has waited, or find out that it has to be sent in smaller requests."""
        if not batches:
            return
        began_s = self._clock.monotonic_s()
        try:
            self._push(batches)
        except (InputError, BodyTooLargeError) as error:
            if len(batches) == 1:
                self._sieve.push(batches[0], error)
                return
            self._shrink(batches)
            if isinstance(error, BodyTooLargeError):
                self._most_bytes = self._request_bytes
        except UnavailableError:
            self._shrink(batches, _LEAST_REQUEST_BYTES)
            raise
        else:
            if self._clock.monotonic_s() - began_s > _LONG_REQUEST_SECONDS:
                self._shrink(batches, _LEAST_REQUEST_BYTES)
            else:
                self._request_bytes = min(self._most_bytes, 2 * self._request_bytes)

    def _shrink(self, batches: Sequence[Batch], least_bytes: int = 1) -> None:
        """Let the next request be half as large as this one; down to one second, where nothing else is said."""
        half = sum(len(batch.body) for batch in batches) // 2
        self._request_bytes = min(self._request_bytes, max(least_bytes, half))

    def _push_alone(self, batch: Batch) -> None:
        try:
            self._push([batch])
        except (InputError, BodyTooLargeError) as error:
            self._sieve.push(batch, error)

    def _push(self, batches: Sequence[Batch], mark: bytes = b"") -> None:
        packed = b"".join([*(batch.packed for batch in batches), *([pack(mark)] if mark else [])])
        self._pusher.push(b"".join([*(batch.body for batch in batches), mark]), packed)
        self._queue.delivered((batch.second_s for batch in batches), round(self._clock.monotonic_s() * MICROSECONDS))
        self._note_delivery(batches)

    def _note_delivery(self, batches: Sequence[Batch]) -> None:
        newest_s = max((batch.second_s for batch in batches), default=0)
        if newest_s > self._newest_s:
            self._newest_s = newest_s
            self.delivery_s = self._clock.now_us() / MICROSECONDS - newest_s

    def _note_failure(self, error: InputError | UnavailableError) -> None:
        """Say it once, and again where it changes. In which words a store is away is no change.

        But a store that was away when we began, and answers now, may have to be refused for a reason.
        """
        self._rest_s = min(error.retry_after_s, _LONGEST_REST_SECONDS) if isinstance(error, BusyError) else 0.0
        is_away = self._watch.is_fit and not isinstance(error, InputError)
        failure = "away" if is_away else str(error)
        # When it answers again, it may have been started since, with other flags.
        self._watch.look_soon()
        if failure == self._failure:
            return
        self._failure = failure
        log.warning("store_unavailable", node=self._node, error=str(error), waiting_seconds=len(self._queue))
