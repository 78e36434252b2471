"""What several folders' tests share: a real VictoriaMetrics for the session, and names nobody else uses."""

import signal
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import settings

from domain.errors import UnavailableError
from machine.process import free_port
from machine.programs import VICTORIA_METRICS, find_program
from tests.victoriametrics_server import start

PROGRAMS = Path(__file__).parent.parent / ".gputab" / "programs"

# No machine is promised to be quick, so no example is timed. `make soak` takes the second profile.
settings.register_profile("suite", deadline=None)
settings.register_profile("soak", deadline=None, max_examples=5_000)
settings.load_profile("suite")


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> None:
    """In the background of a shell the tests would ignore Ctrl-C, and the programs that they start with them."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def victoriametrics_binary() -> Path:
    try:
        return find_program(VICTORIA_METRICS, explicit=None, cache_folder=PROGRAMS, progress=print).path
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def victoriametrics_url(victoriametrics_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for all tests, which keep apart by `unique_node`."""
    folder = tmp_path_factory.mktemp("victoriametrics")
    port = free_port()
    with start(binary=victoriametrics_binary, port=port, folder=folder):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """Where an empty database of the test's own is to be: nothing is migrated yet."""
    return f"sqlite:///{tmp_path}/gputab.db"


@pytest.fixture
def unique_node() -> str:
    """A node name for one test, so that it sees no other test's series."""
    return f"node-{uuid4().hex}"
