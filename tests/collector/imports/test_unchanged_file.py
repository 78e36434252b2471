"""A log is the same file, to the byte, as often as it is read, or it is said that it is not."""

import os
from pathlib import Path

import pytest

from collector.imports.unchanged_file import UnchangedFile
from domain.errors import InputError


def _lines(file: UnchangedFile) -> list[str]:
    with file.open() as text:
        return list(text)


def test_what_was_added_later_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"\xef\xbb\xbfa\r\n" + "ä".encode() * 100_000 + b"\n")
    file = UnchangedFile(path)
    before = _lines(file)
    assert [len(line) for line in before] == [3, 100_001]
    assert not file.is_changed()

    with path.open("a") as more:
        more.write("b\n")
    assert _lines(file) == before
    assert file.is_changed()


def test_a_file_of_the_same_size_in_its_place_is_another(tmp_path: Path) -> None:
    path, other = tmp_path / "log.csv", tmp_path / "other.csv"
    path.write_text("a\n")
    other.write_text("b\n")
    file = UnchangedFile(path)
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    other.replace(path)
    assert file.is_changed()

    path.unlink()
    assert file.is_changed()


def test_the_same_size_written_again_is_a_change(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("a\n")
    file = UnchangedFile(path)
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1_000_000))
    assert file.is_changed()


def test_what_is_no_regular_file_is_refused_with_the_remedy(tmp_path: Path) -> None:
    """Without opening it: to open a pipe is to wait for its writer."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path, Path("/dev/null")):
        with pytest.raises(InputError, match=f"'{path}' twice.*; write them to a file first"):
            UnchangedFile(path)


def test_a_link_is_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("a\n")
    (tmp_path / "link").symlink_to("log.csv")
    assert _lines(UnchangedFile(tmp_path / "link")) == ["a\n"]
