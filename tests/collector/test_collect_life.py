"""`gputab collect` on a node whose driver is unloaded, exchanged, and asked to be let go of: one process after all."""

import signal
from pathlib import Path

import polars as pl
import pynvml
import pytest

from collector.delivery.queue import BatchQueue
from collector.node_state import node_state_path
from collector.process import queue_path
from collector.quiesce import QuiesceCaller
from domain.errors import UnavailableError
from domain.series import (
    COLLECTOR_DRIVER_OPENED,
    COLLECTOR_DRIVER_STATE,
    COLLECTOR_EXPECTED_CARDS,
    COLLECTOR_LATENESS,
    GPU_BUSY,
    GPU_FIELD_STATE,
    GPU_MEMORY_USED,
    GPU_UP,
    MIG_INFO,
    Series,
)
from domain.units import MIB
from gputab.commands.quiesce import quiesce
from tests.collector.collecting import Process, Start
from tests.collector.patience import CLOCK, PATIENCE_S, now_s, wait_until
from tests.collector.sent import stored_samples
from tests.fakes.nvml.driver import FakeDriver, Open
from victoriametrics.push import Pusher
from victoriametrics.read import Reader

NOTHING = Open(inits=0, event_sets=0, system_event_sets=0, gpm_samples=0)


class Node:
    """A node with a fake driver, a collector that can be started, and what has come of it in the store."""

    def __init__(self, driver: FakeDriver, start: Start, folder: Path, name: str, url: str) -> None:
        self.driver, self.folder, self.name = driver, folder, name
        self._start, self._url = start, url
        self._began_s = now_s()

    def collect(self) -> Process:
        return self._start("--node", self.name, env=self.driver.env())

    def samples(self, *series: Series) -> pl.DataFrame:
        return stored_samples(self._url, series, {"node": self.name}, self._began_s, now_s() + 1)

    def names(self, labels: str) -> set[str]:
        """Of every series with those labels, in MetricsQL."""
        with Pusher(self._url) as pusher, Reader(self._url) as reader:
            pusher.flush()
            query = f'last_over_time({{node="{self.name}",{labels}}}[1h])'
            return {found.labels["__name__"] for found in reader.instant(query, now_s())}

    def wait_for_value(self, series: Series, value: float, **labels: str) -> None:
        """Wait until the last value of the series is that."""

        def is_so() -> bool:
            frame = self.samples(series)
            for label, wanted in labels.items():
                frame = frame.filter(pl.col(label) == wanted) if label in frame.columns else frame.clear()
            return not frame.is_empty() and frame.sort("second_s")["value"].to_list()[-1] == value

        wait_until(is_so)

    def last_s(self, series: Series) -> int:
        """The last second that has a sample of it."""
        return int(self.samples(series)["second_s"].to_list()[-1])

    def log(self, number: int = 0) -> str:
        return (self.folder / f"log-{number}").read_text()


