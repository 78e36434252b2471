"""From a dcgm-exporter's page to the store: by the collector's own loop, and by `gputab collect --dcgm`."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

import polars as pl
import pytest

from collector.dcgm.exporter import DcgmExporterSource
from collector.delivery.queue import BatchQueue
from collector.process import collect, queue_path
from domain.series import (
    COLLECTOR_CAPPED_RATIOS,
    COLLECTOR_GARBAGE,
    COLLECTOR_MISSED,
    GPU_BUSY,
    GPU_ENERGY,
    GPU_INFO,
    GPU_MEMORY_USED,
    GPU_SM_ACTIVE,
    GPU_UP,
)
from domain.units import MIB
from gputab.cli import run
from tests.collector.dcgm_pages import Exporter, line, page
from tests.collector.patience import CLOCK, PATIENCE_S, now_s, wait_until
from tests.collector.sent import samples_of_card, stored_samples
from tests.collector.stores import unchecked
from victoriametrics.push import Pusher
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector

BINDINGS = Path(__file__).parents[2] / "fakes" / "dcgm_bindings"
ENERGY, USED, SM = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_FB_USED", "DCGM_FI_PROF_SM_ACTIVE"


def _own_page(node: str, used: int) -> str:
    """A card, a card in MIG mode with an instance, and a fault of the exporter's."""
    plain = page(f"{node}-0", **{USED: used, SM: 0.25, ENERGY: used * 1_000, "DCGM_FI_DEV_GPU_TEMP": "ERROR - FAILED"})
    return f"{plain}{line(USED, 10, f'{node}-1', 1, GPU_I_ID='7', GPU_I_PROFILE='1g.10gb')}\n"


def test_pages_that_change_come_back_from_the_store_second_by_second(
    queue: BatchQueue, exporter: Exporter, pusher: Pusher, reader: Reader, victoriametrics_url: str, unique_node: str
) -> None:
    """While the exporter is away the cards are mute: counted, not lost, and nothing is repeated in their place."""
    began_s = now_s()
    uuid = f"{unique_node}-0"
    exporter.says(_own_page(unique_node, 100))
    source = DcgmExporterSource(exporter.url, CLOCK)
    stop = threading.Event()
    arguments = (unique_node, source, queue, pusher, CLOCK, stop)
    thread = threading.Thread(target=collect, args=arguments, kwargs={"check_store": unchecked})

    def used() -> list[float]:
        frame = samples_of_card(victoriametrics_url, uuid, began_s)
        return frame.filter(pl.col("series") == GPU_MEMORY_USED.name)["value"].unique(maintain_order=True).to_list()

    def missed() -> float:
        pusher.flush()
        found = reader.export(Selector((COLLECTOR_MISSED,), {"node": unique_node, "gpu_uuid": uuid}), began_s, now_s())
        return max(found.frame["value"].to_list(), default=0)

    thread.start()
    try:
        wait_until(lambda: used() == [100 * MIB])
        exporter.status = 500
        wait_until(lambda: missed() >= 1)
        exporter.says(_own_page(unique_node, 200))
        exporter.status = 200
        wait_until(lambda: used() == [100 * MIB, 200 * MIB])
    finally:
        stop.set()
        thread.join(PATIENCE_S)
        source.close()

    pusher.flush()
    series = (GPU_UP, GPU_BUSY, GPU_SM_ACTIVE, GPU_ENERGY, GPU_MEMORY_USED, GPU_INFO, COLLECTOR_GARBAGE)
    frame = reader.export(Selector(series, {"node": unique_node}), began_s, now_s() + 1).frame
    values = {name: set(rows["value"].to_list()) for (name,), rows in frame.group_by(["series"], maintain_order=True)}
    assert values[GPU_UP.name] == {1}, "mute is not lost"
    assert values[GPU_BUSY.name] == {0.91}
    assert values[GPU_SM_ACTIVE.name] == {0.25}
    assert values[GPU_ENERGY.name] == {100, 200}
    assert values[GPU_MEMORY_USED.name] == {100 * MIB, 200 * MIB, 10 * MIB}
    assert max(values[COLLECTOR_GARBAGE.name]) >= 2, "words where a temperature belongs"
    instances = frame.filter(pl.col("mig_uuid") == f"MIG-{unique_node}-1/7/0")["series"].unique().to_list()
    assert sorted(instances) == sorted([GPU_UP.name, GPU_MEMORY_USED.name])


def test_the_command_collects_from_an_exporter(
    exporter: Exporter, tmp_path: Path, victoriametrics_url: str, unique_node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_URL", victoriametrics_url)
    monkeypatch.setenv("GPUTAB_DATA_DIR", str(tmp_path))
    exporter.says(page(unique_node, **{SM: 1.02}))
    began_s = now_s()

    command = [sys.executable, "-m", "gputab", "collect", "--dcgm", exporter.url, "--node", unique_node]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: samples_of_card(victoriametrics_url, unique_node, began_s).height >= 2)
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()

    assert queue_path(tmp_path, unique_node).exists()
    series, labels = (COLLECTOR_CAPPED_RATIOS,), {"node": unique_node}
    capped = stored_samples(victoriametrics_url, series, labels, began_s, now_s() + 1)
    assert set(capped["source"].to_list()) == {"dcgm_exporter"}, "R4: a ratio that is taken as 1 is counted"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--dcgm", "127.0.0.1:9400"], 2, "write a URL that begins with http://"),
        (["--dcgm", "http://me:se/cret@127.0.0.1:9400"], 2, "write a URL such as"),
        (["--dcgm", "http://127.0.0.1:9", "--node", "n"], 1, "cannot read the cards from 'http://127.0.0.1:9/metrics'"),
        (["--dcgm", "http://127.0.0.1:9", "--source", "simulator", "--world", "w"], 2, "leave out --source simulator"),
        (["--dcgm-engine", "a b"], 2, "write a host such as 127.0.0.1:5555"),
        (["--dcgm-engine", "127.0.0.1", "--node", "n"], 1, "cannot connect to 'tcp://127.0.0.1:5555'"),
        (["--dcgm-engine", "127.0.0.1", "--dcgm", "http://127.0.0.1:9"], 2, "give --dcgm or --dcgm-engine"),
    ],
)
def test_what_cannot_be_used_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPUTAB_DCGM_BINDINGS", str(BINDINGS))

    assert run(["collect", *arguments]) == code

    (told,) = [text for text in capsys.readouterr().err.splitlines() if text.startswith("gputab: cannot")]
    assert words in told
    assert "cret" not in told
