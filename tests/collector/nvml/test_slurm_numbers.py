"""A job of Slurm is found on the card that its processes are on, whatever number Slurm has for that card."""

from collections.abc import Callable

from collector.nvml.source import NvmlSource
from collector.sample_runs import info_runs
from domain.samples import UNATTRIBUTED
from domain.series import GPU_INFO
from domain.units import GIB
from tests.fakes.nvml.driver import FakeDriver
from tests.fakes.nvml.processes import ProcTree

SECOND_S = 1_800_000_000
# Of eight cards on a board whose slots NVML counts by bus: their minor numbers, as jobstats 34 has them.
MINORS = (2, 3, 0, 1, 6, 7, 4, 5)


def test_a_jobs_use_is_of_its_own_card_whatever_its_number(
    driver: FakeDriver, proc: ProcTree, open_source: Callable[[], NvmlSource]
) -> None:
    """A8: Slurm gives job 17 its GPU 0, which is minor number 0 and NVML's index 2. No number joins the two.

    The process is, and for whoever has Slurm's number only, `gpu_info` says UUID, index and minor number together.
    """
    uuids = [driver.card(index, minor=minor, used=4 * GIB) for index, minor in enumerate(MINORS)]
    proc.process(101, "/system.slice/slurmstepd.scope/job_17/step_0/user/task_0")
    driver.process(uuids[MINORS.index(0)], 101, GIB)
    source = open_source()

    owners = {uuid: set(source.read(uuid, SECOND_S)[0].owners) for uuid in uuids}

    assert owners == {uuid: {UNATTRIBUTED, "slurm:17"} if uuid == uuids[2] else {UNATTRIBUTED} for uuid in uuids}
    told = [run.labels for run in info_runs("node-1", SECOND_S, source.inventory()) if run.series is GPU_INFO]
    assert [(each["gpu_uuid"], each["index"], each["minor"]) for each in told] == [
        (uuid, str(index), str(minor)) for index, (uuid, minor) in enumerate(zip(uuids, MINORS, strict=True))
    ]
