"""Programs that only the alert tests need."""

from pathlib import Path

import pytest

from machine.programs import VMALERT_TOOL
from tests.conftest import found


@pytest.fixture(scope="session")
def vmalert_tool_binary() -> Path:
    return found(VMALERT_TOOL)


@pytest.fixture(scope="session")
def amtool(alertmanager_binary: Path) -> Path:
    """It comes with Alertmanager."""
    path = alertmanager_binary.with_name("amtool")
    if not path.is_file():
        pytest.skip(f"there is no amtool beside {alertmanager_binary}")
    return path
