"""Whose a process is: what its cgroup proves, and nothing that a tenant could have written."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.owners.cgroups import read_cgroup
from collector.owners.proofs import owner_of
from collector.owners.records import OwnerRecords
from domain.samples import UNATTRIBUTED

CONTAINER, OTHER = "0123456789abcdef" * 4, "fedcba9876543210" * 4
POD = "2fc932ce-fdcc-454b-97bd-aadfdeb4c340"
SLICE = f"kubepods-burstable-pod{POD.replace('-', '_')}.slice"


def _owner(path: str) -> str | None:
    return owner_of(f"0::{path}\n", OwnerRecords(Path("/nonexistent")))


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
        (f"/kubepods.slice/kubepods-burstable.slice/{SLICE}/cri-containerd-{CONTAINER}.scope", f"pod:{POD}"),
        (f"/kubelet/kubepods/burstable/pod{POD}/{CONTAINER}", f"pod:{POD}"),
        ("/system.slice/slurmstepd.scope/job_77", "slurm:77"),
    ],
)
def test_what_root_has_named_is_proof(path: str, owner: str) -> None:
    assert _owner(path) == owner


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
        # What these run is others'.
        "/system.slice/containerd.service",
        "/system.slice/k3s.service",
        "/system.slice/rke2-agent.service",
        # A tenant's own servers of MPS may be called as the operator's are.
        "/user.slice/user-1000.slice/user@1000.service/app.slice/nvidia-mps.service",
        f"/system.slice/docker-{CONTAINER}.scope/nvidia-mps.service",
        "/nvidia-mps.scope",
        "/init.scope",
        "/",
    ],
)
def test_what_a_tenant_may_have_named_is_not(path: str) -> None:
    assert _owner(path) is None


@pytest.mark.parametrize("sign", ["\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
@pytest.mark.parametrize(
    "name",
    ["gputab-victim.scope", "slurmstepd.scope/job_5", f"kubepods/pod{POD}", f"docker/{OTHER}", "a.slice/x.service"],
)
@pytest.mark.parametrize(
    "place",
    ["/user.slice/user-1000.slice/user@1000.service", f"/system.slice/docker-{CONTAINER}.scope", "/lxc.payload.tenant"],
)
def test_a_name_with_the_end_of_a_line_in_it_is_one_name(place: str, name: str, sign: str) -> None:
    """The kernel forbids a newline in a group's name, and no other sign at which `splitlines` would end a line."""
    text = f"0::{place}/x{sign}0::/{name}\n"

    assert owner_of(text, OwnerRecords(Path("/nonexistent"))) is None
    assert read_cgroup(text).container in (None, CONTAINER)


@pytest.mark.parametrize(
    "below",
    ["gputab-victim.scope", "slurmstepd.scope/job_5", f"kubepods/pod{POD}", "other.service", "other.slice/x.service"],
)
def test_a_service_that_may_divide_its_cgroup_stays_itself(below: str) -> None:
    """`Delegate=yes` lets a unit's user make any group in it."""
    assert _owner(f"/system.slice/tenant-a.service/{below}") == "unit:tenant-a.service"


@pytest.mark.parametrize(
    "path",
    [
        "/system.slice/nvidia-mps.service",
        "/system.slice/nvidia-cuda-mps-control.service/server",
        "/nvidia-mps@0.service",
    ],
)
def test_a_service_of_root_that_runs_mps_is_proved_to_be_nobodys(path: str) -> None:
    """Which is more than that nothing is proved of it."""
    assert _owner(path) == UNATTRIBUTED


def test_a_unit_is_believed_where_no_hierarchy_leads_elsewhere() -> None:
    records = OwnerRecords(Path("/nonexistent"))
    unit = "1:name=systemd:/system.slice/serve.service\n0::/system.slice/serve.service\n"

    assert owner_of("4:cpuset:/\n3:cpu:/system.slice\n" + unit, records) == "unit:serve.service"
    assert owner_of(f"4:cpuset:/docker/{CONTAINER}\n" + unit, records) is None
    assert owner_of("4:cpuset:/system.slice/other.service\n" + unit, records) is None


def test_hierarchies_that_contradict_each_other_prove_nothing() -> None:
    jobs = "10:memory:/slurm/uid_1/job_17/step_0\n9:cpuset:/slurm/uid_1/job_18/step_0\n"
    containers = f"10:memory:/docker/{CONTAINER}\n9:cpuset:/docker/{OTHER}\n"

    assert read_cgroup(jobs).owner is None
    assert read_cgroup(containers).container is None


@pytest.mark.parametrize(
    ("path", "below"),
    [
        (f"/system.slice/docker-{CONTAINER}.scope", "/"),
        (f"/system.slice/docker-{CONTAINER}.scope/init.scope", "/init.scope"),
        (f"/system.slice/nerdctl-{CONTAINER}.scope", "/"),
        (f"/docker/{CONTAINER}/docker/{OTHER}", f"/docker/{OTHER}"),
        (f"/default/{CONTAINER}", "/"),
        (f"/machine.slice/libpod-{CONTAINER}.scope/container", "/"),
        (f"/machine.slice/libpod-{CONTAINER}.scope/container/x.scope", "/x.scope"),
        (f"/libpod_parent/libpod-{CONTAINER}", "/"),
        (f"/kubepods.slice/{SLICE}/crio-{CONTAINER}.scope/container", "/"),
        (f"/kubepods/besteffort/pod{POD}/{CONTAINER}", "/"),
        (f"/kubepods/besteffort/pod{POD}/crio-{CONTAINER}", "/"),
        (f"/system.slice/containerd.service/{SLICE}:cri-containerd:{CONTAINER}", "/"),
        (f"/gputab.slice/gputab-al_1f.slice/docker-{CONTAINER}.scope", "/"),
    ],
)
def test_the_outermost_container_is_the_one_that_root_has_named(path: str, below: str) -> None:
    found = read_cgroup(f"0::{path}\n")

    assert found.container == CONTAINER
    assert found.below == f"0::{below}"


@pytest.mark.parametrize(
    "path",
    [
        f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{CONTAINER}.scope/container",
        f"/system.slice/tenant-a.service/docker-{CONTAINER}.scope",
        f"/system.slice/tenant-a.service/docker/{CONTAINER}",
        # Whoever made the first group of the path may have given it away.
        f"/tenant-a/{CONTAINER}",
        f"/slurm/uid_1000/job_17/docker/{CONTAINER}",
        f"/../docker/{CONTAINER}",
        # The monitor of a container is none of its processes.
        f"/kubepods.slice/{SLICE}/crio-conmon-{CONTAINER}.scope",
        f"/machine.slice/libpod-conmon-{CONTAINER}.scope",
        f"/system.slice/docker-{CONTAINER[:-1]}.scope",
    ],
)
def test_a_container_that_a_tenant_may_have_named_is_none(path: str) -> None:
    assert read_cgroup(f"0::{path}\n").container is None


@given(
    st.text()
    | st.lists(st.sampled_from(["/", "0::", "docker-", CONTAINER, ".scope", ".slice", "\n", ":"])).map("".join)
)
def test_no_text_is_too_strange(text: str) -> None:
    owner = owner_of(text, OwnerRecords(Path("/nonexistent")))

    assert owner is None or owner.startswith(("alloc:", "slurm:", "pod:", "unit:"))
