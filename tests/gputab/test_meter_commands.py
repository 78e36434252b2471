"""`gputab meter`."""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from domain.clock import SystemClock
from domain.period import format_instant
from domain.series import METER_UNPRICED
from machine.process import free_port
from store.database import Database
from victoriametrics.push import Pusher
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector

Gputab = Callable[..., Any]
Record = Callable[..., None]
US = 1_000_000
HOUR_S = 3_600
PERIOD = ("--from", "2026-03-31T15:00:00Z", "--to", "2026-03-31T17:00:00Z")
UNKNOWN = {"allocation": "a1", "start": "2026-03-31T15:30:00Z", "end": "2026-03-31T16:10:00Z"}


def _rows(ledger: str, query: str) -> list[Any]:
    with closing(Database(ledger)) as database, database.read() as connection:
        return sorted(tuple(row) for row in connection.execute(text(query)))


def _bill_rows(ledger: str) -> list[Any]:
    """Charges and windows, but for when the meter looked at them."""
    what = "node, start_us, state, rated_until_us, revision, evidence_digest, residual_compute, residual_vram"
    return _rows(ledger, "SELECT * FROM charges") + _rows(ledger, f"SELECT {what}, unpriced_seconds FROM windows")


def test_a_run_prints_each_window_and_the_next_one_changes_nothing(gputab: Gputab, ledger: str, record: Record) -> None:
    record(UNKNOWN)
    first = gputab("meter", "run", *PERIOD, "--format", "json")
    assert (first.code, first.err) == (0, "")
    every = {"node": "", "state": "settled", "unpriced_seconds": 0, "charges": 2}
    every |= {"residual_compute": 0, "residual_vram": 0, "quarantined_samples": 0, "clock_off_us": None}
    assert [{key: value for key, value in row.items() if key != "amount"} for row in first.data["rows"]] == [
        {**every, "window": "2026-03-31T15:00:00Z", "rated_until": "2026-03-31T16:00:00Z"},
        {**every, "window": "2026-03-31T16:00:00Z", "rated_until": "2026-03-31T17:00:00Z"},
    ]
    assert first.data["rows"][0]["amount"] == "1.459824219 CNY"
    before = _bill_rows(ledger)
    assert gputab("meter", "run", *PERIOD, "--format", "json").data == first.data
    assert _bill_rows(ledger) == before


def test_any_cut_of_the_period_gives_the_same_rows(gputab: Gputab, ledger: str, record: Record) -> None:
    record(UNKNOWN)
    gputab("meter", "run", *PERIOD)
    whole = _bill_rows(ledger)
    with closing(Database(ledger)) as database, database.write() as connection:
        for table in ("charges", "daily_charges", "evidence", "windows"):
            connection.execute(text(f"DELETE FROM {table}"))
    cuts = ["2026-03-31T15:00:00Z", "2026-03-31T15:45:00Z", "2026-03-31T16:00:01Z", "2026-03-31T17:00:00Z"]
    for start, end in pairwise(cuts):
        assert gputab("meter", "run", "--from", start, "--to", end).code == 0
    assert _bill_rows(ledger) == whole


def test_a_window_whose_evidence_is_gone_costs_the_others_nothing(gputab: Gputab, ledger: str, record: Record) -> None:
    """It is named, with the file and the remedy; the other window is rated, and the exit code tells of the fault."""
    record(UNKNOWN)
    gputab("meter", "run", *PERIOD)
    ((path,),) = _rows(ledger, f"SELECT path FROM evidence WHERE start_us = {1_774_969_200 * US}")
    (gone,) = Path.cwd().rglob(path)
    gone.unlink()
    again = gputab("meter", "run", *PERIOD, "--format", "json")
    assert again.code == 1
    assert [row["window"] for row in again.data["rows"]] == ["2026-03-31T16:00:00Z"]
    named, counted = again.err.splitlines()
    assert named.startswith("gputab: cannot read the evidence ")
    assert path in named
    assert named.endswith("; restore it from a backup")
    assert counted.startswith("gputab: cannot rate 1 of 2 windows")


def test_status_says_how_far_each_node_is(gputab: Gputab, ledger: str, record: Record) -> None:
    record(UNKNOWN)
    # The meter has not looked yet.
    assert gputab("meter", "status", "--format", "json").data["rows"] == []
    gputab("meter", "run", *PERIOD)
    (row,) = gputab("meter", "status", "--format", "json").data["rows"]
    assert row == {
        "lag_seconds": None,
        "node": "",
        "rated_until": "2026-03-31T17:00:00Z",
        "oldest_open": None,
        "open": 0,
        "settled": 2,
        "closed": 0,
        "unpriced_seconds": 0,
        "residual_compute": 0,
        "residual_vram": 0,
        "late_seconds": 0,
        "skewed": 0,
        "waits_for": None,
    }


