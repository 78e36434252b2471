"""Whose a container is: what root has recorded, believed only where nobody else can have written it."""

import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from collector.owners.proofs import owner_of
from collector.owners.records import MPS_SERVER, NESTED, OwnerRecords
from domain.samples import UNATTRIBUTED

NODE, INNER, VICTIM = "0123456789abcdef" * 4, "fedcba9876543210" * 4, "aa55" * 16
POD = "1a2b3c4d-1111-2222-3333-444455556666"
POD_SLICE = f"kubelet-kubepods-pod{POD.replace('-', '_')}.slice"
NOBODY = 65_534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "owners"
    folder.mkdir(mode=0o755)
    return folder


def _record(folder: Path, container: str, text: str, mode: int = 0o644) -> Path:
    path = folder / container
    path.write_text(text)
    path.chmod(mode)
    return path


def _owner(folder: Path, path: str) -> str | None:
    return owner_of(f"0::{path}\n", OwnerRecords(folder))


@pytest.mark.parametrize(
    "owner",
    [
        *("alloc:al_1f", "alloc:team-a/7", f"pod:{POD}", "pod:" + "e4" * 16, "slurm:17", "unit:serve@a.service"),
        *(NESTED, MPS_SERVER),
    ],
)
def test_a_record_is_one_line(folder: Path, owner: str) -> None:
    _record(folder, NODE, f"{owner}\n")
    _record(folder, INNER, owner)

    records = OwnerRecords(folder)
    assert records.of(NODE) == records.of(INNER) == owner
    assert records.of(VICTIM) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "al_1f",
        "alloc:",
        "alloc:a b",
        "alloc:a\nalloc:b\n",
        "alloc:" + "a" * 2_000,
        "unattributed",
        "slurm:17x",
        "pod:2fc932ce",
        "unit:a.scope",
        "unit:a/b.service",
        "\udcff".encode("utf-8", "surrogateescape").decode("latin-1"),
    ],
)
def test_what_is_no_owner_proves_nothing_and_is_said_once(folder: Path, text: str) -> None:
    _record(folder, NODE, text)
    records = OwnerRecords(folder)

    with capture_logs() as logs:
        assert [records.of(NODE) for _ in range(3)] == [None] * 3
    assert [log["event"] for log in logs] == ["owner_record_refused"]
    assert logs[0]["container"] == NODE


def test_where_nothing_is_recorded_nothing_is_said(folder: Path, tmp_path: Path) -> None:
    with capture_logs() as logs:
        assert OwnerRecords(folder).of(NODE) is None
        assert OwnerRecords(tmp_path / "none").of(NODE) is None
    assert logs == []


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666, 0o622])
def test_a_record_that_others_can_write_is_not_believed(folder: Path, mode: int) -> None:
    _record(folder, NODE, "alloc:victim\n", mode)

    assert OwnerRecords(folder).of(NODE) is None


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_a_folder_that_others_can_write_is_not_believed(folder: Path, mode: int) -> None:
    _record(folder, NODE, "alloc:victim\n")
    folder.chmod(mode)

    assert OwnerRecords(folder).of(NODE) is None


@needs_root
def test_a_record_or_folder_of_another_user_is_not_believed(folder: Path) -> None:
    record = _record(folder, NODE, "alloc:victim\n")
    os.chown(record, NOBODY, NOBODY)
    assert OwnerRecords(folder).of(NODE) is None

    os.chown(record, 0, 0)
    assert OwnerRecords(folder).of(NODE) == "alloc:victim"
    os.chown(folder, NOBODY, NOBODY)
    assert OwnerRecords(folder).of(NODE) is None


def test_a_link_a_folder_and_a_pipe_are_no_records(folder: Path, tmp_path: Path) -> None:
    """A link would let the file's own owner be root's, and a pipe would keep the card waiting."""
    _record(tmp_path, "elsewhere", "alloc:a\n")
    (folder / NODE).symlink_to(tmp_path / "elsewhere")
    (folder / INNER).mkdir(mode=0o755)
    os.mkfifo(folder / VICTIM, 0o644)

    records = OwnerRecords(folder)
    assert [records.of(each) for each in (NODE, INNER, VICTIM)] == [None] * 3


@pytest.mark.parametrize(
    "path",
    [
        f"/system.slice/docker-{NODE}.scope",
        f"/docker/{NODE}",
        f"/machine.slice/libpod-{NODE}.scope/container",
        f"/kubepods.slice/{POD_SLICE}/cri-containerd-{NODE}.scope",
        f"/gputab.slice/gputab-al_9.slice/docker-{NODE}.scope",
        # Whatever the tenant calls its groups in it.
        f"/system.slice/docker-{NODE}.scope/docker/{VICTIM}",
        f"/system.slice/docker-{NODE}.scope/system.slice/gputab-victim.scope",
    ],
)
def test_a_recorded_container_is_its_owners(folder: Path, path: str) -> None:
    """The record is the most exact: it stands before the pod that the container is in, and before a slice."""
    _record(folder, NODE, "alloc:al_1f\n")
    _record(folder, VICTIM, "alloc:victim\n")

    assert _owner(folder, path) == "alloc:al_1f"


