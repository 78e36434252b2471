"""What a store would drop or calls unusable, found line by line and set aside, so that the rest arrives."""

from collections.abc import Iterable, Sequence

import structlog

from collector.delivery.batch_rows import Batch
from collector.delivery.queue import BatchQueue
from collector.sample_runs import one_sample
from domain.clock import MICROSECONDS, Clock
from domain.errors import InputError
from domain.series import COLLECTOR_QUEUED
from victoriametrics.connection import BodyTooLargeError
from victoriametrics.encode import encode
from victoriametrics.limits import Unusable, unusable_lines
from victoriametrics.push import Pusher, ServerState

_UNKEPT = "the store keeps nothing of that time"

log = structlog.get_logger()


class Sieve:
    """Between one queue and one store."""

    def __init__(self, node: str, queue: BatchQueue, pusher: Pusher, clock: Clock) -> None:
        self._node = node
        self._queue = queue
        self._pusher = pusher
        self._clock = clock

    def kept(self, batches: Iterable[Batch], store: ServerState) -> list[Batch]:
        """What of these seconds the store would keep. The rest never can be delivered: it would take and drop it.

        Seconds were sampled by a clock that was wrong and has been set, or waited for longer than the store keeps any.
        Lines have too many labels, or too long ones.
        """
        found = list(batches)
        unkept = [batch for batch in found if batch.second_s not in store.kept_s]
        for batch in unkept:
            self._queue.refuse(batch, [Unusable(line, _UNKEPT) for line in batch.lines])
            found.remove(batch)
        if unkept:
            log.error(
                "seconds_refused",
                node=self._node,
                first_s=unkept[0].second_s,
                last_s=unkept[-1].second_s,
                seconds=len(unkept),
                error=_UNKEPT,
            )
        return [left for batch in found if (left := self._set_aside(batch, unusable_lines(batch.body, store.limits)))]

    def push(self, batch: Batch, error: InputError | BodyTooLargeError) -> None:
        """Send a second that the store has called unusable, or too large: all but those lines that it refuses alone.

        Raises InputError where it refuses what is known to be good: then a door is shut, and no line is to blame. Nor
        is it of one that is too large alone, for which BodyTooLargeError is raised.
        """
        now_s = self._clock.now_us() // MICROSECONDS
        self._pusher.push(encode([one_sample(COLLECTOR_QUEUED, {"node": self._node}, now_s, len(self._queue))]))
        left = self._set_aside(batch, self._refused(batch.lines, error))
        if left is not None:
            self._queue.delivered([left.second_s], round(self._clock.monotonic_s() * MICROSECONDS))

    def _refused(self, lines: Sequence[bytes], error: InputError | BodyTooLargeError) -> list[Unusable]:
        """Of lines that were refused together those that are refused alone; the others are sent."""
        if len(lines) <= 1:
            if isinstance(error, BodyTooLargeError):
                raise error
            return [Unusable(line, str(error)) for line in lines]
        half = len(lines) // 2
        found: list[Unusable] = []
        for part in (lines[:half], lines[half:]):
            try:
                self._pusher.push(b"".join(line + b"\n" for line in part))
            except (InputError, BodyTooLargeError) as its_error:
                found += self._refused(part, its_error)
        return found

    def _set_aside(self, batch: Batch, unusable: Sequence[Unusable]) -> Batch | None:
        """What is left of the second without these lines, if anything."""
        if not unusable:
            return batch
        log.error(
            "samples_quarantined",
            node=self._node,
            second_s=batch.second_s,
            samples=len(unusable),
            reasons=sorted({each.reason for each in unusable}),
        )
        return self._queue.refuse(batch, unusable)
