"""The openb trace (Alibaba cluster-trace-gpu-v2023) as allocation CSV: one row per card of a task, no devices.

Tasks without a scheduled time never ran; time 0 is a time. The trace says neither the model nor any VRAM.
"""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from domain.allocation_csv import REQUIRED_COLUMNS

OPENB = Path(__file__).parent.parent.parent / "shared" / "data" / "openb" / "openb_pod_list_default.csv"
# Sum over the tasks that were scheduled of cards x milli-GPU x seconds.
MILLI_GPU_SECONDS = 185_294_426_970
GRANTS = 6_571


def allocation_csv(pods: Path) -> str:
    """The allocation CSV of a pod list."""
    text = io.StringIO()
    writer = csv.DictWriter(text, REQUIRED_COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    with pods.open(encoding="utf-8", newline="") as file:
        writer.writerows(row for pod in csv.DictReader(file) for row in _rows(pod))
    return text.getvalue()


def _rows(pod: dict[str, str]) -> Iterator[dict[str, str]]:
    if not pod["scheduled_time"]:
        return
    for _ in range(int(pod["num_gpu"])):
        yield {
            "allocation": pod["name"],
            "tenant": "openb",
            "project": pod["qos"].lower(),
            "model": pod["gpu_spec"] or "unspecified",
            "kind": "whole" if pod["gpu_milli"] == "1000" else "share",
            "milli_gpu": pod["gpu_milli"],
            "vram_mib": "0",
            "start": pod["scheduled_time"],
            "end": pod["deletion_time"],
        }
