"""Rows of spend out of few words."""

from typing import Any

from meter.bills.spend import SpendRow

CENT = 10_000_000


def make_row(**changes: Any) -> SpendRow:
    """A day's charge for acme's compute, all of it measured."""
    values: dict[str, Any] = {
        "billing_date": "2026-03-01",
        "tenant": "acme",
        "project": "p",
        "sku": "rtx4090-24g",
        "dimension": "gpu",
        "rate_id": "rate_1",
        "quantity_whole": 1_000,
        "currency": "CNY",
        "charges": 1,
        "granted_seconds": 10,
        "covered_seconds": 10,
        "coverable_seconds": 10,
        "amount_nano": CENT,
    }
    return SpendRow(**{**values, **changes})
