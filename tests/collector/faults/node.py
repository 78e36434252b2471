"""A node under test: real `gputab collect`, a fake driver with a known truth, a store, and a door before it."""

import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import pairwise
from pathlib import Path

import polars as pl

from collector.delivery.holes import HoleReason
from collector.delivery.queue import BatchQueue
from collector.process import queue_path
from domain.series import (
    COLLECTOR_COMPLETE_UNTIL,
    COLLECTOR_HOLES,
    COLLECTOR_LATENESS,
    COLLECTOR_MISSED,
    COLLECTOR_QUEUED,
    GPU_BUSY,
    GPU_ENERGY,
    GPU_FIELD_STATE,
    GPU_MEMORY_USED,
    GPU_UP,
    OWNER_COMPUTE,
    OWNER_MEMORY,
    Series,
)
from domain.units import MIB
from tests.collector.collecting import Process, Start, collectors
from tests.collector.doors import Proxy, proxy
from tests.collector.faults.work import NodeWork
from tests.collector.patience import CLOCK, PATIENCE_S, now_s, wait_until
from tests.collector.sent import stored_samples
from tests.collector.stores import OwnStore
from tests.fakes.nvml.driver import FakeDriver
from tests.fakes.nvml.truth import SECOND_US
from tests.fakes.shifted_clock import ShiftedClock
from tests.fakes.shown_processes import ShownProcesses

# No clock that was set for less is believed.
_DOUBT_S = 8


