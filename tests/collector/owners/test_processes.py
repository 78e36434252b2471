"""Processes from second to second: whose a PID is, while it is the same process's."""

import os
import subprocess
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from collector.owners.processes import Processes, ProcessTable, sees_host_processes
from collector.owners.records import OwnerRecords
from tests.fakes.nvml.processes import ProcTree

CONTAINER = "0123456789abcdef" * 4


@pytest.fixture
def records(tmp_path: Path) -> Path:
    folder = tmp_path / "owners"
    folder.mkdir(mode=0o755)
    return folder


@pytest.fixture
def table(proc: ProcTree, records: Path) -> ProcessTable:
    return ProcessTable(proc.root, OwnerRecords(records))


@pytest.fixture
def processes(table: ProcessTable) -> Processes:
    return Processes(table)


def test_a_process_is_told_by_its_pid_and_start(proc: ProcTree, processes: Processes) -> None:
    """A6: PID 4242 ends, and a new 4242 of another tenant starts within the second."""
    proc.process(4242, "/system.slice/gputab-a.scope", started=100)
    before = processes.look([4242])
    proc.process(4242, "/system.slice/gputab-b.scope", started=101)
    after = processes.look([4242])

    assert (before.owners, before.replaced) == ({4242: "alloc:a"}, set())
    assert (after.owners, after.replaced) == ({4242: "alloc:b"}, {4242})
    assert processes.look([4242]).replaced == set(), "in the next second it is the same as before"


def test_a_pid_that_passes_from_nobody_to_a_tenant_is_another_process(proc: ProcTree, processes: Processes) -> None:
    """A6, where nothing was proved of the first."""
    proc.process(4242, "/init.scope", started=100)
    processes.look([4242])
    proc.process(4242, "/system.slice/gputab-b.scope", started=101)

    assert processes.look([4242]) == ({4242: "alloc:b"}, {4242}, {4242})


def test_a_process_that_is_replaced_while_it_is_looked_at_is_nobodys(proc: ProcTree, records: Path) -> None:
    """A6: its group may be the one's, and its start the other's."""

    class Replacing(ProcessTable):
        def owner(self, pid: int) -> str | None:
            proc.process(pid, "/system.slice/gputab-b.scope", started=101)
            return super().owner(pid)

    proc.process(4242, "/system.slice/gputab-a.scope", started=100)
    processes = Processes(Replacing(proc.root, OwnerRecords(records)))

    assert processes.look([4242]).owners == {}
    assert processes.look([4242]).owners == {4242: "alloc:b"}


def test_what_was_proved_stays_while_the_process_runs(proc: ProcTree, processes: Processes) -> None:
    """A10: a group that is there, is not, and is there again is one owner, with no hole."""
    proc.process(7, "/system.slice/gputab-a.scope")
    owners = [processes.look([7]).owners]
    proc.process(7, "")
    owners.append(processes.look([7]).owners)
    proc.process(7, "/system.slice/gputab-b.scope")
    owners.append(processes.look([7]).owners)

    assert owners == [{7: "alloc:a"}] * 3


def test_a_process_can_yet_be_moved_into_its_unit(proc: ProcTree, processes: Processes) -> None:
    proc.process(7, "/user.slice/user-1000.slice/session-3.scope")
    assert processes.look([7]).owners == {}

    proc.process(7, "/system.slice/gputab-a.scope")
    assert processes.look([7]) == ({7: "alloc:a"}, {7}, set())


def test_a_container_can_yet_be_recorded(proc: ProcTree, processes: Processes, records: Path) -> None:
    """And its owner outlives the record, which whoever ended the container takes away."""
    proc.process(7, f"/system.slice/docker-{CONTAINER}.scope")
    assert processes.look([7]).owners == {}

    record = records / CONTAINER
    record.write_text("alloc:a\n")
    record.chmod(0o644)
    assert processes.look([7]).owners == {7: "alloc:a"}

    record.unlink()
    assert processes.look([7]).owners == {7: "alloc:a"}


