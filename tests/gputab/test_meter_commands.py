"""`gputab meter`."""

import os
import signal
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from domain.clock import SystemClock
from domain.period import format_instant
from machine.process import free_port

Gputab = Callable[..., Any]
Record = Callable[..., None]
US = 1_000_000
HOUR_S = 3_600
PERIOD = ("--from", "2026-03-31T15:00:00Z", "--to", "2026-03-31T17:00:00Z")
UNKNOWN = {"allocation": "a1", "start": "2026-03-31T15:30:00Z", "end": "2026-03-31T16:10:00Z"}


def _bill_rows(ledger: Path) -> list[Any]:
    with closing(sqlite3.connect(ledger)) as connection:
        return sorted(connection.execute("SELECT * FROM charges")) + sorted(connection.execute("SELECT * FROM windows"))


def test_a_run_prints_each_window_and_the_next_one_changes_nothing(
    gputab: Gputab, ledger: Path, record: Record
) -> None:
    record(UNKNOWN)
    first = gputab("meter", "run", *PERIOD, "--format", "json")
    assert (first.code, first.err) == (0, "")
    every = {"state": "settled", "unpriced_seconds": 0, "residual": 0, "charges": 2}
    assert [
        {key: value for key, value in row.items() if key not in ("node", "amount")} for row in first.data["rows"]
    ] == [
        {**every, "window": "2026-03-31T15:00:00Z", "rated_until": "2026-03-31T16:00:00Z"},
        {**every, "window": "2026-03-31T16:00:00Z", "rated_until": "2026-03-31T17:00:00Z"},
    ]
    assert first.data["rows"][0]["amount"] == "1.459824219 CNY"
    before = _bill_rows(ledger)
    assert gputab("meter", "run", *PERIOD, "--format", "json").data == first.data
    assert _bill_rows(ledger) == before


def test_any_cut_of_the_period_gives_the_same_rows(gputab: Gputab, ledger: Path, record: Record) -> None:
    record(UNKNOWN)
    gputab("meter", "run", *PERIOD)
    whole = _bill_rows(ledger)
    with closing(sqlite3.connect(ledger)) as connection, connection:
        for table in ("charges", "evidence", "windows"):
            connection.execute(f"DELETE FROM {table}")
    cuts = ["2026-03-31T15:00:00Z", "2026-03-31T15:45:00Z", "2026-03-31T16:00:01Z", "2026-03-31T17:00:00Z"]
    for start, end in pairwise(cuts):
        assert gputab("meter", "run", "--from", start, "--to", end).code == 0
    assert _bill_rows(ledger) == whole


def test_status_says_how_far_each_node_is(gputab: Gputab, ledger: Path, record: Record) -> None:
    record(UNKNOWN)
    (row,) = gputab("meter", "status", "--format", "json").data["rows"]
    assert (row["rated_until"], row["lag_seconds"], row["oldest_open"], row["open"]) == (
        None,
        None,
        "2026-03-31T15:00:00Z",
        2,
    )
    gputab("meter", "run", *PERIOD)
    (row,) = gputab("meter", "status", "--format", "json").data["rows"]
    lag_seconds = row.pop("lag_seconds")
    assert abs(SystemClock().now_us() // US - 1_774_976_400 - lag_seconds) <= 60
    del row["node"]
    assert row == {
        "rated_until": "2026-03-31T17:00:00Z",
        "oldest_open": None,
        "open": 0,
        "settled": 2,
        "closed": 0,
        "unpriced_seconds": 0,
        "residual_compute": 0,
        "residual_vram": 0,
    }


def test_a_store_that_is_down_is_exit_code_1_and_one_line(
    gputab: Gputab, ledger: Path, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    """metering.md C38; nothing is written for the node, and its address is named."""
    record({**UNKNOWN, "node": "n1", "gpu_uuid": "GPU-1"})
    url = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_URL", url)
    refused = gputab("meter", "run", *PERIOD)
    assert (refused.code, refused.out) == (1, "")
    assert refused.line.startswith("gputab: cannot ")
    assert url in refused.line
    assert _bill_rows(ledger) == []


@pytest.mark.usefixtures("ledger")
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("", "cannot run the meter: give --from and --to, or --follow"),
        ("--from 0", "cannot run the meter: give --from and --to, or --follow"),
        ("--to 10", "cannot run the meter: give --from and --to, or --follow"),
        ("--from 0 --to 10 --follow", "cannot run the meter: give --from and --to, or --follow"),
        ("--from 20 --to 10", "cannot use a period that ends at"),
        ("--from 2026-03-01 --to 10", "cannot use the naive time '2026-03-01'"),
        ("--from 0 --to 1e20", "cannot use the time '1e20'"),
    ],
)
def test_a_period_that_cannot_be_is_exit_code_2(gputab: Gputab, words: str, problem: str) -> None:
    refused = gputab("meter", "run", *words.split())
    assert (refused.code, refused.out) == (2, "")
    assert refused.line.startswith(f"gputab: {problem}")


@pytest.mark.usefixtures("ledger")
def test_a_run_of_nothing_prints_an_empty_list(gputab: Gputab) -> None:
    assert gputab("meter", "run", "--from", "0", "--to", "10", "--format", "json").data == {"rows": []}


def test_cards_are_metered_out_of_the_store_and_followed_until_stopped(
    gputab: Gputab,
    place: Path,
    ledger: Path,
    record: Record,
    victoriametrics_url: str,
    unique_node: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Samples by `samples import`, a grant by `allocations import`; `--follow` rates what is due until SIGTERM."""
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_URL", victoriametrics_url)
    start_s = (SystemClock().now_us() // US // HOUR_S - 100) * HOUR_S
    lines = ["time,node,gpu_uuid,gpu_memory_used_bytes"]
    lines += [f"{start_s + second},{unique_node},GPU-1,{2**30 + second}" for second in range(0, 600, 10)]
    (place / "samples.csv").write_text("\n".join(lines) + "\n", "utf-8")
    assert gputab("samples", "import", "samples.csv", "--hold", "10").code == 0
    start, end = (format_instant((start_s + offset) * US) for offset in (0, 700))
    record({"allocation": "a1", "node": unique_node, "gpu_uuid": "GPU-1", "start": start, "end": end})

    used = gputab("usage", "--from", start, "--to", end, "--format", "json").data["rows"]
    held = sum((2**30 + second) * 10 for second in range(0, 600, 10))
    assert [(row["granted_seconds"], row["covered_seconds"], row["used_vram_byte_seconds"]) for row in used] == [
        (700, 600, held)
    ]
    # SIGTERM as soon as the first window is there.
    done = threading.Event()

    def stop_when_rated() -> None:
        while not done.wait(0.05):
            if _bill_rows(ledger):
                os.kill(os.getpid(), signal.SIGTERM)
                return

    watcher = threading.Thread(target=stop_when_rated)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    watcher.start()
    try:
        followed = gputab("meter", "run", "--follow")
    finally:
        done.set()
        watcher.join()
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert (followed.code, followed.out, followed.err) == (0, "", "")
    run = gputab("meter", "run", "--from", start, "--to", end, "--format", "json").data["rows"]
    # Past the deadline, so settled; no inventory ever covered the card.
    assert [(row["node"], row["state"], row["charges"]) for row in run] == [(unique_node, "settled", 2)]
    with closing(sqlite3.connect(ledger)) as connection:
        rows = connection.execute(
            "SELECT measured_seconds, free_seconds FROM charges WHERE dimension = 'gpu'"
        ).fetchall()
    assert rows == [(600, 100)]
