"""`gputab usage` and `gputab invoice`."""

from collections.abc import Callable
from typing import Any

import pytest

from domain.clock import SystemClock
from machine.process import free_port

Gputab = Callable[..., Any]
Record = Callable[..., None]
# An hour and a half of a card that nobody knows, from 15:30Z of 31 March on: half an hour of March in Shanghai.
UNKNOWN = {
    "allocation": "a1",
    "start": "2026-03-31T23:30:00+08:00",
    "end": "2026-04-01T01:00:00+08:00",
}
MIB = 2**20
US = 1_000_000


@pytest.fixture
def recorded(ledger: str, record: Record) -> None:
    record(UNKNOWN)


@pytest.mark.usefixtures("recorded")
def test_usage_is_exact_at_any_second_and_null_where_no_device_is_known(gputab: Gputab) -> None:
    """The shape of the issue: whole numbers of any size; no store is asked where there is no device."""
    asked = gputab("usage", "--from", "2026-03-31T15:59:59.5Z", "--to", "1774972802", "--format", "json")
    assert (asked.code, asked.err) == (0, "")
    assert asked.data == {
        "rows": [
            {
                "tenant": "acme",
                "granted_seconds": 2,
                "milli_gpu_seconds": 2_000,
                "vram_byte_seconds": 2 * 24_564 * MIB,
                "used_vram_byte_seconds": None,
                "covered_seconds": None,
            }
        ]
    }


@pytest.mark.usefixtures("recorded")
def test_usage_is_grouped_as_asked(gputab: Gputab, record: Record) -> None:
    record({**UNKNOWN, "allocation": "a2", "kind": "share", "milli_gpu": "250", "vram_mib": "1024"}, UNKNOWN)
    words = ("usage", "--from", "2026-03-01T00:00:00Z", "--to", "2026-05-01T00:00:00Z", "--format", "json", "--by")
    rows = gputab(*words, "allocation,kind").data["rows"]
    assert [(row["allocation"], row["kind"], row["milli_gpu_seconds"]) for row in rows] == [
        ("a1", "whole", 5_400_000),
        ("a2", "share", 1_350_000),
    ]
    (total,) = gputab(*words, "").data["rows"]
    assert set(total) == {
        "granted_seconds",
        "milli_gpu_seconds",
        "vram_byte_seconds",
        "used_vram_byte_seconds",
        "covered_seconds",
    }
    assert total["granted_seconds"] == 10_800


@pytest.mark.usefixtures("ledger")
def test_usage_ends_at_now(gputab: Gputab, record: Record) -> None:
    """What is granted without an end has not been used tomorrow; that it was cut is said, and the data stay data."""
    now_s = SystemClock().now_us() // US
    record({**UNKNOWN, "start": str(now_s - 3_600), "end": ""})
    asked = gputab("usage", "--from", str(now_s - 600), "--to", str(now_s + 86_400), "--format", "json")
    (row,) = asked.data["rows"]
    assert 600 <= row["granted_seconds"] <= 660
    assert asked.line.startswith("up to now, 20")
    past = gputab("usage", "--from", str(now_s - 600), "--to", str(now_s), "--format", "json")
    assert (past.err, past.data["rows"][0]["granted_seconds"]) == ("", 600)
    ahead = gputab("usage", "--from", str(now_s + 600), "--to", str(now_s + 900), "--format", "json")
    assert (ahead.code, ahead.data) == (0, {"rows": []})


@pytest.mark.usefixtures("ledger")
def test_usage_of_nothing_is_an_empty_list(gputab: Gputab) -> None:
    asked = gputab("usage", "--from", "0", "--to", "10", "--format", "json")
    assert (asked.code, asked.data) == (0, {"rows": []})
    assert "nothing to show" in gputab("usage", "--from", "0", "--to", "10").out


@pytest.mark.usefixtures("ledger")
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--from 2026-03-01 --to 10", "cannot use the naive time '2026-03-01'"),
        ("--from 10 --to 2026-03-01T00:00:00", "cannot use the naive time '2026-03-01T00:00:00'"),
        ("--from 20 --to 10", "cannot use a period that ends at '1970-01-01T00:00:10Z' before it starts"),
        ("--from soon --to 10", "cannot read 'soon' as a time"),
        ("--from 0 --to 1772359200000000", "cannot use the time '1772359200000000'"),
        ("--from 0 --to 10 --by colour", "cannot group by 'colour': use tenant, project"),
    ],
)
def test_an_interval_that_cannot_be_read_is_exit_code_2_and_one_line(gputab: Gputab, words: str, problem: str) -> None:
    refused = gputab("usage", *words.split())
    assert (refused.code, refused.out) == (2, "")
    assert refused.line.startswith(f"gputab: {problem}")


