"""`gputab bill` of a dmon log, and of a pmon log: what they tell, and null for what they do not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.collector.logs.monitor_logs import rows

Gputab = Callable[..., Any]

PRICES = ("--gpu-hour", "3.60", "--vram-gib-hour", "0.36", "--currency", "CNY", "--format", "json")
NAMES = ("date", "time", "gpu", "sm", "fb")


def _bill(gputab: Gputab, lines: list[str], *words: str) -> Any:
    Path("log.txt").write_text("\n".join([*lines, ""]), "utf-8")
    return gputab("bill", "log.txt", *PRICES, *words)


def test_use_memory_and_times_of_dmon_are_a_bill(gputab: Gputab) -> None:
    """The same rule as for other logs: a reading stands until the next one of its card."""
    done = _bill(gputab, rows(NAMES, [(20260101, f"00:00:{second:02}", 0, 50, 1_024) for second in (0, 5, 10)]))

    assert (done.code, done.err) == (0, "")
    assert done.data["files"][0]["gpus"]["0"] == {
        "samples": 3,
        "covered_s": 10.0,
        "busy_gpu_s": 5.0,
        "vram_gib_s": 10.0,
        "amount": "0.011",
        "currency": "CNY",
    }


def test_without_memory_there_is_no_price_for_it(gputab: Gputab) -> None:
    """dmon's own columns, without `-s m`, do not tell how much was in use: that is unknown, and not 0."""
    lines = rows(("gpu", "sm"), [(0, 50), (0, 50)])
    asked = _bill(gputab, lines)
    done = _bill(gputab, lines, "--start", "2026-01-01T00:00:00Z", "--step", "10")

    assert asked.code == 2
    assert "it has no times; say when it began with --start" in asked.err
    card = done.data["files"][0]["gpus"]["0"]
    assert (card["busy_gpu_s"], card["vram_gib_s"], card["amount"]) == (5.0, None, None)


def test_a_pmon_log_tells_neither_use_nor_memory(gputab: Gputab) -> None:
    """A3: the shares of its processes are no use of the card."""
    names = ("date", "time", "gpu", "pid", "type", "sm", "fb", "command")
    cells = [(20260101, f"00:00:0{second}", 0, pid, "C", 90, 500, "x") for second in (0, 5) for pid in (11, 12)]
    done = _bill(gputab, rows(names, cells))

    assert done.code == 0
    card = done.data["files"][0]["gpus"]["0"]
    assert (card["samples"], card["busy_gpu_s"], card["vram_gib_s"], card["amount"]) == (2, None, None, None)
    assert "a PID proves no owner" in done.err
