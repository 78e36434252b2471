"""A log that a test wrote, read."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.logs.log import Log, LogOptions
from collector.logs.open_log import open_log

ReadLog = Callable[..., Log]


@pytest.fixture
def read_log(tmp_path: Path) -> ReadLog:
    """Reads lines, or bytes, as a file, with the options given."""

    def read(*lines: str, content: bytes | None = None, **options: Any) -> Log:
        file = tmp_path / "gpu.log"
        file.write_bytes("\n".join([*lines, ""]).encode() if content is None else content)
        return open_log(file, replace(LogOptions(), **options))

    return read