def test_a_record_that_was_left_behind_is_nobodys_use(proc: ProcTree, processes: Processes, records: Path) -> None:
    """A9: use ends with the process, whatever file outlives it."""
    record = records / CONTAINER
    record.write_text("alloc:a\n")
    record.chmod(0o644)
    proc.process(7, f"/system.slice/docker-{CONTAINER}.scope")
    assert processes.look([7]).owners == {7: "alloc:a"}

    proc.end(7)
    assert processes.look([]).owners == {}
    proc.process(7, "/init.scope", started=2_000)
    assert processes.look([7]).owners == {}


def test_a_process_that_ended_since_the_driver_named_it_keeps_its_owner(proc: ProcTree, processes: Processes) -> None:
    """But not for ever: once it was off the card, its PID says nothing any more."""
    proc.process(7, "/system.slice/gputab-a.scope")
    processes.look([7])
    proc.end(7)

    assert processes.look([7]) == ({7: "alloc:a"}, set(), set())
    assert processes.look([]).owners == {}
    assert processes.look([7]).owners == {}


def test_a_name_made_to_mislead_does_not_shift_the_fields(proc: ProcTree, processes: Processes) -> None:
    """proc_pid_stat(5): the name is the tenant's to choose, with brackets and spaces."""
    proc.process(7, "/system.slice/gputab-a.scope", started=100, name="x) S 1 1 1 0 -1 (y")
    processes.look([7])
    proc.process(7, "/system.slice/gputab-b.scope", started=101, name="x) S 1 1 1 0 -1 (y")

    assert processes.look([7]).owners == {7: "alloc:b"}


def test_a_process_that_cannot_be_seen_is_nobodys(proc: ProcTree, processes: Processes) -> None:
    """No such PID, no permission (a folder cannot be read as a file, whoever reads), a process without a cgroup."""
    proc.process(7, "")
    (proc.root / "8" / "stat").mkdir(parents=True)
    proc.process(9, "/system.slice/gputab-a.scope")
    (proc.root / "9" / "cgroup").unlink()

    assert processes.look([5, 7, 8, 9]) == ({}, {7, 9}, set())


def test_start_times_are_read_from_the_machines_own_processes(records: Path) -> None:
    """In ticks from boot: later for a child, and gone with it."""
    table = ProcessTable(Path("/proc"), OwnerRecords(records))
    with subprocess.Popen(["sleep", "60"]) as child:
        own, its = table.started(os.getpid()), table.started(child.pid)
        child.kill()
    assert own is not None
    assert its is not None
    assert 0 < own <= its
    assert not table.has(child.pid)


def test_pids_of_another_namespace_are_noticed(proc: ProcTree, records: Path, tmp_path: Path) -> None:
    """A13: a container with PIDs of its own has a 4242, too, that is not the driver's."""
    assert sees_host_processes(proc.root)
    proc.enter_namespace("pid:[4026532451]")
    assert not sees_host_processes(proc.root)
    assert not sees_host_processes(tmp_path / "no-proc")

    with capture_logs() as logs:
        table = ProcessTable(proc.root, OwnerRecords(records))
    assert [log["event"] for log in logs] == ["owners_unknown"]
    assert not table.judge(lists_any=True, sees_any=True)


def test_a_proc_that_shows_none_of_the_listed_processes_is_not_the_drivers(table: ProcessTable) -> None:
    """A13: the namespace is right, and its `/proc` is not. Once one was seen, others have merely ended."""
    assert table.judge(lists_any=False, sees_any=False), "an empty card says nothing"
    assert not table.judge(lists_any=True, sees_any=False)
    assert not table.judge(lists_any=True, sees_any=False)
    assert table.judge(lists_any=True, sees_any=True)
    assert table.judge(lists_any=True, sees_any=False)