def test_a_store_that_is_down_is_exit_code_1_and_one_line(
    gputab: Gputab, ledger: str, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is rated of the node, and its address is named. Status says since when it waits.

    CEEMS commits such a window as done.
    """
    record({**UNKNOWN, "node": "n1", "gpu_uuid": "GPU-1"})
    url = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_URL", url)
    refused = gputab("meter", "run", *PERIOD)
    assert (refused.code, refused.out) == (1, "")
    assert refused.line.startswith("gputab: cannot ")
    assert url in refused.line
    assert _rows(ledger, "SELECT * FROM charges") == []
    assert {row[0] for row in _rows(ledger, "SELECT state FROM windows")} == {"open"}
    (row,) = gputab("meter", "status", "--format", "json").data["rows"]
    assert (row["node"], row["rated_until"], row["lag_seconds"]) == ("n1", None, None)
    assert (row["oldest_open"], row["open"], row["settled"]) == ("2026-03-31T15:00:00Z", 2, 0)
    assert row["waits_for"].startswith("the sample store: cannot ")
    assert url in row["waits_for"]


@pytest.mark.usefixtures("ledger")
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("", "cannot run the meter: give --from and --to, or --follow"),
        ("--from 0", "cannot run the meter: give --from and --to, or --follow"),
        ("--to 10", "cannot run the meter: give --from and --to, or --follow"),
        ("--from 0 --to 10 --follow", "cannot run the meter: give --from and --to, or --follow"),
        ("--from 0 --follow", "cannot run the meter: give --from and --to, or --follow"),
        ("--to 10 --follow", "cannot run the meter: give --from and --to, or --follow"),
        ("--from 20 --to 10", "cannot use a period that ends at"),
        ("--from 2026-03-01 --to 10", "cannot use the naive time '2026-03-01'"),
        ("--from 0 --to 1e20", "cannot read '1e20' as a time"),
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
    ledger: str,
    record: Record,
    victoriametrics_url: str,
    unique_node: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Samples by `samples import`, grants by `allocations import`; `--follow` rates what is due until SIGTERM."""
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_URL", victoriametrics_url)
    start_s = (SystemClock().now_us() // US // HOUR_S - 100) * HOUR_S
    lines = ["time,node,gpu_uuid,gpu_memory_used_bytes"]
    lines += [f"{start_s + second},{unique_node},GPU-1,{2**30 + second}" for second in range(0, 600, 10)]
    (place / "samples.csv").write_text("\n".join(lines) + "\n", "utf-8")
    assert gputab("samples", "import", "samples.csv", "--hold", "10").code == 0
    start, end = (format_instant((start_s + offset) * US) for offset in (0, 700))
    record(
        {"allocation": "a1", "node": unique_node, "gpu_uuid": "GPU-1", "start": start, "end": end},
        {"allocation": "a2", "start": start, "end": end},
    )

    by = ("--by", "allocation", "--format", "json")
    used = gputab("usage", "--from", start, "--to", end, *by).data["rows"]
    held = sum((2**30 + second) * 10 for second in range(0, 600, 10))
    assert [(row["granted_seconds"], row["covered_seconds"], row["used_vram_byte_seconds"]) for row in used] == [
        (700, 600, held),
        (700, None, None),
    ]
    # SIGTERM as soon as both windows are rated.
    done = threading.Event()

    def stop_when_rated() -> None:
        while not done.wait(0.05):
            if len(_rows(ledger, "SELECT * FROM charges")) == 4:
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
    what = [(row["node"], row["state"], row["charges"], row["residual_compute"]) for row in run]
    assert what == [("", "settled", 2, 0), (unique_node, "settled", 2, None)]
    seconds = "measured_seconds, on_record_seconds, free_seconds"
    # Nine seconds after its last sample the node still counts as heard from.
    assert _rows(ledger, f"SELECT {seconds} FROM charges WHERE dimension = 'gpu'") == [(0, 700, 0), (600, 9, 91)]
    # The last pass was published before the end.
    with Pusher(victoriametrics_url) as pusher, Reader(victoriametrics_url) as reader:
        pusher.flush()
        now_s = SystemClock().now_us() // US
        assert reader.count(Selector((METER_UNPRICED,), {"node": unique_node}), now_s - 300, now_s + 1) >= 1
    # A line is covered as far as its devices are known: of the second record none is.
    month = format_instant((start_s + 8 * HOUR_S) * US)[:7]
    lines = gputab("invoice", "acme", "--month", month, "--format", "json").data["rows"]
    assert [(line["dimension"], line["granted_seconds"], line["covered"]) for line in lines] == [
        ("gpu", 1_400, "85.71 %"),
        ("vram", 1_400, "85.71 %"),
    ]
