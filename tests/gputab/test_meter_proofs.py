"""`gputab meter charges`, `explain`, `diff`, `verify`, `close` and `correct`: rated, proved, closed, put right."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from domain.clock import MICROSECONDS, SystemClock
from domain.period import HOUR_S, format_instant
from store.database import Database

Gputab = Callable[..., Any]
Record = Callable[..., None]
HOURS = ("--from", "2026-03-31T15:00:00Z", "--to", "2026-03-31T17:00:00Z")
FIRST, SECOND = "2026-03-31T15:00:00Z", "2026-03-31T16:00:00Z"
END = "2026-03-31T17:00:00Z"
HELD = {"allocation": "a1", "start": "2026-03-31T15:30:00Z", "end": "2026-03-31T16:10:00Z"}


@pytest.fixture
def rated(gputab: Gputab, ledger: str, record: Record) -> None:
    """Forty minutes of a card that nobody knows, across the tenant's midnight."""
    record(HELD)
    assert gputab("meter", "run", *HOURS).code == 0


@pytest.fixture
def change(ledger: str) -> Callable[[str], None]:
    """Changes the ledger as nobody may."""

    def changed(statement: str) -> None:
        with closing(Database(ledger)) as database, database.write() as connection:
            connection.execute(text(statement))

    return changed


@pytest.mark.usefixtures("rated")
def test_a_charge_is_listed_and_explained_to_the_second(gputab: Gputab) -> None:
    listed = gputab("meter", "charges", *HOURS, "--format", "json").data["rows"]
    assert [(row["window"], row["dimension"], row["billing_date"], row["granted_seconds"]) for row in listed] == [
        (FIRST, "gpu", "2026-03-31", 1_800),
        (FIRST, "vram", "2026-03-31", 1_800),
        (SECOND, "gpu", "2026-04-01", 600),
        (SECOND, "vram", "2026-04-01", 600),
    ]
    name = listed[0]["charge_id"]
    found = gputab("meter", "explain", name, "--format", "json").data
    (row,) = found["rows"]
    assert (row["from"], row["seconds"], row["observed"], row["gap"]) == (
        "2026-03-31T15:30:00Z",
        1_800,
        "no device",
        "on_record",
    )
    assert (found["quantity"], found["explained_quantity"]) == (1_800_000, 1_800_000)
    assert found["amount_nano"] == found["explained_amount_nano"] == 1_100_000_000
    assert (found["price"], len(found["evidence_digest"])) == ("2.20 CNY per GPU-hour", 64)
    by_second = gputab("meter", "explain", name, "--seconds", "--format", "json").data["rows"]
    assert [row["sum"] for row in by_second] == [1_000 * second for second in range(1, 1_801)]
    table = gputab("meter", "explain", name).out
    assert "1,800,000 / 1,000 to the GPU-second" in table
    assert "1.10 CNY" in table
    assert gputab("meter", "charges", *HOURS, "--tenant", "acme", "--format", "json").data["rows"] == listed


@pytest.mark.usefixtures("rated")
def test_a_charge_that_is_not_what_it_stands_on_is_not_explained_away(
    gputab: Gputab, change: Callable[[str], None]
) -> None:
    name = gputab("meter", "charges", *HOURS, "--format", "json").data["rows"][0]["charge_id"]
    change(f"UPDATE charges SET amount_nano = amount_nano + 1 WHERE charge_id = '{name}'")
    explained = gputab("meter", "explain", name)
    assert explained.code == 1
    assert explained.line.startswith(
        f"gputab: cannot explain the charge '{name}': evidence, grants and prices make 1800000 "
    )
    verified = gputab("meter", "verify")
    assert verified.code == 1
    assert "is not what evidence, grants and prices make" in " ".join(verified.out.split())
    assert verified.line.startswith("gputab: cannot vouch for the ledger: 2 problems in 2 windows")


@pytest.mark.usefixtures("rated")
def test_a_month_is_proved_closed_and_put_right(gputab: Gputab, record: Record, place: Path) -> None:
    """Closed is closed: an import into it is refused and names the way, which adds rows and changes none."""
    assert gputab("meter", "diff", *HOURS, "--format", "json").data["rows"] == []
    assert gputab("meter", "verify").err == (
        "2 windows are what their evidence, grants and prices make them; the chain is whole\n"
    )
    closed = gputab("meter", "close", "--until", END, "--format", "json")
    assert (closed.code, [row["hour"] for row in closed.data["rows"]]) == (0, [FIRST, SECOND])
    assert gputab("meter", "close", "--until", END, "--format", "json").data["rows"] == []
    (status,) = gputab("meter", "status", "--format", "json").data["rows"]
    assert (status["closed"], status["settled"], status["late_seconds"]) == (2, 0, 0)
    charged = gputab("meter", "charges", *HOURS, "--format", "json").data

    file = place / "allocations.csv"
    file.write_text(file.read_text("utf-8").replace(HELD["end"], "2026-03-31T16:05:00Z"), "utf-8")
    refused = gputab("allocations", "import", "allocations.csv")
    assert refused.code == 2
    assert refused.line.endswith("is closed; use `gputab meter correct`")
    correct = ("meter", "correct", "--allocations", "allocations.csv", "--reason", "the job had ended")
    corrected = gputab(*correct, "--format", "json")
    assert corrected.code == 0, corrected.err
    assert corrected.err.endswith("2 closed windows looked at, 1 corrected by 2 adjustments\n")
    assert [(row["window"], row["dimension"], row["granted_seconds"]) for row in corrected.data["rows"]] == [
        (SECOND, "gpu", -300),
        (SECOND, "vram", -300),
    ]
    assert corrected.data["rows"][0]["amount"] == "-0.183333334 CNY"
    assert gputab("meter", "charges", *HOURS, "--format", "json").data == charged
    assert gputab(*correct, "--format", "json").data["corrected"] == 0
    assert gputab("meter", "verify").code == 0
    draft = gputab("invoice", "acme", "--month", "2026-04", "--format", "json")
    (gpu,) = (row for row in draft.data["rows"] if row["dimension"] == "gpu")
    assert gpu["granted_seconds"] == 300


