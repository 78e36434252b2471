"""The download: exact, readable by spreadsheets, and no formula."""

import csv
import io
from collections.abc import Iterable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.money import NANO, Quote
from domain.prices import Rate
from meter.bills.spend import SpendRow
from streamlit_app.spend_csv import COLUMNS, file_name, to_csv
from tests.meter.spend_rows import CENT, make_row

RATE = Rate("rate_1", "gpu", "*", None, None, Quote(Decimal("2.20"), "GPU-hour"), None, start_us=0, end_us=None)


def _read(rows: Iterable[SpendRow]) -> list[dict[str, str]]:
    text = to_csv(rows, {RATE.rate_id: RATE}).decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_a_row_has_every_number_exact() -> None:
    """A covered that is not known is empty, a charge without a price is counted, and no amount has a comma in it."""
    priced = make_row(amount_nano=1_234_567_890_123, payable_nano=123_457 * CENT, charges=3)
    unpriced = make_row(rate_id=None, amount_nano=0, covered_seconds=None, coverable_seconds=0, charges=2)
    assert _read([priced, unpriced]) == [
        {
            "billing_date": "2026-03-01",
            "tenant": "acme",
            "project": "p",
            "sku": "rtx4090-24g",
            "dimension": "gpu",
            "price": "2.20",
            "per": "GPU-hour",
            "currency": "CNY",
            "payable": "1234.57",
            "amount": "1234.567890123",
            "granted_seconds": "10",
            "coverable_seconds": "10",
            "covered_seconds": "10",
            "charges": "3",
            "unpriced_charges": "0",
        },
        {
            "billing_date": "2026-03-01",
            "tenant": "acme",
            "project": "p",
            "sku": "rtx4090-24g",
            "dimension": "gpu",
            "price": "",
            "per": "",
            "currency": "CNY",
            "payable": "0.00",
            "amount": "0.00",
            "granted_seconds": "10",
            "coverable_seconds": "0",
            "covered_seconds": "",
            "charges": "2",
            "unpriced_charges": "2",
        },
    ]


@given(st.lists(st.integers(0, 2**70)))
def test_the_column_of_payables_adds_up(cents: list[int]) -> None:
    read = _read(make_row(payable_nano=each * CENT, amount_nano=each * CENT) for each in cents)
    assert sum(Decimal(row["payable"]) for row in read) * 100 == sum(cents)
    assert sum(Decimal(row["amount"]) * NANO for row in read) == sum(cents) * CENT


def test_excel_is_told_that_it_is_utf_8_and_no_row_is_no_line() -> None:
    content = to_csv([make_row(project="视觉")], {})
    assert content.startswith(b"\xef\xbb\xbfbilling_date,tenant,")
    assert "视觉" in content.decode("utf-8")
    assert to_csv([], {}).decode("utf-8-sig") == ",".join(COLUMNS) + "\r\n"


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_what_a_spreadsheet_would_run_is_text(start: str) -> None:
    """An SKU is whatever the operator's table calls it (OWASP, CSV Injection)."""
    (row,) = _read([make_row(sku=f'{start}HYPERLINK("http://x","y")')])
    assert row["sku"] == f'\'{start}HYPERLINK("http://x","y")'


def test_commas_and_quotes_stay_in_their_cell() -> None:
    (row,) = _read([make_row(sku='a,"b"\nc')])
    assert row["sku"] == 'a,"b"\nc'


def test_a_file_says_what_it_is_of() -> None:
    assert file_name("acme", "2026-03-01", "2026-03-31") == "gputab-spend-acme-2026-03-01-to-2026-03-31.csv"
    assert file_name(None, "2026-03-01", "2026-03-01") == "gputab-spend-all-tenants-2026-03-01-to-2026-03-01.csv"
