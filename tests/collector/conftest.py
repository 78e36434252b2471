"""A queue in a folder of the test's own, a fake driver with its processes, and silence."""

from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pynvml
import pytest
import structlog

from collector.nvml import NvmlSource
from collector.queue import BatchQueue
from domain.units import MIB
from tests.fakes.nvml.driver import FakeDriver, build
from tests.fakes.nvml.processes import ProcTree


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[BatchQueue]:
    queue = BatchQueue(tmp_path / "queue.db", 64 * MIB)
    yield queue
    queue.close()


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


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
def driver(use_driver: Callable[[Path], FakeDriver], library: Path) -> FakeDriver:
    return use_driver(library)


@pytest.fixture
def proc(tmp_path: Path) -> ProcTree:
    return ProcTree(tmp_path / "proc")


@pytest.fixture
def open_source(proc: ProcTree) -> Iterator[Callable[[], NvmlSource]]:
    """Opens the driver over that `/proc` and takes a first look."""
    opened: list[NvmlSource] = []

    def open_() -> NvmlSource:
        opened.append(NvmlSource(proc.root))
        opened[-1].inventory()
        return opened[-1]

    yield open_
    for source in opened:
        source.close()


@pytest.fixture(autouse=True)
def _quiet_logs() -> Iterator[None]:
    """Logs of one test must not reach another's; a test that looks at them captures them itself."""
    structlog.configure(processors=[_drop])
    yield
    structlog.reset_defaults()


def _drop(_logger: Any, _method: str, _event: MutableMapping[str, Any]) -> str:
    raise structlog.DropEvent
