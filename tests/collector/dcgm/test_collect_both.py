"""`gputab collect` by a host engine, and by NVML with an exporter: whole processes, from the cards to the store."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from collector.dcgm.host_engine import Entity, EntityGroup
from collector.delivery.queue import BatchQueue
from collector.owners.processes import sees_host_processes
from collector.process import queue_path
from domain.series import (
    COLLECTOR_CAPPED_RATIOS,
    GPU_BASIS_INFO,
    GPU_BUSY,
    GPU_COMPUTE,
    GPU_ENERGY,
    GPU_FIELD_STATE,
    GPU_LAST_XID,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_SM_ACTIVE,
    GPU_TENSOR_ACTIVE,
    GPU_UP,
    OWNER_MEMORY,
    Series,
)
from domain.units import GIB, MIB
from tests.collector.collecting import Process, Start
from tests.collector.dcgm_pages import Exporter, page
from tests.collector.patience import PATIENCE_S, now_s, wait_until
from tests.collector.sent import stored_samples
from tests.fakes.dcgm import busy_card
from tests.fakes.dcgm_lasting import LastingEngine
from tests.fakes.nvml.driver import FakeDriver

TESTS = Path(__file__).parents[2]
ENGINE_ENV = {"GPUTAB_DCGM_BINDINGS": str(TESTS / "fakes" / "dcgm_bindings"), "PYTHONPATH": str(TESTS.parent)}
CARD = Entity(EntityGroup.GPU, 0)
READ_AT_US = 300_000

Stored = Callable[..., pl.DataFrame]


@pytest.fixture
def stored(victoriametrics_url: str, unique_node: str) -> Stored:
    """What the store has of the node's series since the test began, with these labels, in the order of time."""
    began_s = now_s()

    def of(series: Series, **labels: str) -> pl.DataFrame:
        labels = {"node": unique_node, **labels}
        return stored_samples(victoriametrics_url, (series,), labels, began_s, now_s() + 1).sort("second_s")

    return of


def _last(frame: pl.DataFrame) -> Any:
    return None if frame.is_empty() else frame["value"].to_list()[-1]


def _stop(process: Process) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0


def test_seconds_in_which_no_collector_ran_are_those_that_the_engine_kept(
    start: Start, tmp_path: Path, unique_node: str, stored: Stored
) -> None:
    """A collector that is killed -9 and started again some seconds later has missed nothing that the engine read."""
    engine = tmp_path / "engine"
    LastingEngine.create(engine, f"GPU-{unique_node}")
    arguments = ("--dcgm-engine", f"unix://{engine}", "--node", unique_node)
    process = start(*arguments, env=ENGINE_ENV)
    wait_until(lambda: stored(GPU_ENERGY).height >= 3)
    process.kill()
    process.wait()
    gone_from_s = now_s() + 1
    wait_until(lambda: now_s() >= gone_from_s + 4)
    back_s = now_s()
    process = start(*arguments, env=ENGINE_ENV)
    wait_until(lambda: stored(GPU_ENERGY)["second_s"].to_list()[-1] >= back_s + 3)
    _stop(process)

    energy = stored(GPU_ENERGY)
    seconds = energy["second_s"].to_list()
    assert set(range(gone_from_s, back_s)) <= set(seconds)
    queue = BatchQueue(queue_path(tmp_path / "data", unique_node), 64 * MIB)
    until_s, holes = queue.sampled_until_s, queue.holes
    queue.close()
    assert until_s is not None
    up = stored(GPU_UP)["second_s"].to_list()
    assert len(up) + holes == until_s - up[0], "sampled, told later, or counted as a hole"
    # Each second has what the engine read in the one before, whether it was told live or later.
    for second_s, joules in energy.select("second_s", "value").iter_rows():
        written = busy_card(CARD, 156, (second_s - 1) * 1_000_000 + READ_AT_US)
        assert joules == pytest.approx(float(written or 0) / 1_000, abs=1), second_s
    assert set(stored(GPU_SM_ACTIVE)["value"].to_list()) == {0.5}
    assert _last(stored(GPU_BASIS_INFO, field=GPU_COMPUTE.name, source="dcgm_engine", basis="sm_active")) == 1


