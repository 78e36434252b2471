"""Seconds to put into a queue, and those that wait in it."""

import os

from collector.delivery.queue import BatchQueue
from domain.clock import MICROSECONDS
from domain.units import MIB
from victoriametrics.limits import Unusable

SECOND_S = 1_700_000_000
NOW_US = SECOND_S * MICROSECONDS
# More than any test puts into a queue.
SIZE = 64 * MIB


def body_of(second_s: int) -> bytes:
    """What is to be sent of that second."""
    return f'{{"second":{second_s}}}\n'.encode()


def noise(size: int) -> bytes:
    """A body that does not shrink."""
    return os.urandom(size)


def put_all(queue: BatchQueue, seconds: range) -> None:
    """Each with its body, and without a hole."""
    for second_s in seconds:
        queue.put(second_s, body_of(second_s))


def waiting(queue: BatchQueue) -> list[int]:
    """The seconds that are to be sent, as they will be."""
    return [batch.second_s for batch in queue.pending(SIZE)]


def bodies(queue: BatchQueue) -> dict[int, bytes]:
    """What is to be sent of each, in their order."""
    return {batch.second_s: batch.body for batch in queue.pending(SIZE)}


def refuse_oldest(queue: BatchQueue, reason: str = "unusable") -> int:
    """Set all of the oldest second aside that waits; which that is."""
    batch = queue.pending(1)[0]
    queue.refuse(batch, [Unusable(line, reason) for line in batch.lines])
    return batch.second_s
