"""Ctrl-C while a command is still being imported ends it without a traceback."""

import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# In the place of a library: Ctrl-C comes while it is imported, and where nobody hears it, it says that it goes on.
LIBRARY = """
import os, signal
os.kill(os.getpid(), signal.SIGINT)
print("it goes on", flush=True)
os._exit(3)
"""


def installed() -> list[str]:
    """What the program that is installed runs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, name = project["scripts"]["gputab"].split(":")
    return ["-c", f"from {module} import {name}; {name}()"]


def interrupted(start: Sequence[str], library: str, folder: Path, within: Sequence[str] = ()) -> tuple[int, str, str]:
    """`gputab meter status`, interrupted in that library: its exit code, and what it says on either output."""
    (folder / f"{library}.py").write_text(LIBRARY)
    environment = {**os.environ, "PYTHONPATH": f"{folder}:{ROOT}"}
    command = [*within, sys.executable, *start, "meter", "status"]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("start", [installed(), ["-m", "gputab"]], ids=["installed", "-m gputab"])
@pytest.mark.parametrize(("library", "code"), [("typer", -signal.SIGINT), ("polars", 130)])
def test_ctrl_c_while_libraries_are_imported_is_no_news(
    tmp_path: Path, start: list[str], library: str, code: int
) -> None:
    """Those of the command line and those of the one command. To a shell death by SIGINT is 130, too."""
    assert interrupted(start, library, tmp_path) == (code, "", "")


@pytest.mark.parametrize("library", ["typer", "polars"])
def test_where_ctrl_c_is_ignored_it_stays_so(tmp_path: Path, library: str) -> None:
    """As in the background of a shell."""
    in_background = ["/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh"]
    assert interrupted(["-m", "gputab"], library, tmp_path, in_background) == (3, "it goes on\n", "")
