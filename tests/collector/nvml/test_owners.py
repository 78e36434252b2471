"""The memory of real cards by owner: what the driver's process lists and the cgroups behind them prove."""

from collections.abc import Callable

import pynvml
import pytest
from structlog.testing import capture_logs

from collector.nvml.source import NvmlSource
from collector.ranges import refuse_garbage
from domain.samples import UNATTRIBUTED, DeviceReading
from domain.series import GPU_MEMORY_USED, GPU_UP, OWNER_MEMORY
from domain.units import GIB, MIB
from tests.fakes.nvml.driver import FakeDriver
from tests.fakes.nvml.processes import ProcTree

SECOND_S = 1_700_000_000
NOT_AVAILABLE = 2**64 - 1
LISTS = [f"nvmlDeviceGet{kind}RunningProcesses_v3" for kind in ("Compute", "Graphics", "MPSCompute")]

Open = Callable[[], NvmlSource]


def _owners(reading: DeviceReading) -> dict[str, int]:
    """As they leave the node, and that they sum to the device."""
    checked = refuse_garbage(reading)
    owners = {owner: use.memory_bytes for owner, use in checked.reading.owners.items()}
    assert sum(owners.values()) == reading.values[GPU_MEMORY_USED]
    assert all(use.compute_ratio is None for use in checked.reading.owners.values()), "compute is not split yet"
    return owners


def _only(source: NvmlSource, uuid: str) -> DeviceReading:
    (reading,) = source.read(uuid, SECOND_S)
    return reading


def test_memory_is_split_by_whose_processes_use_it(driver: FakeDriver, proc: ProcTree, open_source: Open) -> None:
    """Two processes of one allocation are summed; what no owner is proved of is `unattributed`."""
    uuid = driver.card(0, used=10 * GIB)
    for pid, cgroup, used_bytes in (
        (101, "/system.slice/gputab-al_1.scope", 2 * GIB),
        (102, "/system.slice/gputab-al_1.scope", 1 * GIB),
        (103, "/system.slice/slurmstepd.scope/job_17/step_0/user/task_0", 3 * GIB),
        (104, f"/system.slice/docker-{'0' * 64}.scope", 512 * MIB),
    ):
        proc.process(pid, cgroup)
        driver.process(uuid, pid, used_bytes)
    driver.process(uuid, 105, 256 * MIB)

    reading = _only(open_source(), uuid)

    assert refuse_garbage(reading).refused == ()
    assert _owners(reading) == {"alloc:al_1": 3 * GIB, "slurm:17": 3 * GIB, UNATTRIBUTED: 4 * GIB}


def test_a_process_on_several_lists_counts_once(driver: FakeDriver, proc: ProcTree, open_source: Open) -> None:
    """One that computes and draws (C+G), and a client of MPS (M+C)."""
    uuid = driver.card(0, used=4 * GIB)
    proc.process(101, "/system.slice/gputab-a.scope")
    proc.process(102, "/system.slice/gputab-b.scope")
    driver.process(uuid, 101, GIB, "compute")
    driver.process(uuid, 101, GIB, "graphics")
    driver.process(uuid, 102, NOT_AVAILABLE, "compute")
    driver.process(uuid, 102, GIB, "mps")

    assert _owners(_only(open_source(), uuid)) == {"alloc:a": GIB, "alloc:b": GIB, UNATTRIBUTED: 2 * GIB}


def test_bytes_that_the_driver_does_not_say_are_not_made_up(
    driver: FakeDriver, proc: ProcTree, open_source: Open
) -> None:
    """A5: 2^64-1 is "not available", and neither 17,592,186,044,415 MiB nor 0."""
    uuid = driver.card(0, used=4 * GIB)
    proc.process(101, "/system.slice/gputab-a.scope")
    driver.process(uuid, 101, NOT_AVAILABLE)

    assert _owners(_only(open_source(), uuid)) == {UNATTRIBUTED: 4 * GIB}


def test_more_processes_than_the_bindings_first_ask_for(driver: FakeDriver, proc: ProcTree, open_source: Open) -> None:
    uuid = driver.card(0, used=16 * MIB)
    for pid in range(101, 117):
        proc.process(pid, f"/system.slice/gputab-{pid}.scope")
        driver.process(uuid, pid, MIB)

    assert _owners(_only(open_source(), uuid)) == {
        **{f"alloc:{pid}": MIB for pid in range(101, 117)},
        UNATTRIBUTED: 0,
    }


@pytest.mark.parametrize(
    "code", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, pynvml.NVML_ERROR_UNKNOWN]
)
def test_a_list_the_driver_does_not_give_is_no_split_and_no_error(
    driver: FakeDriver, proc: ProcTree, open_source: Open, code: int
) -> None:
    """A driver before 510 lacks the calls; the rest of the card is read all the same."""
    uuid = driver.card(0, used=4 * GIB)
    proc.process(101, "/system.slice/gputab-a.scope")
    for kind in ("compute", "mps"):
        driver.process(uuid, 101, GIB, kind)
    source = open_source()
    driver.fault(code, LISTS[0])
    driver.fault(code, LISTS[1])
    assert _owners(_only(source, uuid)) == {"alloc:a": GIB, UNATTRIBUTED: 3 * GIB}, "one list is enough"

    driver.fault(code, LISTS[2])
    assert _owners(_only(source, uuid)) == {UNATTRIBUTED: 4 * GIB}