@pytest.mark.usefixtures("ledger")
def test_usage_of_cards_needs_the_store_and_says_so(
    gputab: Gputab, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    record({**UNKNOWN, "node": "n1", "gpu_uuid": "GPU-1"})
    url = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_URL", url)
    refused = gputab("usage", "--from", "2026-03-31T15:00:00Z", "--to", "2026-03-31T17:00:00Z")
    assert (refused.code, refused.out) == (1, "")
    assert refused.line.startswith("gputab: cannot ")
    assert url in refused.line


@pytest.mark.usefixtures("recorded")
def test_an_invoice_is_of_the_tenants_month_with_lines_that_add_up(gputab: Gputab) -> None:
    """Half an hour before Shanghai's midnight is March, an hour after it April; 2.20 an hour and 0.03 a GiB-hour."""
    run = gputab("meter", "run", "--from", "2026-03-31T15:00:00Z", "--to", "2026-03-31T17:00:00Z", "--format", "json")
    assert run.code == 0
    march = gputab("invoice", "acme", "--month", "2026-03", "--format", "json")
    assert (march.code, march.err) == (0, "")
    gib = 24_564 / 1_024
    assert march.data == {
        "rows": [
            {
                "project": "vision",
                "sku": "rtx4090-24g",
                "dimension": "gpu",
                "quantity": "0.5000 GPU-hour",
                "price": "2.20 per GPU-hour",
                "granted_seconds": 1_800,
                "free_seconds": 0,
                "covered_seconds": None,
                "covered": None,
                "base_quantity": 1_800_000,
                "base_quantity_whole": 1_000,
                "amount_nano": 1_100_000_000,
                "payable": "1.10",
            },
            {
                "project": "vision",
                "sku": "rtx4090-24g",
                "dimension": "vram",
                "quantity": f"{gib / 2:.4f} GiB-hour",
                "price": "0.03 per GiB-hour",
                "granted_seconds": 1_800,
                "free_seconds": 0,
                "covered_seconds": None,
                "covered": None,
                "base_quantity": 1_800 * 24_564 * MIB,
                "base_quantity_whole": 1,
                "amount_nano": 359_824_219,
                "payable": "0.36",
            },
        ],
        "tenant": "acme",
        "currency": "CNY",
        "first_date": "2026-03-01",
        "last_date": "2026-03-31",
        "rated_until": "2026-03-31T16:00:00Z",
        "is_rated_beyond": False,
        "settled": True,
        "total": "1.46",
        "covered_seconds": None,
        "coverable_seconds": 0,
        "unpriced_seconds": 0,
    }
    april = gputab("invoice", "acme", "--month", "2026-04", "--format", "json").data
    assert [row["granted_seconds"] for row in april["rows"]] == [3_600, 3_600]
    table = gputab("invoice", "acme", "--month", "2026-03").out
    assert "DRAFT invoice acme, 2026-03-01 to 2026-03-31, rated until 2026-03-31T16:00:00Z" in table
    assert "1.46 CNY" in table


@pytest.mark.usefixtures("recorded")
def test_what_no_rate_covers_is_on_the_invoice(gputab: Gputab, record: Record) -> None:
    """An H100 has no price in the book, so its line says so and costs nothing (OpenCost 3444)."""
    record({**UNKNOWN, "allocation": "a2", "model": "NVIDIA H100 80GB HBM3", "vram_mib": "81000"})
    gputab("meter", "run", "--from", "2026-03-31T15:00:00Z", "--to", "2026-03-31T17:00:00Z")
    data = gputab("invoice", "acme", "--month", "2026-04", "--format", "json").data
    (unpriced,) = [row for row in data["rows"] if row["price"] == "UNPRICED"]
    assert (unpriced["sku"], unpriced["dimension"], unpriced["payable"]) == ("h100-80g", "gpu", "0.00")
    assert data["unpriced_seconds"] == 3_600
    assert "UNPRICED" in gputab("invoice", "acme", "--month", "2026-04").out


@pytest.mark.usefixtures("recorded")
def test_an_invoice_before_any_rating_is_a_draft_of_nothing(gputab: Gputab) -> None:
    draft = gputab("invoice", "acme", "--month", "2026-03", "--format", "json")
    assert draft.code == 0
    assert (draft.data["rows"], draft.data["total"], draft.data["settled"]) == ([], "0.00", False)
    assert draft.data["rated_until"] is None
    assert "nothing rated yet" in gputab("invoice", "acme", "--month", "2026-03").out


@pytest.mark.usefixtures("ledger")
@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        ("nobody --month 2026-03", 2, "cannot find the tenant 'nobody'"),
        ("acme --month 2026-13", 2, "cannot read '2026-13' as a month: write YYYY-MM"),
        ("acme --month march", 2, "cannot read 'march' as a month"),
        ("acme --month 2026-03-01", 2, "cannot read '2026-03-01' as a month"),
        ("acme --month 0001-01", 2, "cannot use the days '0001-01-01' to '0001-01-31'"),
        ("acme --month 9999-12", 2, "cannot read '9999-12' as a month"),
    ],
)
def test_an_invoice_that_cannot_be_is_one_line(gputab: Gputab, words: str, code: int, problem: str) -> None:
    refused = gputab("invoice", *words.split())
    assert (refused.code, refused.out) == (code, "")
    assert refused.line.startswith(f"gputab: {problem}")
