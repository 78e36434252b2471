"""`gputab doctor` on a card that several share and of which the driver tells no owner's part."""

from pathlib import Path

import pytest

from collector.call_times import CallTimes
from collector.node_state import NodeState
from collector.nvml.source import NvmlSource
from collector.owners.processes import ProcessTable
from collector.owners.records import OwnerRecords
from domain.clock import FrozenClock, SystemClock
from domain.series import OWNER_COMPUTE, OWNER_MEMORY
from domain.units import GIB
from gputab.doctor.devices import examine
from tests.fakes.nvml.driver import Can, FakeDriver
from tests.fakes.nvml.processes import ProcTree

NOT_AVAILABLE = 2**64 - 1


@pytest.mark.parametrize(
    ("used_bytes", "memory_owners", "proved_bytes"),
    [(GIB, 3, 2 * GIB), (NOT_AVAILABLE, 0, None)],
    ids=["memory by process", "memory of none"],
)
def test_what_nobody_splits_is_told_as_one_owners_by_the_rule_shared(
    driver: FakeDriver,
    proc: ProcTree,
    tmp_path: Path,
    used_bytes: int,
    memory_owners: int,
    proved_bytes: int | None,
) -> None:
    """A1: it is `unattributed`, whose ratio is no sign that bytes by owner are told, or are nobody's."""
    clock = SystemClock()
    uuid = driver.card(0, used=4 * GIB, busy_percent=90)
    driver.deny(uuid, Can.PROCESS_UTILIZATION)
    for pid in (101, 102):
        proc.process(pid, f"/system.slice/gputab-{pid}.scope")
        driver.process(uuid, pid, used_bytes)
    table = ProcessTable(proc.root, OwnerRecords(tmp_path / "owners"))
    source = NvmlSource(clock, CallTimes(clock), table, NodeState(None))

    (report,), _ = examine(source, FrozenClock(clock.now_us()))
    source.close()

    told = {each.series: each for each in report.series}
    assert (told[OWNER_COMPUTE].parts, told[OWNER_COMPUTE].source) == (1, "nvml shared")
    assert told[OWNER_MEMORY].parts == memory_owners
    assert told[OWNER_MEMORY].state == ("" if memory_owners else "unsupported")
    assert report.proved_bytes == proved_bytes
