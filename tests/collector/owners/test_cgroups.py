"""Whose a process is: what its cgroup proves, and nothing that a tenant could have written."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.owners.cgroups import cgroup_owner
from collector.owners.processes import Processes, sees_host_processes
from collector.owners.split import split
from domain.samples import UNATTRIBUTED
from tests.fakes.nvml.processes import ProcTree

CASES = Path(__file__).parents[3] / "shared" / "data" / "samples" / "cgroup" / "proc-cgroup-lines.tsv"
CONTAINER = "0123456789abcdef" * 4
POD = "2fc932ce-fdcc-454b-97bd-aadfdeb4c340"


def _cases() -> list[tuple[str, str, str]]:
    rows = [line.split("\t") for line in CASES.read_text().splitlines() if not line.startswith("#")]
    return [
        (name, text.replace("\\\\", "\0").replace("\\n", "\n").replace("\0", "\\"), expected)
        for name, text, expected in rows
    ]


@pytest.mark.skipif(not CASES.exists(), reason="shared data is not beside the checkout")
def test_cgroups_as_they_are_seen_in_the_field() -> None:
    """The recorded owner, as far as it is of a kind that gputab proves; nobody for all other kinds."""
    cases = _cases()
    found = {name: cgroup_owner(text) for name, text, _ in cases}

    expected = {
        name: ":".join(owner.split(":")[:2]) if owner.startswith(("slurm:", "pod:", "unit:")) else None
        for name, _, owner in cases
    }
    assert found == expected
    assert len(cases) == 27
    assert sum(owner is not None for owner in found.values()) == 16


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        ("/system.slice/gputab-al_1f.scope", "alloc:al_1f"),
        ("/system.slice/gputab-al_1f.service/train", "alloc:al_1f"),
        ("/gputab.slice/gputab-al_1f.slice/run-r2.scope", "alloc:al_1f"),
        ("/gputab.slice/gputab-al_1f.slice/worker.service", "alloc:al_1f"),
        (f"/gputab.slice/gputab-al_1f.slice/docker-{CONTAINER}.scope", "alloc:al_1f"),
        ("/gputab.slice/gputab-outer.slice/gputab-inner.scope", "alloc:inner"),
        (r"/system.slice/gputab-team\x2da\x2f7.scope", "alloc:team-a/7"),
        ("/system.slice/gputab-collector-1.service", "unit:gputab-collector-1.service"),
        ("/system.slice/gputab.service", "unit:gputab.service"),
        ("/system.slice/inference@tenant-a.service", "unit:inference@tenant-a.service"),
        ("/tenants.slice/tenants-a.slice/serve.service (deleted)", "unit:serve.service"),
        (f"/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-{CONTAINER}.scope", f"pod:{POD}"),
        ("/system.slice/slurmstepd.scope/job_77", "slurm:77"),
    ],
)
def test_what_root_has_named_is_proof(path: str, owner: str) -> None:
    assert cgroup_owner(f"0::{path}\n") == owner


@pytest.mark.parametrize(
    "path",
    [
        # A user's own manager starts whatever unit its user asks for.
        "/user.slice/user-1000.slice/user@1000.service/app.slice/gputab-victim.service",
        "/user.slice/user-1000.slice/user@1000.service/gputab-victim.slice/x.scope",
        f"/user.slice/user-1000.slice/user@1000.service/kubepods-pod{POD.replace('-', '_')}.slice",
        "/user.slice/user-1000.slice/user@1000.service/slurmstepd.scope/job_5",
        # A container that may write its own cgroup.
        f"/system.slice/docker-{CONTAINER}.scope/gputab-victim.scope",
        f"/system.slice/docker-{CONTAINER}.scope/kubepods/pod{POD}",
        f"/docker/{CONTAINER}/slurm/uid_0/job_5",
        # What is outside of our cgroup namespace has lost its beginning, which was the proof.
        "/../gputab-victim.scope",
        "/../../system.slice/gputab-victim.scope",
        "/user.slice/user-1000.slice/session-3.scope",
        "/system.slice/dockerd-like.scope",
        "/init.scope",
        "/",
    ],
)
def test_what_a_tenant_may_have_named_is_not(path: str) -> None:
    assert cgroup_owner(f"0::{path}\n") is None


@pytest.mark.parametrize(
    "below",
    ["gputab-victim.scope", "slurmstepd.scope/job_5", f"kubepods/pod{POD}", "other.service", "other.slice/x.service"],
)
def test_a_service_that_may_divide_its_cgroup_stays_itself(below: str) -> None:
    """`Delegate=yes` lets a unit's user make any group in it."""
    assert cgroup_owner(f"0::/system.slice/tenant-a.service/{below}\n") == "unit:tenant-a.service"


def test_a_unit_is_believed_where_no_hierarchy_leads_elsewhere() -> None:
    unit = "1:name=systemd:/system.slice/serve.service\n0::/system.slice/serve.service\n"

    assert cgroup_owner("4:cpuset:/\n3:cpu:/system.slice\n" + unit) == "unit:serve.service"
    assert cgroup_owner(f"4:cpuset:/docker/{CONTAINER}\n" + unit) is None
    assert cgroup_owner("4:cpuset:/system.slice/other.service\n" + unit) is None


