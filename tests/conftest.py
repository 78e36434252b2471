"""What several folders' tests share: a real VictoriaMetrics, both databases, the fake driver, unique names."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pynvml
import pytest
from hypothesis import settings

from domain.clock import SystemClock
from domain.errors import UnavailableError
from machine.process import free_port
from machine.programs import ALERTMANAGER, VICTORIA_METRICS, VMALERT, Program, find_program
from store.database import Database
from store.migrate import upgrade
from tests.databases import Databases, SqliteFiles
from tests.fakes.nvml.driver import FakeDriver, build
from tests.fakes.nvml.processes import ProcTree
from tests.postgresql_programs import find_postgresql
from tests.postgresql_server import PostgresqlServer
from tests.side_by_side import Begun, begun_scenarios, first
from tests.victoriametrics_server import start

PROGRAMS = Path(__file__).parent.parent / ".gputab" / "programs"

# No machine is promised to be quick, so no example is timed. `make soak` takes the second profile.
settings.register_profile("suite", deadline=None)
settings.register_profile("soak", deadline=None, max_examples=5_000)
settings.load_profile("suite")


def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as processors may be used, since many a test waits: for a server, or for the next second."""
    return max(2, len(os.sched_getaffinity(0)) * 3 // 2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first."""
    first(items)


@pytest.fixture(scope="session")
def begun(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Begun]:
    """Tests that run beside each other: see `side_by_side.py`."""
    with begun_scenarios(request, tmp_path_factory) as begun:
        yield begun


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> None:
    """In the background of a shell the tests would ignore Ctrl-C, and the programs that they start with them."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def is_soak(request: pytest.FixtureRequest) -> bool:
    """Whether tests marked `long` are to take their full length, as `make soak` has it, or a slice of it."""
    return bool(request.config.getoption("hypothesis_profile") == "soak")


@pytest.fixture(scope="session", autouse=True)
def _no_settings_of_the_shell() -> Iterator[None]:
    """A test runs on its own settings, whatever the person who runs it has set."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.upper().startswith("GPUTAB_")]:
            patch.delenv(name)
        yield


def found(program: Program) -> Path:
    """The program, where this machine has it or can have it; else the test that asks is skipped, with the reason."""
    try:
        return find_program(program, explicit=None, cache_folder=PROGRAMS, progress=print).path
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def victoriametrics_binary() -> Path:
    return found(VICTORIA_METRICS)


@pytest.fixture(scope="session")
def vmalert_binary() -> Path:
    return found(VMALERT)


@pytest.fixture(scope="session")
def alertmanager_binary() -> Path:
    return found(ALERTMANAGER)


@pytest.fixture(scope="session")
def victoriametrics_url(victoriametrics_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for all tests, which keep apart by `unique_node`."""
    folder = tmp_path_factory.mktemp("victoriametrics")
    port = free_port()
    with start(binary=victoriametrics_binary, port=port, folder=folder):
        # A collector sends what a store took in the second of its start again.
        SystemClock().sleep_s(1)
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """A server for all tests of the session, each with databases of its own."""
    try:
        with PostgresqlServer(find_postgresql(PROGRAMS, print)) as server:
            yield server
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def databases(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Databases:
    """What makes databases: every test that has a ledger runs on both, one after the other."""
    if request.param == "sqlite":
        return SqliteFiles(tmp_path_factory.mktemp("databases"))
    server: PostgresqlServer = request.getfixturevalue("postgresql")
    return server


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """Where an empty database of the test's own is: nothing is migrated yet."""
    with databases.empty() as url:
        yield url


@pytest.fixture(scope="session")
def migrated(databases: Databases) -> Iterator[str]:
    """A database at the newest migration that nobody is connected to, to be copied."""
    with databases.empty() as url:
        with closing(Database(url)) as database:
            upgrade(database)
        yield url


@pytest.fixture
def migrated_url(databases: Databases, migrated: str) -> Iterator[str]:
    """Where an empty ledger of the test's own is, at the newest migration."""
    with databases.copy(migrated) as url:
        yield url


@pytest.fixture(scope="session")
def build_nvml() -> Callable[..., Path]:
    """Compiles the library of a fake driver, as `build`; where this machine cannot, the test that asks is skipped."""

    def built(folder: Path, *flags: str, **names: Any) -> Path:
        try:
            return build(folder, *flags, **names)
        except UnavailableError as error:
            pytest.skip(str(error))

    return built


@pytest.fixture(scope="session")
def nvml_library(build_nvml: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of the fake driver."""
    return build_nvml(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def use_driver(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], FakeDriver]:
    """Lets the vendor's bindings load a library of ours, in the one place where they remember it."""

    def use(path: Path) -> FakeDriver:
        driver = FakeDriver(path)
        monkeypatch.setattr(pynvml, "nvmlLib", driver.library)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        return driver

    return use


@pytest.fixture
def driver(use_driver: Callable[[Path], FakeDriver], nvml_library: Path) -> FakeDriver:
    """A driver without cards."""
    return use_driver(nvml_library)


@pytest.fixture
def proc(tmp_path: Path) -> ProcTree:
    """A `/proc` of the host's namespaces, in which nothing runs."""
    return ProcTree(tmp_path / "proc")


@pytest.fixture
def unique_node() -> str:
    """A node name for one test, so that it sees no other test's series."""
    return f"node-{uuid4().hex}"
