"""Tests that begin together run beside each other, and each has its own end: it passes, fails or is skipped."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONFTEST = "from tests.conftest import begun, pytest_collection_modifyitems\n"
TESTS = """
import threading
from pathlib import Path

import pytest

from tests.side_by_side import side_by_side

MET = threading.Barrier(2)


def test_of_the_usual_kind():
    pass


@side_by_side
def test_that_ends_where_another_has_begun(folder: Path):
    MET.wait(20)
    assert folder.is_dir()


@side_by_side
def test_that_fails(folder: Path):
    MET.wait(20)
    raise AssertionError("it broke")


@pytest.fixture(scope="session")
def program():
    pytest.skip("needs a program")


@side_by_side
def test_of_what_is_not_there(program: Path):
    raise AssertionError("it began")


@side_by_side
def test_that_nobody_asked_for(folder: Path):
    (folder.parent / "begun").touch()
"""


def test_each_begins_with_the_first_and_has_its_own_end(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_some.py").write_text(TESTS)
    options = ["-v", "-rs", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", "not asked", "--basetemp", "folders"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "test_some.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    told = [line.split("::")[1].split()[:2] for line in done.stdout.splitlines() if line.startswith("test_some.py::")]
    assert told == [
        ["test_that_ends_where_another_has_begun", "PASSED"],
        ["test_that_fails", "FAILED"],
        ["test_of_what_is_not_there", "SKIPPED"],
        ["test_of_the_usual_kind", "PASSED"],
    ], done.stdout
    assert "it broke" in done.stdout
    assert "needs a program" in done.stdout
    assert not (tmp_path / "folders" / "begun").exists()