@given(st.text())
def test_no_text_is_too_strange(text: str) -> None:
    owner = cgroup_owner(text)

    assert owner is None or owner.startswith(("alloc:", "slurm:", "pod:", "unit:"))


@pytest.fixture
def processes(proc: ProcTree) -> Processes:
    return Processes(proc.root)


def test_a_process_is_told_by_its_pid_and_start(proc: ProcTree, processes: Processes) -> None:
    """A6: PID 4242 ends, and a new 4242 of another tenant starts within the second."""
    proc.process(4242, "/system.slice/gputab-a.scope", started=100)
    assert processes.owners([4242]) == {4242: "alloc:a"}

    proc.process(4242, "/system.slice/gputab-b.scope", started=101)
    assert processes.owners([4242]) == {4242: "alloc:b"}


def test_what_was_proved_stays_while_the_process_runs(proc: ProcTree, processes: Processes) -> None:
    proc.process(7, "/system.slice/gputab-a.scope")
    processes.owners([7])
    proc.process(7, "/system.slice/gputab-b.scope")

    assert processes.owners([7]) == {7: "alloc:a"}


def test_a_process_can_yet_be_moved_into_its_unit(proc: ProcTree, processes: Processes) -> None:
    proc.process(7, "/user.slice/user-1000.slice/session-3.scope")
    assert processes.owners([7]) == {}

    proc.process(7, "/system.slice/gputab-a.scope")
    assert processes.owners([7]) == {7: "alloc:a"}


def test_a_process_that_ended_since_the_driver_named_it_keeps_its_owner(proc: ProcTree, processes: Processes) -> None:
    """But not for ever: once it was off the card, its PID says nothing any more."""
    proc.process(7, "/system.slice/gputab-a.scope")
    processes.owners([7])
    proc.end(7)

    assert processes.owners([7]) == {7: "alloc:a"}
    assert processes.owners([]) == {}
    assert processes.owners([7]) == {}


def test_a_name_made_to_mislead_does_not_shift_the_fields(proc: ProcTree, processes: Processes) -> None:
    """proc_pid_stat(5): the name is the tenant's to choose, with brackets and spaces."""
    proc.process(7, "/system.slice/gputab-a.scope", started=100, name="x) S 1 1 1 0 -1 (y")
    processes.owners([7])
    proc.process(7, "/system.slice/gputab-b.scope", started=101, name="x) S 1 1 1 0 -1 (y")

    assert processes.owners([7]) == {7: "alloc:b"}


def test_a_process_that_cannot_be_seen_is_nobodys(proc: ProcTree, processes: Processes) -> None:
    """No such PID, no permission (a folder cannot be read as a file, whoever reads), a process without a cgroup."""
    proc.process(7, "")
    (proc.root / "8" / "stat").mkdir(parents=True)
    proc.process(9, "/system.slice/gputab-a.scope")
    (proc.root / "9" / "cgroup").unlink()

    assert processes.owners([5, 7, 8, 9]) == {}


def test_start_times_are_read_from_the_machines_own_processes() -> None:
    """In ticks from boot: later for a child, and gone with it."""
    processes = Processes()
    with subprocess.Popen(["sleep", "60"]) as child:
        own, its = processes._start_time(os.getpid()), processes._start_time(child.pid)
        child.kill()
    assert own is not None
    assert its is not None
    assert 0 < own <= its
    assert processes._start_time(child.pid) is None


def test_pids_of_another_namespace_are_noticed(proc: ProcTree, tmp_path: Path) -> None:
    """A13: a container with PIDs of its own has a 4242, too, that is not the driver's."""
    assert sees_host_processes(proc.root)
    proc.enter_namespace("pid:[4026532451]")
    assert not sees_host_processes(proc.root)
    assert not sees_host_processes(tmp_path / "no-proc")


def test_a_process_without_bytes_adds_nothing_to_its_owner() -> None:
    """A5: of two processes one is not told: the owner has at least the other's bytes."""
    uses = split(100, {1: 30, 2: None, 3: None}, {1: "alloc:a", 2: "alloc:a", 3: "alloc:b"})

    assert {owner: use.memory_bytes for owner, use in uses.items()} == {"alloc:a": 30, UNATTRIBUTED: 70}


@given(
    used_bytes=st.integers(0, 2**40),
    claims=st.dictionaries(st.integers(1, 20), st.none() | st.integers(0, 2**38)),
    owners=st.dictionaries(st.integers(1, 20), st.sampled_from(["alloc:a", "alloc:b", "pod:c"])),
)
def test_owners_sum_to_the_device_unless_processes_claim_more_than_is_used(
    used_bytes: int, claims: dict[int, int | None], owners: dict[int, str]
) -> None:
    uses = split(used_bytes, claims, owners)

    claimed = sum(each or 0 for each in claims.values())
    assert sum(use.memory_bytes for use in uses.values()) == max(used_bytes, claimed)
    for owner in set(owners.values()):
        its = [each for pid, each in claims.items() if owners.get(pid) == owner and each is not None]
        assert (uses[owner].memory_bytes if its else 0) == sum(its)
        assert (owner in uses) == bool(its), "who has no process on it has no part, not a part of 0"
    assert all(use.compute_ratio is None for use in uses.values())
