"""What runs on the cards of a node under test: of two owners and of nobody, and all of it is known."""

from collections.abc import Mapping
from fractions import Fraction

from domain.samples import UNATTRIBUTED
from domain.units import MIB
from tests.collector.patience import now_s
from tests.fakes.nvml.driver import FakeDriver
from tests.fakes.nvml.processes import ProcTree
from tests.fakes.nvml.truth import SECOND_US, GroundTruth, Work

CARDS = 4
# Whole seconds, so that what a card uses does not change within one.
WORK_SECONDS = 4
# The driver tells rates of such periods in whole percent, which are whole microseconds.
_PERIOD_US = 100_000
_PERCENT_US = _PERIOD_US // 100
# Where the processes of each card run, and whose that proves them to be.
_CGROUPS = {
    "alloc:a": "/system.slice/gputab-a.scope",
    "slurm:7": "/system.slice/slurmstepd.scope/job_7/step_0/user/task_0",
    UNATTRIBUTED: "/user.slice/user-1000.slice/session-3.scope",
}


class NodeWork:
    """The work on four cards, which takes turns there, and what was true of it whatever struck the node."""

    def __init__(self, driver: FakeDriver, processes: ProcTree) -> None:
        """Makes the cards of `driver`; their processes are found in `processes`."""
        self._driver = driver
        self._processes = processes
        self.uuids = [driver.card(index) for index in range(CARDS)]
        self.start_us = (now_s() - 60) * SECOND_US
        """Since when energy is counted."""
        self.truth = GroundTruth(driver, self.start_us)
        self.owners: dict[int, str] = {}
        """Whose each process is, by PID."""
        self.loads: list[range] = []
        """The second, or two, in which the driver was loaded each time: its counters begin again then."""
        self.clocks: list[tuple[int, int]] = [(0, 0)]
        """Since which second of the machine's clock the node's is ahead of it, and by how many."""

    def run(self, seconds: range) -> None:
        """Let each card be used in these seconds: the first owner does other work every 4 s, the others do the same.

        The counters of energy move by whole seconds: whenever within one they are read, they say the same.
        """
        for index, uuid in enumerate(self.uuids):
            self.truth.simulate(uuid, energy_step_us=SECOND_US)
            first, second, nobody = pids = range(100 + 10 * index, 103 + 10 * index)
            for pid, owner in zip(pids, _CGROUPS, strict=True):
                self.owners[pid] = owner
                self._processes.process(pid, _CGROUPS[owner])
            self._run(uuid, nobody, 64, seconds, range(4))
            self._run(uuid, second, 512 + index, seconds, range(4, 15))
            for number, from_s in enumerate(range(seconds.start, seconds.stop, WORK_SECONDS)):
                percent = 10 + 7 * ((number + index) % 8)
                memory_mib = 1_024 + 8 * (number % 512) + index
                self._run(uuid, first, memory_mib, range(from_s, from_s + WORK_SECONDS), range(15, 15 + percent))

    def by_owner(self, by_pid: Mapping[int, float | Fraction]) -> dict[str, float]:
        """Summed up by owner, among whom is always `unattributed`."""
        found: dict[str, float] = {UNATTRIBUTED: 0}
        for pid, number in by_pid.items():
            owner = self.owners[pid]
            found[owner] = found.get(owner, 0) + float(number)
        return found

    def load_driver(self) -> None:
        """Load the driver again."""
        before_s = now_s()
        self._driver.load()
        self.loads.append(range(before_s, now_s() + 1))

    def read_at(self, second_s: int) -> list[int]:
        """The seconds of the machine's clock in which that second of the node's may have been sampled."""
        until_s = [since_s for since_s, _ in self.clocks[1:]] + [now_s()]
        spans = zip(self.clocks, until_s, strict=True)
        return [second_s - by_s for (since_s, by_s), end_s in spans if since_s <= second_s - by_s <= end_s]

    def _run(self, uuid: str, pid: int, memory_mib: int, seconds: range, turn: range) -> None:
        """Let a process run on a card; `turn` is its part of each period, in percent of it."""
        work = Work(
            pid,
            memory_mib * MIB,
            seconds.start * SECOND_US,
            seconds.stop * SECOND_US,
            _PERIOD_US,
            turn.start * _PERCENT_US,
            len(turn) * _PERCENT_US,
        )
        self.truth.run(uuid, work)
