"""A queue in a folder of the test's own, and silence."""

from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest
import structlog

from collector.queue import BatchQueue
from domain.units import MIB


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[BatchQueue]:
    queue = BatchQueue(tmp_path / "queue.db", 64 * MIB)
    yield queue
    queue.close()


@pytest.fixture(autouse=True)
def _quiet_logs() -> Iterator[None]:
    """Logs of one test must not reach another's; a test that looks at them captures them itself."""
    structlog.configure(processors=[_drop])
    yield
    structlog.reset_defaults()


def _drop(_logger: Any, _method: str, _event: MutableMapping[str, Any]) -> str:
    raise structlog.DropEvent
