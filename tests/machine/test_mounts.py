"""The file system of a path, from a list in the kernel's form, since no test can mount one."""

from pathlib import Path

import pytest

from machine.mounts import file_system


def _mounts(folder: Path, *lines: str) -> Path:
    file = folder / "mounts"
    file.write_text("".join(f"{line}\n" for line in lines), "utf-8", errors="surrogateescape")
    return file


def test_the_longest_mount_point_above_a_path_is_its_own(tmp_path: Path) -> None:
    mounts = _mounts(tmp_path, "/dev/sda1 / ext4 rw 0 0", f"server:/x {tmp_path}/share nfs4 rw 0 0")
    assert file_system(tmp_path / "share" / "deep" / "x.db", mounts) == "nfs4"
    assert file_system(tmp_path / "x.db", mounts) == "ext4"
    assert file_system(tmp_path / "shared" / "x.db", mounts) == "ext4"


def test_a_link_is_on_the_file_system_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "share").mkdir()
    (tmp_path / "ledger").symlink_to(tmp_path / "share")
    (tmp_path / "x.db").symlink_to(tmp_path / "share" / "gputab.db")
    mounts = _mounts(tmp_path, "/dev/sda1 / ext4 rw 0 0", f"server:/x {tmp_path}/share nfs4 rw 0 0")
    assert file_system(tmp_path / "ledger" / "x.db", mounts) == "nfs4"
    assert file_system(tmp_path / "x.db", mounts) == "nfs4"
    assert file_system(tmp_path / "ledger" / ".." / "x", mounts) == "ext4"


@pytest.mark.parametrize(
    ("name", "written"), [("a b", r"a\040b"), ("a\tb", r"a\011b"), ("a\\b", r"a\134b"), ("a\u00a0b", "a\u00a0b")]
)
def test_signs_that_the_kernel_escapes_are_read(tmp_path: Path, name: str, written: str) -> None:
    mounts = _mounts(tmp_path, "/dev/sda1 / ext4 rw 0 0", f"//server/x {tmp_path}/{written} cifs rw 0 0")
    assert file_system(tmp_path / name / "x.db", mounts) == "cifs"


def test_of_two_mounts_on_one_point_the_later_counts(tmp_path: Path) -> None:
    """As with an automounter, whose own mount stays below that of the server."""
    mounts = _mounts(tmp_path, f"auto {tmp_path}/home autofs rw 0 0", f"server:/x {tmp_path}/home nfs4 rw 0 0")
    assert file_system(tmp_path / "home" / "x.db", mounts) == "nfs4"


def test_bytes_that_are_no_utf_8_are_no_obstacle(tmp_path: Path) -> None:
    mounts = _mounts(tmp_path, "/dev/sdb1 /mnt/\udcff vfat rw 0 0", "/dev/sda1 / ext4 rw 0 0", "half")
    assert file_system(tmp_path / "x.db", mounts) == "ext4"


def test_links_in_a_circle_are_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert file_system(tmp_path / "a" / "x.db", _mounts(tmp_path, "/dev/sda1 / ext4 rw 0 0")) == "ext4"


def test_without_a_list_nothing_is_known(tmp_path: Path) -> None:
    assert file_system(tmp_path, tmp_path / "nowhere") == ""
    assert file_system(Path("/proc")) == "proc"
