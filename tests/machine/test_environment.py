"""Making the Python environment of a checkout: from nothing, again, and over what an interrupted run left."""

import ast
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import machine.environment
from domain.errors import InputError, UnavailableError
from machine.environment import LOCK_FILE, READY, create, has_pip, main, set_up

if TYPE_CHECKING:
    from tests.machine.conftest import PackageArchive

# A PEP 517 build backend that needs no package, so that a whole set-up runs without a network.
BACKEND = """
import zipfile
def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    name = "tiny-1-py3-none-any.whl"
    with zipfile.ZipFile(f"{wheel_directory}/{name}", "w") as wheel:
        wheel.writestr("tiny.py", "")
        wheel.writestr("tiny-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1\\n")
        wheel.writestr("tiny-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("tiny-1.dist-info/RECORD", "")
    return name
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / LOCK_FILE).write_text("# no packages\n")
    (folder / "backend.py").write_text(BACKEND)
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "tiny"\nversion = "1"\n'
    )
    return folder


def can_import_tiny(environment: Path) -> bool:
    return subprocess.run([environment / "bin" / "python", "-c", "import tiny"], check=False).returncode == 0


def test_an_environment_is_made_kept_and_made_anew_when_the_lock_changes(checkout: Path) -> None:
    environment = checkout / ".venv"
    steps: list[str] = []
    set_up(checkout, environment, steps.append)
    assert can_import_tiny(environment)
    assert (environment / READY).is_file()

    witness = environment / "witness"
    witness.touch()
    set_up(checkout, environment, steps.append)
    assert witness.exists(), "same lock, same Python: kept"

    (checkout / LOCK_FILE).write_text("# still no packages\n")
    set_up(checkout, environment, steps.append)
    assert not witness.exists()
    assert can_import_tiny(environment)
    assert len([step for step in steps if step.startswith("making")]) == 2


def test_what_an_interrupted_run_left_is_made_anew(checkout: Path) -> None:
    """Without python3-venv, `python3 -m venv` leaves a folder with a python and no pip."""
    environment = checkout / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (environment / "witness").touch()
    set_up(checkout, environment, lambda line: None)
    assert not (environment / "witness").exists()
    assert can_import_tiny(environment)


def test_a_package_that_is_not_the_locked_one_is_refused_and_leaves_no_environment_that_looks_ready(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    backend: dict[str, Callable[[Path], str]] = {}
    exec(BACKEND, backend)
    backend["build_editable"](checkout)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(checkout))
    environment = checkout / ".venv"
    (checkout / LOCK_FILE).write_text(f"tiny==1 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(UnavailableError, match=r"pip ended with 1.*make setup"):
        set_up(checkout, environment, lambda line: None)
    assert not (environment / READY).exists()
    assert "DO NOT MATCH THE HASHES" in capfd.readouterr().err


def test_pip_comes_from_debian_where_python_has_none(tmp_path: Path, package_archive: "PackageArchive") -> None:
    """As on a Debian without python3-venv, where `python3 -m venv` fails and leaves a folder without pip."""
    ensurepip = pytest.importorskip("ensurepip")
    wheel = next((Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl"), None)
    if wheel is None:
        pytest.skip("this Python has no pip of its own to hand out")
    package_archive.add("python3-pip-whl", {f"usr/share/python-wheels/{wheel.name}": wheel.read_bytes()})
    python = tmp_path / "python3"
    python.write_text(
        f'#!/bin/sh\ncase "$*" in *--without-pip*) exec {sys.executable} "$@" ;; esac\n'
        f'{sys.executable} "$@" --without-pip\nexit 1\n'
    )
    python.chmod(0o755)
    steps: list[str] = []
    create(tmp_path / ".venv", str(python), steps.append)
    assert package_archive.calls() == ["update", "download python3-pip-whl"]
    assert any("no ensurepip" in step for step in steps)
    assert has_pip(tmp_path / ".venv")


def test_a_folder_is_not_an_environment_by_its_looks(tmp_path: Path) -> None:
    assert not has_pip(tmp_path / "absent")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to("/nowhere/python3")
    assert not has_pip(tmp_path), "a Python that was removed"


def test_a_folder_with_something_else_in_it_is_not_deleted(checkout: Path) -> None:
    precious = checkout / "thesis" / "chapter-1"
    precious.parent.mkdir()
    precious.touch()
    with pytest.raises(InputError, match="it holds something else"):
        set_up(checkout, precious.parent, print)
    assert precious.exists()


def test_a_folder_without_a_lock_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no requirements\.lock; run this in a checkout"):
        set_up(tmp_path, tmp_path / ".venv", print)
    assert list(tmp_path.iterdir()) == []


def test_the_command_tells_errors_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([".venv"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"cannot set up '{tmp_path}': it has no {LOCK_FILE}; run this in a checkout of gputab"
    ]
    assert main([]) == 2


def test_an_old_python_is_told_which_one_to_use() -> None:
    run_as_3_9 = "import runpy, sys; sys.version_info = (3, 9, 18); runpy.run_module('machine.environment')"
    done = subprocess.run([sys.executable, "-c", run_as_3_9], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "cannot set up with Python 3.9: gputab needs 3.11 or newer; run `make setup PYTHON=python3.12`\n"
    )


@pytest.mark.parametrize("name", ["environment.py", "__init__.py"])
def test_an_old_python_can_read_the_file_that_refuses_it(name: str) -> None:
    source = Path(machine.environment.__file__).with_name(name).read_text()
    ast.parse(source, feature_version=(3, 7))


def test_set_up_needs_nothing_but_the_standard_library() -> None:
    """It runs before anything is installed: -S leaves site-packages out, -I the user's own settings."""
    checkout = Path(machine.environment.__file__).parent.parent
    script = f"import sys; sys.path.insert(0, {str(checkout)!r}); import machine.environment, machine.programs"
    bare = {"PATH": os.defpath, "HOME": "/nonexistent"}
    subprocess.run([sys.executable, "-I", "-S", "-c", script], env=bare, check=True)
