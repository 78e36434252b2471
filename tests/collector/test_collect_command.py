"""`gputab collect` as it runs on a node: from simulated cards to the store, stopped, killed and started again."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import polars as pl
import pytest

from collector.delivery.queue import BatchQueue
from collector.process import queue_path
from collector.simulation.truth import Span, truth
from collector.simulation.workloads import Workload
from collector.simulation.world import Tenancy
from collector.simulation.world_file import WorldFile, load_world
from domain.series import COLLECTOR_COMPLETE_UNTIL, COLLECTOR_HOLES, GPU_MEMORY_USED, GPU_UP
from domain.units import MIB
from gputab.cli import run
from machine.process import free_port
from tests.collector.collecting import Start, wait_for_queued_seconds
from tests.collector.patience import CLOCK, PATIENCE_S, now_s, wait_until
from tests.collector.sent import samples_of_card, stored_samples

NODE = "sim-4090-a"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder without anybody's settings."""
    for name in [name for name in os.environ if name.startswith("GPUTAB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GPUTAB_DATA_DIR", "data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def world(tmp_path: Path) -> WorldFile:
    """A world of its own: the seed makes UUIDs that no other test has."""
    return WorldFile.create(tmp_path / "world.jsonl", uuid4().int % 2**31, CLOCK)


def test_what_a_collector_delivers_is_what_was_true_across_a_stop_a_kill_and_restarts(
    start: Start, world: WorldFile, tmp_path: Path, victoriametrics_url: str
) -> None:
    """Stopped in good order, started, killed -9, started: every second is in the store or is a counted hole."""
    first = load_world(tmp_path / "world.jsonl")
    card = first.fleet.nodes[NODE][0]
    uuid = card.device.uuid
    began_s = now_s()
    world.add_tenancy(Tenancy("a", uuid, None, Workload.INFERENCE, world.earliest_s + 1, None, card.usable_bytes))
    arguments = ("--source", "simulator", "--world", str(tmp_path / "world.jsonl"), "--node", NODE)

    def has_sampled(seconds: int) -> Callable[[], bool]:
        already = samples_of_card(victoriametrics_url, uuid, began_s).height
        return lambda: samples_of_card(victoriametrics_url, uuid, began_s).height >= already + 2 * seconds

    process = start(*arguments)
    wait_until(has_sampled(2))
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
    process = start(*arguments)
    wait_until(has_sampled(2))
    process.kill()
    process.wait()
    process = start(*arguments)
    wait_until(has_sampled(2))
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 0

    queue = BatchQueue(queue_path(tmp_path / "data", NODE), 64 * MIB)
    assert len(queue) == 0, "a collector that is stopped delivers what it has"
    until_s, holes = queue.complete_until_s, queue.holes
    queue.close()
    assert until_s is not None
    frame = samples_of_card(victoriametrics_url, uuid, began_s)
    seconds = frame.filter(pl.col("series") == GPU_UP.name)["second_s"].to_list()
    assert seconds[-1] == until_s - 1
    assert len(seconds) + holes == until_s - seconds[0], "sampled seconds and holes are all there are"

    whole = load_world(tmp_path / "world.jsonl")
    missing = frozenset(range(seconds[0], until_s)) - frozenset(seconds)
    true = truth(whole, Span(uuid, None, None, seconds[0], until_s), unsampled=missing)
    assert true.covered_seconds == len(seconds)
    used = frame.filter(pl.col("series") == GPU_MEMORY_USED.name)["value"].cast(pl.Int128).sum()
    assert used == true.used_vram_byte_seconds
    series = (COLLECTOR_COMPLETE_UNTIL, COLLECTOR_HOLES)
    own = stored_samples(victoriametrics_url, series, {"node": NODE}, began_s, now_s() + 1)
    marks = own.filter(pl.col("series") == COLLECTOR_COMPLETE_UNTIL.name)["value"].to_list()
    assert marks == sorted(marks)
    assert marks[-1] == until_s
    told = own.filter((pl.col("series") == COLLECTOR_HOLES.name) & (pl.col("second_s") == until_s - 1))
    assert told["value"].sum() == holes, "over all reasons"


def test_a_store_that_is_away_does_not_stop_sampling_and_stopping_loses_nothing(
    start: Start, world: WorldFile, tmp_path: Path
) -> None:
    arguments = ("--source", "simulator", "--world", str(tmp_path / "world.jsonl"), "--node", NODE)
    process = start(*arguments, url=f"http://127.0.0.1:{free_port()}")
    wait_for_queued_seconds(tmp_path, NODE)
    process.send_signal(signal.SIGTERM)

    assert process.wait(PATIENCE_S) == 0
    queue = BatchQueue(queue_path(tmp_path / "data", NODE), 64 * MIB)
    waiting = [batch.second_s for batch in queue.pending(2**30)]
    assert len(waiting) >= 2
    assert queue.complete_until_s == waiting[0]
    queue.close()
    log = (tmp_path / "log-0").read_text()
    assert log.count("store_unavailable") == 1, "said once"
    assert f"event='collector_started' node='{NODE}' source='simulator' cards=" in log


def test_a_second_standing_by_and_one_with_the_same_queue_is_refused(
    start: Start, world: WorldFile, tmp_path: Path
) -> None:
    """Neither holds the cards, nor says anything of the node."""
    node = "sim-4090-b"
    arguments = ("--source", "simulator", "--world", str(tmp_path / "world.jsonl"), "--node", node)
    start(*arguments)
    wait_until(lambda: "collector_started" in (tmp_path / "log-0").read_text())
    second = start(*arguments, env={"GPUTAB_DATA_DIR": str(tmp_path / "other")})
    wait_until(lambda: "standing_by" in (tmp_path / "log-1").read_text())
    assert start(*arguments).wait(PATIENCE_S) == 1
    assert "another process has it; stop the other collector of this node" in (tmp_path / "log-2").read_text()
    second.send_signal(signal.SIGTERM)
    assert second.wait(PATIENCE_S) == 0
    assert "collector_started" not in (tmp_path / "log-1").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--source", "simulator"], 2, "--world FILE goes with --source simulator"),
        (["--source", "nvml", "--world", "world.jsonl"], 2, "--world FILE goes with --source simulator"),
        (["--source", "simulator", "--world", "none.jsonl", "--node", NODE], 1, "start what writes it first"),
        (["--source", "simulator", "--world", "world.jsonl", "--node", "gpu-1"], 2, "cannot simulate the node 'gpu-1'"),
        (["--node", "no good"], 2, "cannot use 'no good' as a node"),
        (["--node", ""], 2, "cannot use '' as a node"),
    ],
)
def test_unusable_input_is_one_line_and_leaves_no_queue(
    world: WorldFile, here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    assert run(["collect", *arguments]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line
    assert not (here / "data").exists()


def test_a_machine_without_a_driver_is_pointed_to_the_simulator(start: Start, tmp_path: Path) -> None:
    if Path("/proc/driver/nvidia").exists():
        pytest.skip("this machine has a driver")
    # In a process of its own: another test's driver may be loaded in this one.
    assert start("--node", NODE).wait(PATIENCE_S) == 1
    assert "by `gputab demo`" in (tmp_path / "log-0").read_text()
    assert not (tmp_path / "data").exists()


def test_a_nodes_queue_is_a_file_of_its_own_whatever_the_node_is_called(tmp_path: Path) -> None:
    names = ["gpu-1", "gpu/1", "gpu:1", "gpu.1"]
    paths = {queue_path(tmp_path, name) for name in names}
    assert len(paths) == len(names)
    assert {path.parent for path in paths} == {tmp_path}
