"""A pusher and a reader for the session's server, and servers with other flags."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from domain.clock import SystemClock
from machine.process import free_port
from tests.victoriametrics_server import start
from victoriametrics.push import Pusher
from victoriametrics.read import Reader

Launch = Callable[..., str]


@pytest.fixture(scope="session")
def pusher(victoriametrics_url: str) -> Iterator[Pusher]:
    with Pusher(victoriametrics_url) as pusher:
        yield pusher


@pytest.fixture(scope="session")
def reader(victoriametrics_url: str) -> Iterator[Reader]:
    with Reader(victoriametrics_url) as reader:
        yield reader


@pytest.fixture
def launch(victoriametrics_binary: Path, tmp_path: Path) -> Iterator[Launch]:
    """Starts a server with flags of the test's own (of equal flags the last counts) and returns its URL."""
    with ExitStack() as servers:

        def launch(*flags: str) -> str:
            port = free_port()
            folder = tmp_path / str(port)
            servers.enter_context(start(binary=victoriametrics_binary, port=port, folder=folder, flags=flags))
            return f"http://127.0.0.1:{port}"

        yield launch


@pytest.fixture
def now_s() -> int:
    return SystemClock().now_us() // 1_000_000
