"""Sample logs as CSV, and what the store has of them afterwards."""

from collections.abc import Callable
from pathlib import Path

from collector.imports.sample_import import ImportReport
from domain.series import Series
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector

START_S = 1_790_000_000

Import = Callable[..., ImportReport]


def write_log(folder: Path, node: str, *lines: str) -> Path:
    """Rows of time, NODE, card, busy ratio and used bytes."""
    path = folder / "log.csv"
    body = [line.replace("NODE", node) for line in lines]
    path.write_text("\n".join(["time,node,gpu_uuid,gpu_busy_ratio,gpu_memory_used_bytes", *body]) + "\n")
    return path


def stored(
    reader: Reader, node: str, series: Series, start_s: int = START_S, end_s: int = START_S + 1_000
) -> dict[int, float]:
    """Second -> value, in [start_s, end_s)."""
    frame = reader.export(Selector((series,), {"node": node}), start_s, end_s).frame
    return dict(frame.select("second_s", "value").iter_rows())
