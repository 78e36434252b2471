"""A collector in a process of its own that lives seconds as fast as it can, and says what memory the process has.

Real are the driver's library, by ctypes, the loop with its threads, the queue's file and the store, by HTTP. Only the
clock is told to go on.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import structlog

from collector.call_times import CallTimes
from collector.card_readers import CardReaders
from collector.delivery.queue import BatchQueue
from collector.delivery.sender import Sender
from collector.loop import SamplingLoop
from collector.node_state import NodeState
from collector.nvml.source import NvmlSource
from collector.own_metrics import OwnMetrics, OwnValue
from collector.own_values import call_values, clock_values, queue_values
from collector.owners.processes import ProcessTable
from collector.owners.records import OwnerRecords
from collector.sampling_record import SamplingRecord
from collector.steady_clock import SteadyClock
from domain.clock import MICROSECONDS, FrozenClock, SystemClock
from domain.units import MIB
from tests.collector.stores import unchecked
from victoriametrics.push import Pusher

LOOK_SECONDS = 20


def resident_bytes() -> int:
    """What this process holds of the machine's memory: the second number of /proc/self/statm, in pages."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def live(node: str, url: str, folder: Path, seconds: int) -> Iterator[int]:
    """Live the last so many seconds before now; what is held after each `LOOK_SECONDS` of them."""
    first_s = SystemClock().now_us() // MICROSECONDS - seconds
    machine = FrozenClock(first_s * MICROSECONDS)
    clock, calls, record = SteadyClock(machine), CallTimes(machine), SamplingRecord()
    table = ProcessTable(Path("/proc"), OwnerRecords(folder / "owners"))
    with (
        closing(NvmlSource(machine, calls, table, NodeState(folder / "node.json"))) as source,
        closing(BatchQueue(folder / "queue.db", 64 * MIB)) as queue,
        closing(CardReaders(source)) as readers,
        Pusher(url) as pusher,
    ):
        sender = Sender(node, queue, pusher, clock, unchecked)

        def values() -> Iterator[OwnValue]:
            yield from record.values()
            yield from queue_values(queue, clock, sender.delivery_s)
            yield from clock_values(clock, None, sender.store_skew_s)
            yield from source.values()

        own = OwnMetrics(node, values, lambda: (*source.facts(), *call_values(calls)))
        loop = SamplingLoop(
            node, readers, queue, clock, devices=source.inventory, record=record, own=own, wake_sender=lambda: None
        )
        for second_s in range(first_s, first_s + seconds):
            loop.sample(second_s)
            assert sender.deliver()
            assert len(queue) == 0
            machine.advance_us(MICROSECONDS)
            if second_s % LOOK_SECONDS == 0:
                yield resident_bytes()
        assert queue.holes == queue.refused == 0


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    for held in live(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])):
        sys.stdout.write(f"{held}\n")
