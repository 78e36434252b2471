"""The numbers of each part of a collector, as series."""

from collections.abc import Iterator

from collector.call_times import CallTimes
from collector.delivery.queue import BatchQueue
from collector.own_metrics import OwnValue
from collector.steady_clock import SteadyClock
from domain.clock import MICROSECONDS, Clock
from domain.series import (
    COLLECTOR_CALL_FAILURES,
    COLLECTOR_CALL_LONGEST,
    COLLECTOR_CALL_SECONDS,
    COLLECTOR_CALLS,
    COLLECTOR_CLOCK_SKEW,
    COLLECTOR_CLOCK_STEPS,
    COLLECTOR_DELIVERY,
    COLLECTOR_HOLES,
    COLLECTOR_INFO,
    COLLECTOR_QUARANTINED,
    COLLECTOR_QUEUE_AGE,
    COLLECTOR_QUEUE_BYTES,
    COLLECTOR_QUEUED,
    COLLECTOR_REFUSED,
    COLLECTOR_STORE_SKEW,
)


def queue_values(queue: BatchQueue, clock: Clock, delivery_s: float | None) -> Iterator[OwnValue]:
    """What waits for the store, what it will never have and why, and how soon it had the last; None before that."""
    oldest_s = queue.oldest_s
    now_s = clock.now_us() // MICROSECONDS
    yield OwnValue(COLLECTOR_QUEUED, len(queue))
    yield OwnValue(COLLECTOR_QUEUE_BYTES, queue.size_bytes)
    # After a clock was set back, what waits may lie ahead of it.
    yield OwnValue(COLLECTOR_QUEUE_AGE, 0 if oldest_s is None else max(0, now_s - oldest_s))
    own = {"collector": queue.identity}
    for reason, seconds in queue.holes_by_reason.items():
        yield OwnValue(COLLECTOR_HOLES, seconds, {**own, "reason": str(reason)})
    yield OwnValue(COLLECTOR_REFUSED, queue.refused, own)
    yield OwnValue(COLLECTOR_QUARANTINED, queue.quarantined, own)
    if delivery_s is not None:
        yield OwnValue(COLLECTOR_DELIVERY, round(delivery_s, 6))


def queue_facts(queue: BatchQueue) -> Iterator[OwnValue]:
    """Whose samples these are, where several collectors should tell of a node."""
    yield OwnValue(COLLECTOR_INFO, 1, {"collector": queue.identity})


def clock_values(clock: SteadyClock, skew_us: int | None, store_skew_s: float | None) -> Iterator[OwnValue]:
    """How the node's clock stands, and how far the allocator's and the store's are ahead; None where not known."""
    yield OwnValue(COLLECTOR_CLOCK_STEPS, clock.steps)
    if skew_us is not None:
        yield OwnValue(COLLECTOR_CLOCK_SKEW, skew_us / MICROSECONDS)
    if store_skew_s is not None:
        yield OwnValue(COLLECTOR_STORE_SKEW, round(store_skew_s, 6))


def call_values(calls: CallTimes) -> Iterator[OwnValue]:
    """How long the driver takes for each of its functions, and how often it fails them."""
    for call, time in calls.times().items():
        labels = {"call": call}
        yield OwnValue(COLLECTOR_CALLS, time.calls, labels)
        yield OwnValue(COLLECTOR_CALL_SECONDS, round(time.seconds, 6), labels)
        yield OwnValue(COLLECTOR_CALL_LONGEST, round(time.longest_seconds, 6), labels)
    for (call, error), failures in calls.failures().items():
        yield OwnValue(COLLECTOR_CALL_FAILURES, failures, {"call": call, "error": error})
