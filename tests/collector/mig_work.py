"""Two cards with performance metrics beside those of a node under test, one of them in MIG mode, and work on them."""

from typing import NamedTuple

from domain.samples import UNATTRIBUTED
from domain.units import MIB
from tests.collector.faults.node import Node
from tests.collector.faults.work import CARDS, WORK_SECONDS
from tests.fakes.nvml.driver import Can
from tests.fakes.nvml.truth import SECOND_US, Work

# The driver tells rates of such periods in whole percent, which are whole microseconds.
_PERIOD_US = 100_000
_PERCENT_US = _PERIOD_US // 100
SPELLS = 4
_H100 = "NVIDIA H100 80GB HBM3"
# As nvidia-smi numbers the profile 3g.40gb of an H100.
_SHARED = {"gi_id": 1, "gi_profile": 9, "start": 0}
# Where processes run, and whose that proves them to be.
_CGROUPS = {
    "alloc:b": "/system.slice/gputab-b.scope",
    "unit:render.service": "/system.slice/render.service",
    "slurm:9": "/system.slice/slurmstepd.scope/job_9/step_0/user/task_0",
    UNATTRIBUTED: "/user.slice/user-1000.slice/session-4.scope",
}
ALLOCATION, SERVICE, JOB, NOBODY = _CGROUPS


class Compute(NamedTuple):
    """A process that comes and goes: its part of each period in one spell after the other, in percent; None is away."""

    pid: int
    owner: str
    sm_permille: int
    turns: tuple[range | None, ...]


class MigWork:
    """A card in MIG mode with three GPU instances, one of which has two compute instances, and a card without."""

    def __init__(self, node: Node) -> None:
        """To be made before the collector begins."""
        driver, truth = node.driver, node.work.truth
        self.node = node
        self.card = driver.card(CARDS, _H100, mig_mode=1)
        self.plain = driver.card(CARDS + 1, _H100)
        for uuid in (self.card, self.plain):
            truth.simulate(uuid, energy_step_us=SECOND_US)
            # A driver that counts cycles tells by them when it was asked.
            driver.allow(uuid, Can.GPM_COUNTERS)
        driver.quirks(boot_us=node.work.start_us)
        self.card_sms = driver.card_of(self.card).sms
        self._small, self._large = (driver.instance(CARDS, row, f"{row + 1}c.3g.40gb", **_SHARED) for row in range(2))
        other, least = (driver.create_instance(self.card, profile) for profile in ("2g.20gb", "1g.10gb"))
        self.sms = {self._small: 60, other: 32, least: 16}
        """The GPU instances, by the first of their compute instances, and how many SMs each has."""
        self.seconds = range(0)
        self.places: dict[int, str] = {}
        """The card or compute instance that each process runs on, by PID."""
        self._computes = {
            # As busy as each other, more and less busy, alone.
            self._small: [Compute(201, ALLOCATION, 700, (range(30), range(60), None, range(25)))],
            self._large: [Compute(202, SERVICE, 1_000, (range(30), range(10), range(45), None))],
            # In the end two owners on one compute instance.
            other: [
                Compute(211, JOB, 850, (range(20), range(80), range(55), range(50))),
                Compute(212, SERVICE, 400, (None, None, None, range(50, 70))),
            ],
            # Of nobody, or empty.
            least: [Compute(221, NOBODY, 1_000, (None, range(90), range(35), None))],
            self.plain: [
                Compute(231, ALLOCATION, 600, (range(40), range(20), range(70), range(30))),
                Compute(232, NOBODY, 900, (range(70, 74), range(75, 79), range(70, 74), range(70, 74))),
                Compute(233, JOB, 500, (range(80, 95), range(80, 100), range(80, 90), range(80, 99))),
            ],
        }

    def compute_sms(self, pid: int) -> int:
        """How many SMs the compute instance has in which that process runs."""
        sms: int = self.node.driver.at(self.places[pid]).sms
        return sms

    def spell(self, second_s: int) -> int:
        """Which of its four spells the work was in then."""
        return (second_s - self.seconds.start) // WORK_SECONDS % SPELLS

    def run(self, seconds: range) -> None:
        """Let the work of these seconds be done, in spells of `WORK_SECONDS`."""
        self.seconds = seconds
        for uuid, computes in self._computes.items():
            for compute in computes:
                self.node.work.owners[compute.pid] = compute.owner
                self.node.processes.process(compute.pid, _CGROUPS[compute.owner])
                self.places[compute.pid] = uuid
                for spell, from_s in enumerate(range(seconds.start, seconds.stop, WORK_SECONDS)):
                    turn = compute.turns[spell % SPELLS]
                    if turn is not None:
                        self._run(uuid, compute, spell, from_s, turn)

    def _run(self, uuid: str, compute: Compute, spell: int, from_s: int, turn: range) -> None:
        work = Work(
            compute.pid,
            # Not a whole number of anything.
            compute.pid * MIB + 4_097 * spell + 1,
            from_s * SECOND_US,
            (from_s + WORK_SECONDS) * SECOND_US,
            _PERIOD_US,
            turn.start * _PERCENT_US,
            len(turn) * _PERCENT_US,
            compute.sm_permille,
        )
        self.node.work.truth.run(uuid, work)