@pytest.fixture
def node(
    driver: FakeDriver,
    start: Start,
    tmp_path: Path,
    unique_node: str,
    victoriametrics_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Node:
    """The settings of `gputab quiesce` are those of the collector."""
    monkeypatch.setenv("GPUTAB_DATA_DIR", str(tmp_path / "data"))
    return Node(driver, start, tmp_path, unique_node, victoriametrics_url)


def _stop(process: Process) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0


def _is_complete(node: Node, uuid: str) -> None:
    """Every second is in the store, or counted as a hole."""
    queue = BatchQueue(queue_path(node.folder / "data", node.name), 64 * MIB)
    try:
        until_s, holes = queue.complete_until_s, queue.holes
        assert len(queue) == 0
    finally:
        queue.close()
    frame = node.samples(COLLECTOR_LATENESS)
    seconds = frame["second_s"].to_list()
    assert until_s is not None
    assert len(seconds) + holes == until_s - seconds[0]


def test_a_driver_that_is_loaded_again_is_read_again_by_the_same_process(node: Node) -> None:
    """Cards are down and not idle meanwhile, in every second, and are counted on."""
    uuid = node.driver.card(0, busy_percent=50)
    process = node.collect()
    node.wait_for_value(GPU_UP, 1)
    node.driver.unload()
    node.wait_for_value(GPU_UP, 0)
    node.wait_for_value(COLLECTOR_DRIVER_STATE, 1, state="gone")
    node.wait_for_value(COLLECTOR_EXPECTED_CARDS, 1)
    node.driver.load()
    node.wait_for_value(GPU_UP, 1)
    node.wait_for_value(COLLECTOR_DRIVER_OPENED, 2)
    node.wait_for_value(COLLECTOR_DRIVER_STATE, 0, state="gone")
    assert node.log().count("collector_started") == 1
    _stop(process)
    _is_complete(node, uuid)
    frame = node.samples(GPU_UP, GPU_BUSY)
    down = set(frame.filter((pl.col("series") == GPU_UP.name) & (pl.col("value") == 0))["second_s"])
    assert down
    assert not down & set(frame.filter(pl.col("series") == GPU_BUSY.name)["second_s"]), "no value is repeated"


def test_a_driver_that_is_exchanged_is_followed_by_a_new_process_in_place_of_the_old(node: Node) -> None:
    """L2: the same command with the same PID; the queue is whole, and what passes meanwhile is a hole at most."""
    uuid = node.driver.card(0)
    process = node.collect()
    node.wait_for_value(GPU_UP, 1)
    node.driver.exchange("610.57.04")
    wait_until(lambda: node.log().count("collector_started") == 2)
    node.wait_for_value(GPU_UP, 1)
    assert process.poll() is None
    assert "collector_restarts_itself" in node.log()
    _stop(process)
    _is_complete(node, uuid)


def test_a_driver_that_stays_exchanged_is_tried_every_ten_seconds_and_no_oftener(node: Node) -> None:
    """L2: as until a reboot: the library and the module differ, whoever opens them."""
    node.driver.card(0)
    process = node.collect()
    node.wait_for_value(GPU_UP, 1)
    node.driver.unload(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    wait_until(lambda: node.log().count("collector_started") == 2)
    node.wait_for_value(COLLECTOR_DRIVER_STATE, 1, state="mismatch")
    node.wait_for_value(GPU_UP, 0)
    CLOCK.sleep_s(3)
    assert node.log().count("collector_started") == 2
    node.driver.load()
    node.wait_for_value(GPU_UP, 1)
    _stop(process)


def test_a_collector_that_starts_without_a_driver_goes_on_where_it_has_had_cards(node: Node) -> None:
    node.driver.card(0)
    node.driver.unload()
    process = node.collect()
    assert process.wait(PATIENCE_S) == 1
    assert node.log(0).splitlines()[-1].startswith("gputab: cannot reach the NVIDIA driver")
    assert not (node.folder / "data").exists()

    node.driver.load()
    process = node.collect()
    node.wait_for_value(GPU_UP, 1)
    _stop(process)
    assert node_state_path(node.folder / "data", node.name).exists()
    node.driver.unload()
    process = node.collect()
    node.wait_for_value(GPU_UP, 0)
    node.driver.load()
    node.wait_for_value(GPU_UP, 1)
    _stop(process)


def test_cards_are_let_go_of_and_taken_up_again_at_a_command(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    """M4: when the command returns nothing is held; seconds go on being stamped, also by the next process."""
    uuid = node.driver.card(0, "NVIDIA H100 80GB HBM3")
    process = node.collect()
    node.wait_for_value(GPU_UP, 1)
    wait_until(lambda: node.driver.opened().event_sets == 1)

    began_s = CLOCK.monotonic_s()
    quiesce(node.name)
    assert CLOCK.monotonic_s() - began_s < 5
    assert node.driver.opened() == NOTHING
    assert "are let go of" in capsys.readouterr().err
    node.wait_for_value(GPU_FIELD_STATE, 1, field=GPU_UP.name, state="quiesced")
    node.wait_for_value(COLLECTOR_DRIVER_STATE, 1, state="quiesced")
    quiet_s = now_s()
    _stop(process)
    process = node.collect()
    wait_until(lambda: node.last_s(COLLECTOR_LATENESS) > now_s() - 2)
    assert node.driver.opened() == NOTHING, "it stays so over a restart"
    assert node.last_s(GPU_UP) <= quiet_s

    quiesce(node.name, resume=True)
    assert "the driver is open" in capsys.readouterr().err
    node.wait_for_value(GPU_UP, 1)
    _stop(process)
    assert node.driver.opened() == NOTHING
    _is_complete(node, uuid)


def test_signals_do_the_same(node: Node) -> None:
    """M4: SIGUSR1 and SIGUSR2, for a supervisor that knows no files."""
    node.driver.card(0)
    process = node.collect()
    node.wait_for_value(GPU_UP, 1)
    process.send_signal(signal.SIGUSR1)
    wait_until(lambda: node.driver.opened() == NOTHING)
    quiesce(node.name)
    process.send_signal(signal.SIGUSR2)
    wait_until(lambda: node.driver.opened().inits == 1)
    _stop(process)


def test_a_call_that_hangs_is_named_and_the_request_stands(node: Node) -> None:
    """M4, L4: the operator learns which card, and that the collector goes on trying."""
    uuid = node.driver.card(0)
    process = node.collect()
    node.wait_for_value(GPU_UP, 1)
    fault = node.driver.fault(0, "nvmlDeviceGetMemoryInfo_v2", uuid, hang=True)
    wait_until(lambda: fault.waiting > 0)
    caller = QuiesceCaller(node.folder / "data", node.name, CLOCK)
    with pytest.raises(UnavailableError, match="a call still hangs") as raised:
        caller.quiesce(patience_s=2)
    assert uuid in str(raised.value)
    fault.take_back()
    wait_until(lambda: node.driver.opened() == NOTHING)
    quiesce(node.name)
    _stop(process)


def test_the_generation_of_an_instance_is_told_beside_its_values_and_never_on_them(node: Node) -> None:
    """M2: the same number, profile and UUID for the next tenant: what is summed by labels stays one series."""
    card = node.driver.card(0, "NVIDIA H100 80GB HBM3", mig_mode=1, full_card_sms=132)
    uuid = node.driver.create_instance(card, "1g.10gb")
    process = node.collect()
    node.wait_for_value(MIG_INFO, 1, mig_uuid=uuid, generation="1")
    node.driver.destroy_instance(uuid)
    wait_until(lambda: node.last_s(MIG_INFO) < now_s() - 1)
    assert node.driver.create_instance(card, "1g.10gb") == uuid
    node.wait_for_value(MIG_INFO, 1, mig_uuid=uuid, generation="2")
    _stop(process)

    generations = node.samples(MIG_INFO)["generation"].to_list()
    assert generations == sorted(generations)
    assert set(generations) == {"1", "2"}
    assert node.names('generation!=""') == {MIG_INFO.name}
    assert {GPU_UP.name, GPU_MEMORY_USED.name} <= node.names(f'mig_uuid="{uuid}"')
