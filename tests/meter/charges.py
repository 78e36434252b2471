"""Charges out of few words, and those of one dimension."""

from collections.abc import Iterable
from typing import Any

from meter.rating.charges import Charge
from tests.meter.hour import START_US


def make_charge(**changes: Any) -> Charge:
    """Ten seconds of a whole RTX 4090 of acme, all of them sampled, for which there is no rate."""
    values: dict[str, Any] = {
        "node": "n1",
        "window_start_us": START_US,
        "allocation": "a1",
        "ordinal": 0,
        "dimension": "gpu",
        "rate_id": None,
        "billing_date": "2026-03-01",
        "tenant": "acme",
        "project": "p",
        "sku": "rtx4090-24g",
        "granted_seconds": 10,
        "measured_seconds": 10,
        "bridged_seconds": 0,
        "on_record_seconds": 0,
        "free_seconds": 0,
        "covered_seconds": 10,
        "quantity": 10_000,
        "quantity_whole": 1_000,
        "currency": "CNY",
        "amount_nano": 0,
    }
    return Charge(**{**values, **changes})


def gpu_charges(charges: Iterable[Charge]) -> list[Charge]:
    """Those for compute."""
    return [charge for charge in charges if charge.dimension == "gpu"]


def vram_charges(charges: Iterable[Charge]) -> list[Charge]:
    """Those for memory."""
    return [charge for charge in charges if charge.dimension == "vram"]