@pytest.mark.usefixtures("rated")
def test_what_a_run_would_change_is_shown_before_it_does(gputab: Gputab, record: Record) -> None:
    record({**HELD, "end": "2026-03-31T16:20:00Z"})
    before = gputab("meter", "charges", *HOURS, "--format", "json").data
    shown = gputab("meter", "diff", *HOURS, "--format", "json").data["rows"]
    assert [(row["window"], row["dimension"], row["granted_seconds"]) for row in shown] == [
        (SECOND, "gpu", 600),
        (SECOND, "vram", 600),
    ]
    assert gputab("meter", "charges", *HOURS, "--format", "json").data == before
    assert gputab("meter", "run", *HOURS).code == 0
    assert gputab("meter", "diff", *HOURS, "--format", "json").data["rows"] == []


def test_an_hour_without_a_price_is_not_closed(gputab: Gputab, ledger: str, record: Record) -> None:
    record({**HELD, "model": "NVIDIA L4", "vram_mib": "1024"})
    gputab("meter", "run", *HOURS)
    refused = gputab("meter", "close", "--until", END)
    assert refused.code == 2
    assert refused.line == (
        "gputab: cannot close the hour '2026-03-31T15:00:00Z': without a device: 1800 seconds of use have no price "
        "(load one with `gputab prices load`); mend that, then close it"
    )
    assert "nothing to show" in refused.out


def test_status_says_what_the_oldest_hour_waits_for(gputab: Gputab, ledger: str, record: Record) -> None:
    now_s = SystemClock().now_us() // MICROSECONDS
    record({"allocation": "a1", "start": format_instant((now_s - HOUR_S) * MICROSECONDS)})
    start, end = (format_instant((now_s + by_s) * MICROSECONDS) for by_s in (-HOUR_S, 0))
    assert gputab("meter", "run", "--from", start, "--to", end).code == 0
    (row,) = gputab("meter", "status", "--format", "json").data["rows"]
    assert row["waits_for"] == "its end and 30 s to pass"


@pytest.mark.usefixtures("rated")
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            "explain ch_none",
            "cannot find the charge 'ch_none': there is none of that name; list them with `gputab meter",
        ),
        ("charges --from 20 --to 10", "cannot use a period that ends at"),
        ("charges --from yesterday --to 10", "cannot read 'yesterday' as a time"),
        ("diff --from 20 --to 10", "cannot use a period that ends at"),
        ("verify --from noon", "cannot read 'noon' as a time"),
        ("close --until 2999-01-01T00:00:00Z", "cannot close hours until '2999-01-01T00:00:00Z': that is yet to come"),
        ("close --until never", "cannot read 'never' as a time"),
        ("correct --reason r", "cannot tell what to correct: give --from and --to, or --allocations"),
        ("correct --reason r --from 0", "cannot tell what to correct"),
        ("correct --reason r --from 0 --to 9 --allocations x.csv", "cannot tell what to correct"),
        ("correct --reason r --allocations nothing.csv", "cannot read 'nothing.csv'"),
        ("correct --reason r --from 0 --to 9 --source s", "cannot use the source 's' without records: give --allocat"),
        ("correct --reason r --from 0 --to 9 --node n7", "cannot find the node 'n7': use one of ''"),
        ("charges --from 0 --to 9 --tenant globex", "cannot find the tenant 'globex'"),
        ("verify --from 20 --to 10", "cannot use a period that ends at"),
        ("verify --from 2999-01-01T00:00:00Z", "cannot use a period that ends at"),
        ("run --from 2999-01-01T00:00:00Z --to 2999-01-02T00:00:00Z", "cannot rate from '2999-01-01T00:00:00Z' on: "),
        ("correct --reason  --from 0 --to 9", "cannot correct without a reason: say why by --reason"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_line(gputab: Gputab, ledger: str, words: str, problem: str) -> None:
    """Nothing is written, and nothing is printed."""
    with closing(Database(ledger)) as database, database.read() as connection:
        before = json.dumps([list(row) for row in connection.execute(text("SELECT * FROM charges"))], default=str)
    refused = gputab("meter", *words.split(" "))
    assert refused.code in (1, 2)
    assert refused.line.startswith(f"gputab: {problem}")
    assert refused.out == ""
    with closing(Database(ledger)) as database, database.read() as connection:
        after = json.dumps([list(row) for row in connection.execute(text("SELECT * FROM charges"))], default=str)
    assert after == before