class Node:
    """Everything that a fault can strike, and the work on its cards."""

    def __init__(
        self,
        name: str,
        folder: Path,
        store: OwnStore,
        door: Proxy,
        driver: FakeDriver,
        clock: ShiftedClock,
        processes: ShownProcesses,
    ) -> None:
        self.name = name
        self.store = store
        self.door = door
        self.driver = driver
        self.clock = clock
        self.processes = processes
        self.folder = folder
        # What strikes it, for who reads of a failure.
        self.story = ""
        self.collector: Process | None = None
        # The second in which one with its queue in that folder stood by for the first time.
        self._stood_by_s: dict[str, int] = {}
        self.start_collector: Start | None = None
        self.work = NodeWork(driver, processes)
        self.uuids = self.work.uuids

    def begin(self) -> None:
        """Start the collector, or start it again, and wait until it has."""
        self.collector = self.start("data")

    def start(self, data: str, said: str = "collector_started") -> Process:
        """A collector with its queue in that folder, once it has `said` that it is at work, or something else."""
        assert self.start_collector is not None
        begun = self.log().count(said)
        env = {**self.driver.env(), **self.clock.env(), **self.processes.env()}
        env["LD_PRELOAD"] = f"{self.clock.library}:{self.processes.library}"
        env["GPUTAB_DATA_DIR"] = str(self.folder / data)
        process = self.start_collector("--node", self.name, env=env)
        wait_until(lambda: self.log().count(said) > begun)
        if waits := re.findall(r"event='standing_by' .* from_s=(\d+)", self.log()):
            self._stood_by_s.setdefault(data, int(waits[-1]))
        return process

    def kill(self) -> None:
        """`kill -9` of the collector."""
        if self.collector is not None:
            self.collector.kill()
            self.collector.wait()
            self.collector = None

    def stop(self) -> None:
        """A polite end, whatever waits."""
        assert self.collector is not None
        self.collector.send_signal(signal.SIGTERM)
        assert self.collector.wait(PATIENCE_S) == 0, self.log()
        self.collector = None

    def end(self) -> None:
        """A polite end, when all is delivered."""
        wait_until(self.is_delivered)
        self.stop()

    def set_clock(self, by_s: int) -> None:
        """Set the node's clock, in the last tenth of a second: the driver's is set with it, amid no read."""
        CLOCK.sleep_s((1_900_000 - CLOCK.now_us() % SECOND_US) % SECOND_US / SECOND_US)
        self.clock.set(by_s)
        self.work.clocks.append((now_s(), by_s))

    def ahead_s(self) -> int:
        """How long it takes until the present is where the clock may have been believed to be."""
        clocks = [*self.work.clocks, (now_s(), 0)]
        believed = [
            end_s + by_s for (set_s, by_s), (end_s, _) in pairwise(clocks) if by_s > 0 and end_s - set_s > _DOUBT_S
        ]
        return max(0, max(believed, default=0) + 1 - now_s())

    def log(self) -> str:
        """What strikes the node, and what all its collectors said."""
        return self.story + "".join(path.read_text() for path in sorted(self.folder.glob("log-*"), key=_number))

    def queue_path(self, data: str = "data") -> Path:
        """The queue's file in that folder."""
        return queue_path(self.folder / data, self.name)

    def holes(self) -> dict[HoleReason, int]:
        """Seconds that the collector counted as holes, for each reason."""
        with self._delivered_queue("data") as queue:
            return queue.holes_by_reason

    def deliver(self, data: str) -> None:
        """Let the store have what waits in the queue in that folder, beside the collector that is at work."""
        wait_until(lambda: not self._deliver(data))

    def _deliver(self, data: str) -> int:
        """How much waited a second before, when one that stands by began to deliver it."""
        process = self.start(data, "standing_by")
        CLOCK.sleep_s(1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0, self.log()
        return int(re.findall(r"event='standing_by' .* waiting_seconds=(\d+)", self.log())[-1])

    def sampled_in_place(self, data: str) -> int:
        """How many seconds a collector sampled that stood by at first, its queue, in that folder, being a new one."""
        with self._delivered_queue(data) as queue:
            assert queue.sampled_until_s is not None
            return queue.sampled_until_s - self._stood_by_s[data] - queue.holes

    @contextmanager
    def _delivered_queue(self, data: str) -> Iterator[BatchQueue]:
        """The queue in that folder, of which the store has taken all."""
        with closing(BatchQueue(self.queue_path(data), 64 * MIB)) as queue:
            assert (len(queue), queue.refused, queue.quarantined) == (0, 0, 0)
            yield queue

    def stored(self, start_s: int) -> pl.DataFrame:
        """What tells of the node's cards, of what they did not tell, and of each second that was sampled at all."""
        own = (COLLECTOR_LATENESS, COLLECTOR_MISSED, COLLECTOR_HOLES, COLLECTOR_COMPLETE_UNTIL, GPU_FIELD_STATE)
        used = (GPU_MEMORY_USED, GPU_BUSY, GPU_ENERGY, OWNER_MEMORY, OWNER_COMPUTE)
        return self.samples(start_s, now_s() + 120, GPU_UP, *used, *own)

    def samples(self, start_s: int, end_s: int, *series: Series) -> pl.DataFrame:
        """What the store has of these series of the node in [start_s, end_s)."""
        return stored_samples(self.store.url, series, {"node": self.name}, start_s, end_s)

    def is_delivered(self) -> bool:
        """Whether the store has a second of just now, which says that no more than itself waits."""
        last_s = now_s() + self.clock.by_s
        frame = self.samples(last_s - 5, last_s + 1, COLLECTOR_QUEUED)
        return frame.height > 0 and frame.sort("second_s")["value"][-1] <= 1


def _number(log: Path) -> int:
    return int(log.name.removeprefix("log-"))


@contextmanager
def running_node(folder: Path, library: Path, store: OwnStore, name: str = "box-1") -> Iterator[Node]:
    """A node, with a folder of its own and that library of the fake driver, whose collector has not begun."""
    with ExitStack() as stack:
        door = stack.enter_context(proxy(store.url))
        clock = ShiftedClock(folder)
        stack.callback(clock.close)
        # A copy, since a library that is loaded has one world.
        driver = FakeDriver(Path(shutil.copy(library, folder)))
        node = Node(name, folder, store, door, driver, clock, ShownProcesses(folder))
        node.start_collector = stack.enter_context(collectors(folder, door.url))
        stack.callback(node.driver.clear_faults)
        yield node
