"""A queue in a folder of the test's own, a fake driver with its processes, a store to import into, and silence."""

from collections.abc import Callable, Iterator, MutableMapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog

from collector.call_times import CallTimes
from collector.dcgm.exporter import DcgmExporterSource
from collector.delivery.queue import BatchQueue
from collector.imports.sample_csv import SampleFile
from collector.imports.sample_import import ImportReport, import_log
from collector.node_state import NodeState
from collector.nvml.source import NvmlSource
from collector.owners.processes import ProcessTable
from collector.owners.records import OwnerRecords
from domain.clock import SystemClock
from domain.samples import DeviceReading
from domain.units import MIB
from gputab.commands.samples import ReaderSamples
from tests.collector.claims import Hold, holders
from tests.collector.collecting import Start, collectors
from tests.collector.dcgm_pages import Exporter, page, running_exporter
from tests.collector.patience import wait_for_the_last_threads
from tests.collector.rig import MakeRig, Rig, answer
from tests.collector.sample_logs import START_S, Import
from tests.collector.stores import OwnStore, own_store
from tests.fakes.clock import SettableClock
from tests.fakes.nvml.processes import ProcTree
from victoriametrics import launcher
from victoriametrics.push import Pusher
from victoriametrics.read import Reader


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[BatchQueue]:
    queue = BatchQueue(tmp_path / "queue.db", 64 * MIB)
    yield queue
    queue.close()


@pytest.fixture
def make_rig(queue: BatchQueue) -> Iterator[MakeRig]:
    made: list[Rig] = []

    def make(answers: Callable[[str, int], list[DeviceReading]] = answer, queue: BatchQueue = queue) -> Rig:
        made.append(Rig(queue, answers))
        return made[-1]

    yield make
    for rig in made:
        rig.readers.close()


@pytest.fixture
def new_source(proc: ProcTree) -> Iterator[Callable[..., NvmlSource]]:
    """Opens the driver over that `/proc`."""
    opened: list[NvmlSource] = []

    def new(state: NodeState | None = None, **how: Any) -> NvmlSource:
        clock = SystemClock()
        processes = ProcessTable(proc.root, OwnerRecords(proc.root / "owners"))
        opened.append(NvmlSource(clock, CallTimes(clock), processes, state or NodeState(None), **how))
        return opened[-1]

    yield new
    for source in opened:
        source.close()


@pytest.fixture
def open_source(new_source: Callable[..., NvmlSource]) -> Callable[[], NvmlSource]:
    """Opens the driver and takes a first look."""

    def open_() -> NvmlSource:
        source = new_source()
        source.inventory()
        return source

    return open_


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    """A dcgm-exporter that tells of two cards."""
    with running_exporter() as server:
        server.says(page("GPU-1", "GPU-2"))
        yield server


@pytest.fixture
def dcgm_clock() -> SettableClock:
    return SettableClock(START_S * 1_000_000)


@pytest.fixture
def dcgm_source(exporter: Exporter, dcgm_clock: SettableClock) -> Iterator[DcgmExporterSource]:
    source = DcgmExporterSource(exporter.url, dcgm_clock)
    yield source
    source.close()


@pytest.fixture
def start(tmp_path: Path, victoriametrics_url: str) -> Iterator[Start]:
    """Starts `gputab collect` in a folder of the test's own."""
    with collectors(tmp_path, victoriametrics_url) as begin:
        yield begin


@pytest.fixture
def hold(unique_node: str) -> Iterator[Hold]:
    """Starts processes that claim the test's node."""
    with holders(unique_node) as start:
        yield start


@pytest.fixture(name="own_store")
def _own_store(victoriametrics_binary: Path, tmp_path: Path) -> Iterator[OwnStore]:
    with own_store(victoriametrics_binary, tmp_path) as store:
        yield store


@pytest.fixture
def pusher(victoriametrics_url: str) -> Iterator[Pusher]:
    with Pusher(victoriametrics_url) as pusher:
        yield pusher


@pytest.fixture
def reader(victoriametrics_url: str) -> Iterator[Reader]:
    with Reader(victoriametrics_url) as reader:
        yield reader


@pytest.fixture
def do_import(pusher: Pusher, reader: Reader, victoriametrics_url: str) -> Import:
    """Imports a sample log into the session's store."""
    check_store = partial(launcher.check_flags, victoriametrics_url)

    def do(path: Path, **how: Any) -> ImportReport:
        return import_log(SampleFile(path), pusher, SystemClock(), ReaderSamples(reader), check_store, **how)

    return do


@pytest.fixture(autouse=True)
def _quiet_logs() -> Iterator[None]:
    """Logs of one test must not reach another's; a test that looks at them captures them itself."""
    structlog.configure(processors=[_drop])
    yield
    # What they have to say is said before the next test.
    wait_for_the_last_threads()
    structlog.reset_defaults()


def _drop(_logger: Any, _method: str, _event: MutableMapping[str, Any]) -> str:
    raise structlog.DropEvent
