"""The download: every amount exact, in a form that spreadsheets read without harm."""

import csv
import io
from collections.abc import Iterable, Mapping

from domain.money import format_nano
from domain.prices import Rate
from meter.bills.spend import SpendRow
from streamlit_app.amounts import exact

MIME = "text/csv; charset=utf-8"
COLUMNS = (
    *("billing_date", "tenant", "project", "sku", "dimension", "price", "per", "currency", "payable", "amount"),
    *("granted_seconds", "coverable_seconds", "covered_seconds", "charges", "unpriced_charges"),
)
# What makes a formula of a cell in one spreadsheet or another; a quote before it makes text of it again (OWASP, "CSV
# Injection").
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def to_csv(rows: Iterable[SpendRow], rates: Mapping[str, Rate]) -> bytes:
    """One line per row in their order, UTF-8 with the mark by which Excel knows it.

    `rates` has those of the rows by id; of use without one, `price` and `per` are empty. `payable` adds up to the
    invoices; `amount` is exact, in plain decimals; an empty `covered_seconds` is not known.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for row in rows:
        rate = rates.get(row.rate_id) if row.rate_id is not None else None
        price = (f"{rate.quote.price:f}", rate.quote.unit) if rate is not None else ("", "")
        writer.writerow(
            (
                *map(_harmless, (row.billing_date, row.tenant, row.project, row.sku, row.dimension)),
                *price,
                row.currency,
                f"{exact(row.payable_nano, row.currency):f}",
                format_nano(row.amount_nano),
                row.granted_seconds,
                row.coverable_seconds,
                "" if row.covered_seconds is None else row.covered_seconds,
                row.charges,
                row.charges if row.rate_id is None else 0,
            )
        )
    return text.getvalue().encode("utf-8-sig")


def file_name(tenant: str | None, first_date: str, last_date: str) -> str:
    """Such as gputab-spend-acme-2026-03-01-to-2026-03-31.csv; `tenant` None is all of them."""
    return f"gputab-spend-{tenant or 'all-tenants'}-{first_date}-to-{last_date}.csv"


def _harmless(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text
