"""Programs and servers of the alert tests: found once, on free loopback ports, in folders of the tests."""

from pathlib import Path

import pytest

from domain.errors import UnavailableError
from machine.programs import ALERTMANAGER, VMALERT, VMALERT_TOOL, Program, find_program

PROGRAMS = Path(__file__).parents[2] / ".gputab" / "programs"


def _find(program: Program) -> Path:
    try:
        return find_program(program, explicit=None, cache_folder=PROGRAMS, progress=print).path
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def vmalert_binary() -> Path:
    return _find(VMALERT)


@pytest.fixture(scope="session")
def vmalert_tool_binary() -> Path:
    return _find(VMALERT_TOOL)


@pytest.fixture(scope="session")
def alertmanager_binary() -> Path:
    return _find(ALERTMANAGER)


@pytest.fixture(scope="session")
def amtool(alertmanager_binary: Path) -> Path:
    """It comes with Alertmanager."""
    path = alertmanager_binary.with_name("amtool")
    if not path.is_file():
        pytest.skip(f"there is no amtool beside {alertmanager_binary}")
    return path