def test_a_card_lost_while_its_processes_are_listed_is_lost(driver: FakeDriver, open_source: Open) -> None:
    uuid = driver.card(0, used=GIB)
    source = open_source()
    driver.fault(pynvml.NVML_ERROR_GPU_IS_LOST, LISTS[0])

    assert (_only(source, uuid).values, _only(source, uuid).owners) == ({GPU_UP: 0}, {})


def test_processes_that_claim_more_than_is_used_are_not_believed_and_counted(
    driver: FakeDriver, proc: ProcTree, open_source: Open
) -> None:
    uuid = driver.card(0, used=4 * GIB)
    for pid in (101, 102):
        proc.process(pid, f"/system.slice/gputab-{pid}.scope")
        driver.process(uuid, pid, 3 * GIB)

    reading = _only(open_source(), uuid)

    assert refuse_garbage(reading).refused == (OWNER_MEMORY,)
    assert _owners(reading) == {UNATTRIBUTED: 4 * GIB}


def test_swapped_numbers_of_an_early_535_driver_bill_nobody(
    driver: FakeDriver, proc: ProcTree, open_source: Open
) -> None:
    """A4: entries of 32 bytes read as 24 give a PID of 1073741824 and 4242 bytes."""
    uuid = driver.card(0, used=4 * GIB)
    proc.process(4242, "/system.slice/gputab-a.scope")
    driver.process(uuid, 1_073_741_824, 4_242)

    assert _owners(_only(open_source(), uuid)) == {UNATTRIBUTED: 4 * GIB}


def test_pids_of_another_namespace_are_not_looked_up_and_it_is_said_once(
    driver: FakeDriver, proc: ProcTree, open_source: Open
) -> None:
    """A13: this 4242 is ours, the driver's is another's."""
    uuid = driver.card(0, used=4 * GIB)
    proc.process(4242, "/system.slice/gputab-a.scope")
    driver.process(uuid, 4242, GIB)
    proc.enter_namespace("pid:[4026532451]")

    with capture_logs() as logs:
        source = open_source()
        readings = [_only(source, uuid) for _ in range(3)]

    assert [_owners(reading) for reading in readings] == [{UNATTRIBUTED: 4 * GIB}] * 3
    assert [log["event"] for log in logs] == ["owners_unknown"]


def test_owners_follow_processes_from_second_to_second(driver: FakeDriver, proc: ProcTree, open_source: Open) -> None:
    uuid = driver.card(0, used=4 * GIB)
    source = open_source()
    assert _owners(_only(source, uuid)) == {UNATTRIBUTED: 4 * GIB}

    proc.process(101, "/system.slice/gputab-a.scope", started=1)
    driver.process(uuid, 101, GIB)
    assert _owners(_only(source, uuid)) == {"alloc:a": GIB, UNATTRIBUTED: 3 * GIB}

    proc.process(101, "/system.slice/gputab-b.scope", started=2)
    assert _owners(_only(source, uuid)) == {"alloc:b": GIB, UNATTRIBUTED: 3 * GIB}

    driver.end_processes(uuid)
    assert _owners(_only(source, uuid)) == {UNATTRIBUTED: 4 * GIB}


def test_each_instance_has_its_own_owners_and_the_card_has_none(
    driver: FakeDriver, proc: ProcTree, open_source: Open
) -> None:
    """One PID on two instances is two claims; a process of no known instance is nobody's."""
    card = driver.card(0, total=80 * GIB, used=10 * GIB, mig_mode=1)
    sizes = {"size": 1, "sms": 16, "memory_mib": 9_984, "total": 9_984 * MIB}
    first = driver.instance(0, 0, "1g.10gb", gi_id=7, start=0, used=4 * GIB, **sizes)
    second = driver.instance(0, 1, "1g.10gb", gi_id=8, start=1, used=3 * GIB, **sizes)
    proc.process(101, "/system.slice/gputab-a.scope")
    proc.process(102, "/system.slice/gputab-b.scope")
    driver.process(first, 101, 2 * GIB)
    driver.process(second, 101, GIB)
    driver.process(second, 102, GIB)
    driver.process(card, 102, GIB)

    whole, *instances = open_source().read(card, SECOND_S)

    assert whole.owners == {}
    assert {each.mig_uuid: _owners(each) for each in instances} == {
        first: {"alloc:a": 2 * GIB, UNATTRIBUTED: 2 * GIB},
        second: {"alloc:a": GIB, "alloc:b": GIB, UNATTRIBUTED: GIB},
    }


def test_two_compute_instances_of_one_gpu_instance_share_its_memory(
    driver: FakeDriver, proc: ProcTree, open_source: Open
) -> None:
    """M6: the processes of both are the GPU instance's, whichever of the two stands for it."""
    card = driver.card(0, total=80 * GIB, used=10 * GIB, mig_mode=1)
    sizes = {"gi_id": 2, "start": 0, "size": 4, "sms": 60, "memory_mib": 40_448, "total": 40_448 * MIB}
    devices = [
        driver.instance(0, index, profile, used=8 * GIB, **sizes)
        for index, profile in enumerate(("1c.3g.40gb", "2c.3g.40gb"))
    ]
    for pid, device in zip((101, 102), devices, strict=True):
        proc.process(pid, f"/system.slice/gputab-{pid}.scope")
        driver.process(device, pid, GIB)

    _, instance = open_source().read(card, SECOND_S)

    assert _owners(instance) == {"alloc:101": GIB, "alloc:102": GIB, UNATTRIBUTED: 6 * GIB}
