"""Queues in a folder of the test's own, and the real log that imports must get right."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import structlog

from collector.queue import BatchQueue
from domain.units import MIB

ALIBABA = Path(__file__).parents[3] / "shared" / "data" / "alibaba-gentd26"


class AlibabaLog(NamedTuple):
    """A production log of 14 devices over 6 h as sample CSV, and the sums it must come to."""

    csv: Path
    hold_s: int
    samples: int
    device_seconds: int
    byte_seconds: int


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[BatchQueue]:
    queue = BatchQueue(tmp_path / "queue.db", 64 * MIB)
    yield queue
    queue.close()


@pytest.fixture
def alibaba_log(tmp_path: Path) -> AlibabaLog:
    """The pods are devices of the node `alibaba`; percent become ratios, memory cells stay as they are."""
    source = ALIBABA / "subset_14pods_6h.csv"
    if not source.exists():
        pytest.skip(f"needs {source.name} of the shared data beside the checkout")
    expected = json.loads((ALIBABA / "EXPECTED_subset.json").read_text())
    target = tmp_path / "alibaba.csv"
    readings = 0
    with source.open(newline="") as lines, target.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["time", "node", "gpu_uuid", "gpu_busy_ratio", "gpu_memory_used_bytes"])
        for row in csv.DictReader(lines):
            busy = row["gpu_util_pct"]
            ratio = "" if busy == "" else float(busy) / 100
            writer.writerow([row["timestamp"], "alibaba", row["pod"], ratio, row["gpu_mem_used_bytes"]])
            readings += (busy != "") + (row["gpu_mem_used_bytes"] != "")
    hold_s = 57
    return AlibabaLog(
        target, hold_s, readings * hold_s, expected["allocated_gpu_s_if_cut_at_holes"], expected["vram_byte_s"]
    )


@pytest.fixture(autouse=True)
def _quiet_logs() -> Iterator[None]:
    """Logs of one test must not reach another's; a test that looks at them captures them itself."""
    structlog.configure(processors=[_drop])
    yield
    structlog.reset_defaults()


def _drop(logger: object, name: str, event: object) -> object:
    raise structlog.DropEvent