def test_nvml_and_an_exporter_are_one_card_of_which_each_series_has_one_source(
    start: Start, driver: FakeDriver, exporter: Exporter, tmp_path: Path, unique_node: str, stored: Stored
) -> None:
    """R15: an A100 has no counters of its SMs; when the exporter is away NVML's values go on, and no others do.

    R4: what DCGM tells that is taken as 1 is counted.
    """
    uuid = driver.card(
        0, "NVIDIA A100-SXM4-80GB", uuid=f"GPU-{unique_node[5:37]}", busy_percent=87, used=4 * GIB, milliwatts=312_500
    )
    # Without one it would be the driver that is at work.
    driver.process(uuid, os.getpid(), GIB)
    told = {"DCGM_FI_PROF_SM_ACTIVE": 0.25, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 1.02, "DCGM_FI_DEV_XID_ERRORS": 31}
    exporter.says(page(uuid, "GPU-another", **told))

    process = start("--source", "nvml", "--dcgm", exporter.url, "--node", unique_node, env=driver.env())
    wait_until(lambda: _last(stored(GPU_COMPUTE)) == 0.25)

    assert _last(stored(GPU_BASIS_INFO, field=GPU_COMPUTE.name)) == 1
    sources = {GPU_SM_ACTIVE: "dcgm_exporter", GPU_COMPUTE: "dcgm_exporter", GPU_BUSY: "nvml", GPU_POWER: "nvml"}
    for series, source in sources.items():
        assert set(stored(GPU_BASIS_INFO, field=series.name)["source"].to_list()) == {source}
    assert set(stored(GPU_SM_ACTIVE)["value"].to_list()) == {0.25}
    assert set(stored(GPU_TENSOR_ACTIVE)["value"].to_list()) == {1}
    capped = {"gpu_uuid": uuid, "field": GPU_TENSOR_ACTIVE.name, "source": "dcgm_exporter"}
    wait_until(lambda: (_last(stored(COLLECTOR_CAPPED_RATIOS, **capped)) or 0) >= 2)
    assert set(stored(GPU_BUSY)["value"].to_list()) == {0.87}
    assert set(stored(GPU_POWER)["value"].to_list()) == {312.5}
    assert set(stored(GPU_MEMORY_USED)["value"].to_list()) == {4 * GIB}
    assert set(stored(GPU_UP)["gpu_uuid"].to_list()) == {uuid}, "of the exporter's other card nothing is told"
    assert stored(GPU_LAST_XID).is_empty(), "what only DCGM tells is waited for: NVML might yet"

    exporter.status = 500
    wait_until(lambda: _last(stored(GPU_FIELD_STATE, field=GPU_SM_ACTIVE.name, state="error")) == 1)
    away_s = stored(GPU_SM_ACTIVE)["second_s"].to_list()[-1]
    wait_until(lambda: stored(GPU_BUSY)["second_s"].to_list()[-1] >= away_s + 2)
    _stop(process)

    assert "source='nvml and dcgm_exporter'" in (tmp_path / "log-0").read_text()
    assert stored(GPU_SM_ACTIVE)["second_s"].to_list()[-1] == away_s, "nothing is repeated in its place"
    assert set(stored(GPU_BUSY)["value"].to_list()) == {0.87}
    compute = stored(GPU_COMPUTE)
    assert set(compute["value"].to_list()) == {0.25}, "a basis is not left at once"
    assert compute["second_s"].to_list()[-1] == away_s
    owned = stored(OWNER_MEMORY).group_by("second_s").agg(pl.col("value").sum())
    # In a container with PIDs of its own nobody's use is known.
    assert set(owned["value"].to_list()) == ({4 * GIB} if sees_host_processes() else set())
