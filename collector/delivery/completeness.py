"""The mark that says up to which second everything was delivered or is a hole."""

from collector.delivery.queue import BatchQueue
from collector.sample_runs import one_sample
from domain.clock import MICROSECONDS, Clock
from domain.series import COLLECTOR_COMPLETE_UNTIL
from victoriametrics.encode import encode


class CompletenessMark:
    """The mark of one node, which rides with the samples that are sent next.

    It never goes back, and is never beyond the present second: what was sampled on a clock that has been set back
    since must not vouch for a time to come.
    """

    def __init__(self, node: str, queue: BatchQueue, clock: Clock) -> None:
        self._node = node
        self._queue = queue
        self._clock = clock
        self._due_s: int | None = None
        self._published_s: int | None = None

    @property
    def is_behind(self) -> bool:
        """Whether delivery has come further than was published."""
        return self._next_s() is not None

    def follow(self) -> None:
        """Move on to how far delivery has come. For when the store was just seen to be the one that took it."""
        self._due_s = self._next_s()
        if self._due_s is not None and self._due_s != self._queue.marked_until_s:
            # First on disk: whatever is killed now, no later process says less.
            self._queue.mark(self._due_s)

    def line(self) -> bytes:
        """What is to be pushed for it now; nothing where it has not moved."""
        if self._due_s is None:
            return b""
        now_s = self._clock.now_us() // MICROSECONDS
        return encode([one_sample(COLLECTOR_COMPLETE_UNTIL, {"node": self._node}, now_s, self._due_s)])

    def published(self) -> None:
        """The store has taken the line."""
        if self._due_s is not None:
            self._published_s, self._due_s = self._due_s, None

    def _next_s(self) -> int | None:
        """What would be true now and was not published; None where nothing is."""
        until_s = self._queue.complete_until_s
        if until_s is None:
            return None
        end_s = self._clock.now_us() // MICROSECONDS + 1
        until_s = min(until_s, end_s)
        # One of a time to come was published on a clock that was ahead, too.
        if until_s == self._published_s or until_s < self._queue.marked_until_s <= end_s:
            return None
        return until_s