@pytest.mark.parametrize(
    "path",
    [
        f"/system.slice/docker-{INNER}.scope/docker/{VICTIM}",
        f"/system.slice/docker-{INNER}.scope/system.slice/docker-{VICTIM}.scope",
        f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{VICTIM}.scope/container",
        f"/system.slice/tenant-a.scope/docker/{VICTIM}",
        f"/tenant-a/{VICTIM}",
    ],
)
def test_a_tenant_cannot_take_the_name_of_a_recorded_container(folder: Path, path: str) -> None:
    """Container ids are no secret: a name counts only where root alone can give it."""
    _record(folder, VICTIM, "alloc:victim\n")

    assert _owner(folder, path) is None


def test_a_container_that_is_recorded_to_run_mps_is_proved_to_be_nobodys(folder: Path) -> None:
    """As the daemon set of a device plug-in, whose pod would own its servers."""
    _record(folder, INNER, "mps\n")

    assert _owner(folder, f"/kubepods.slice/{POD_SLICE}/cri-containerd-{INNER}.scope") == UNATTRIBUTED
    assert _owner(folder, f"/system.slice/docker-{INNER}.scope/system.slice/gputab-victim.scope") == UNATTRIBUTED
    assert _owner(folder, f"/system.slice/docker-{NODE}.scope/docker/{INNER}") is None


class TestNested:
    """A container of the operator's own that runs others': the node of a kind cluster, docker in docker."""

    @pytest.fixture(autouse=True)
    def _node(self, folder: Path) -> None:
        _record(folder, NODE, "nested\n")

    @pytest.mark.parametrize(
        "below",
        [
            f"kubelet.slice/kubelet-kubepods.slice/{POD_SLICE}/cri-containerd-{INNER}.scope",
            f"kubelet/kubepods/besteffort/pod{POD}/{INNER}",
        ],
    )
    def test_the_pods_of_a_kind_cluster_are_pods(self, folder: Path, below: str) -> None:
        assert _owner(folder, f"/system.slice/docker-{NODE}.scope/{below}") == f"pod:{POD}"
        assert _owner(folder, f"/docker/{NODE}/{below}") == f"pod:{POD}"

    def test_hierarchies_of_the_first_version_are_read_within(self, folder: Path) -> None:
        path = f"/docker/{NODE}/kubelet/kubepods/besteffort/pod{POD}/{INNER}"
        text = f"12:pids:{path}\n4:cpuset:{path}\n1:name=systemd:{path}\n0::/system.slice/containerd.service\n"

        assert owner_of(text, OwnerRecords(folder)) == f"pod:{POD}"

    def test_a_recorded_container_in_it_is_its_owners(self, folder: Path) -> None:
        _record(folder, INNER, "alloc:al_1f\n")
        _record(folder, VICTIM, "alloc:victim\n")

        assert _owner(folder, f"/docker/{NODE}/docker/{INNER}") == "alloc:al_1f"
        assert _owner(folder, f"/docker/{NODE}/docker/{INNER}/docker/{VICTIM}") == "alloc:al_1f"

    def test_nesting_is_believed_as_deep_as_records_say(self, folder: Path) -> None:
        path = f"/docker/{NODE}/docker/{INNER}/docker/{VICTIM}"
        _record(folder, VICTIM, "alloc:al_1f\n")
        assert _owner(folder, path) is None

        _record(folder, INNER, "nested\n")
        assert _owner(folder, path) == "alloc:al_1f"

    def test_services_in_it_are_nobodys(self, folder: Path) -> None:
        """Each node of a cluster has a service of that name."""
        assert _owner(folder, f"/system.slice/docker-{NODE}.scope/system.slice/serve.service") is None
        assert _owner(folder, f"/system.slice/docker-{NODE}.scope/init.scope") is None

    def test_what_nothing_proves_within_is_the_pods_that_it_is_itself_in(self, folder: Path) -> None:
        path = f"/kubepods.slice/{POD_SLICE.removeprefix('kubelet-')}/cri-containerd-{NODE}.scope/docker/{INNER}"

        assert _owner(folder, path) == f"pod:{POD}"

    def test_a_container_that_is_not_recorded_as_nested_is_not_looked_into(self, folder: Path) -> None:
        """The same names below a container of a tenant's prove nothing."""
        below = f"kubelet.slice/kubelet-kubepods.slice/{POD_SLICE}/cri-containerd-{INNER}.scope"
        assert _owner(folder, f"/system.slice/docker-{VICTIM}.scope/{below}") is None

        _record(folder, VICTIM, "alloc:al_1f\n")
        assert _owner(folder, f"/system.slice/docker-{VICTIM}.scope/{below}") == "alloc:al_1f"
