"""A program of an unpacked package finds its data there, without root and without the package installed."""

import subprocess
from pathlib import Path

import pytest

from domain.errors import UnavailableError
from machine.relocation import relocated, start_words

DATA = "/usr/share/gputab-test/data"


def unpacked(folder: Path) -> Path:
    """A program that prints a file of its data, in a folder laid out as a package."""
    (folder / DATA[1:]).mkdir(parents=True)
    (folder / DATA[1:] / "greeting").write_text("hello\n")
    program = folder / "usr" / "bin" / "greet"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncat {DATA}/greeting && echo $1\n")
    program.chmod(0o755)
    return program


def test_the_copy_reads_the_data_of_its_package(tmp_path: Path) -> None:
    program = unpacked(tmp_path / "package")
    assert subprocess.run([program], capture_output=True, check=False).returncode != 0
    words = [*start_words(relocated(program, DATA)), "x"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "hello\nx\n"


def test_the_copy_is_as_long_as_the_program_and_made_once(tmp_path: Path) -> None:
    program = unpacked(tmp_path)
    copy = relocated(program, DATA)
    assert copy.stat().st_size == program.stat().st_size
    made = copy.stat().st_mtime_ns
    assert relocated(program, DATA) == copy
    assert copy.stat().st_mtime_ns == made
    assert sorted(each.name for each in program.parent.iterdir()) == ["greet", "greet.relocated"]


def test_a_program_that_stays_where_it_is_starts_by_its_name_alone() -> None:
    assert start_words(Path("/usr/bin/greet")) == ["/usr/bin/greet"]


def test_a_program_that_does_not_name_its_data_is_refused(tmp_path: Path) -> None:
    program = unpacked(tmp_path)
    with pytest.raises(UnavailableError, match="it does not name '/usr/share/elsewhere'; install its package instead"):
        relocated(program, "/usr/share/elsewhere")


def test_a_copy_that_cannot_be_written_is_named_and_nothing_is_left_of_it(tmp_path: Path) -> None:
    program = unpacked(tmp_path)
    in_the_way = program.with_name("greet.relocated")
    in_the_way.mkdir()
    with pytest.raises(UnavailableError, match=r"greet\.relocated': Is a directory; check the disk"):
        relocated(program, DATA)
    assert {each.name for each in program.parent.iterdir()} == {"greet", "greet.relocated"}
