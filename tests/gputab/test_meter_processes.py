"""Two `meter run` at once leave what one alone would have left, to the byte."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from domain.clock import SystemClock
from domain.period import format_instant
from store.database import Database
from store.tables import METADATA
from tests.databases import Databases
from tests.meter.ledgers import BOOKKEEPING

Gputab = Callable[..., Any]
Record = Callable[..., None]
US = 1_000_000
HOUR_S = 3_600
HOURS = 6
Begin = Callable[[str, str], "subprocess.Popen[str]"]


def _left(url: str, evidence: Path) -> dict[str, Any]:
    """Every row of every table in the order of its key, but for when it was done, and every file of evidence."""
    left: dict[str, Any] = {
        str(file.relative_to(evidence)): file.read_bytes() for file in evidence.rglob("*") if file.is_file()
    }
    with closing(Database(url)) as database, database.read() as connection:
        for name, table in METADATA.tables.items():
            columns = [column for column in table.columns if f"{name}.{column.name}" not in BOOKKEEPING]
            left[name] = repr(connection.execute(select(*columns).order_by(*table.primary_key.columns)).all())
    return left


@pytest.fixture
def period(
    gputab: Gputab,
    place: Path,
    ledger: str,
    record: Record,
    victoriametrics_url: str,
    unique_node: str,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[str, str]:
    """Six hours, long past, of two cards on nodes of their own, and of a card that is not known."""
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_URL", victoriametrics_url)
    start_s = (SystemClock().now_us() // US // HOUR_S - 100) * HOUR_S
    lines = ["time,node,gpu_uuid,gpu_memory_used_bytes"]
    for card in (1, 2):
        seconds = range(0, HOURS * HOUR_S - 600, 10 * card)
        lines += [f"{start_s + each},{unique_node}-{card},GPU-{card},{2**30 + each}" for each in seconds]
    (place / "samples.csv").write_text("\n".join(lines) + "\n", "utf-8")
    assert gputab("samples", "import", "samples.csv", "--hold", "10").code == 0
    start, end = (format_instant((start_s + offset) * US) for offset in (0, HOURS * HOUR_S))
    part = {"start": start, "end": format_instant((start_s + 3 * HOUR_S + 17) * US)}
    record(
        {"allocation": "a1", "node": f"{unique_node}-1", "gpu_uuid": "GPU-1", "start": start, "end": end},
        {"allocation": "a2", "node": f"{unique_node}-2", "gpu_uuid": "GPU-2", **part},
        {"allocation": "a3", "start": start, "end": end},
    )
    return start, end


@pytest.fixture
def begin(place: Path, period: tuple[str, str]) -> Begin:
    """Begins to rate the six hours, with its evidence in a folder of that name."""

    def begun(url: str, evidence: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "gputab", "meter", "run", "--from", period[0], "--to", period[1]]
        settings = {"GPUTAB_DATABASE_URL": url, "GPUTAB_EVIDENCE_DIR": str(place / evidence)}
        return subprocess.Popen(
            command, env={**os.environ, **settings}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    return begun


def finish(process: "subprocess.Popen[str]") -> str:
    """What it printed."""
    out, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, "")
    return out


def test_two_at_once_leave_the_bytes_of_one(databases: Databases, place: Path, ledger: str, begin: Begin) -> None:
    with databases.copy(ledger) as alone:
        said = finish(begin(alone, "alone"))
        left = _left(alone, place / "alone")
    # A window of each card in each of its hours, of the record in all, and a file for each.
    assert len([name for name in left if name.endswith(".parquet")]) == HOURS + 4 + HOURS
    both = [begin(ledger, "both") for _ in range(2)]
    assert [finish(process) for process in both] == [said, said]
    assert _left(ledger, place / "both") == left


def test_a_kill_at_any_moment_leaves_the_bytes_of_a_run_that_nobody_killed(
    databases: Databases, place: Path, ledger: str, begin: Begin, *, is_soak: bool
) -> None:
    """Between any two windows, or amid one: the next run waits for the lease of the killed one, and ends the work."""
    with databases.copy(ledger) as alone:
        began_s = time.monotonic()
        finish(begin(alone, "alone"))
        took_s = time.monotonic() - began_s
        left = _left(alone, place / "alone")
    killed, tried, wanted = 0, 0, 12 if is_soak else 1
    # One that ends before it is killed was quicker than the first, and shows nothing.
    while killed < wanted and tried < 5 * wanted:
        folder = f"killed-{tried}"
        tried += 1
        with databases.copy(ledger) as url:
            process = begin(url, folder)
            try:
                process.communicate(timeout=random.uniform(0.2, 0.9) * took_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                killed += 1
            finish(begin(url, folder))
            found = _left(url, place / folder)
            # What was half written when it was killed is under no name of evidence.
            found = {name: rows for name, rows in found.items() if not name.endswith(".partial")}
            assert found == left
    assert killed == wanted
