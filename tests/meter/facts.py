"""Grants, rates and samples out of few words; seconds are offsets into the hour."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import polars as pl

from domain.grants import Grant, GrantKind
from domain.money import Quote
from domain.prices import Rate, VramBasis
from domain.units import GIB
from meter.evidence.evidence import Evidence, make_evidence
from meter.evidence.observations import SAMPLE_COLUMNS
from tests.meter.hour import HOUR_S, instant_us, stretch

# (series, gpu_uuid, mig_uuid, owner, second, value)
Row = tuple[str, str, str, str, int, float]


def make_grant(start: float = 0, end: float | None = 3_600, **changes: Any) -> Grant:
    """A whole RTX 4090 for the tenant acme; fractions of a second are allowed."""
    values: dict[str, Any] = {
        "allocation": "a1",
        "ordinal": 0,
        "tenant": "acme",
        "project": "p",
        "node": "n1",
        "gpu_uuid": "GPU-1",
        "mig_uuid": None,
        "kind": GrantKind.WHOLE,
        "model": "NVIDIA GeForce RTX 4090",
        "sku": "rtx4090-24g",
        "compute_units": 1_000,
        "compute_units_total": 1_000,
        "vram_bytes": 24 * GIB,
        "start_us": instant_us(start),
        "end_us": None if end is None else instant_us(end),
    }
    return Grant(**{**values, **changes})


def make_rate(
    dimension: str = "gpu",
    price: str = "2.20",
    unit: str = "GPU-hour",
    *,
    sku: str = "*",
    tenant: str | None = None,
    project: str | None = None,
    basis: VramBasis | None = None,
    start: float | None = None,
    end: float | None = None,
) -> Rate:
    """In force for ever unless `start` and `end` say otherwise."""
    start_us = 0 if start is None else instant_us(start)
    end_us = None if end is None else instant_us(end)
    rate_id = "|".join(map(str, (dimension, price, unit, sku, tenant, project, basis, start_us)))
    return Rate(rate_id, dimension, sku, tenant, project, Quote(Decimal(price), unit), basis, start_us, end_us)


def use_of(seconds: Iterable[int], used: int = GIB, *, gpu: str = "GPU-1", mig: str = "", owner: str = "") -> list[Row]:
    """A card, or an owner on it, that is up and uses `used` bytes in each of the seconds."""
    memory = "gpu_owner_memory_bytes" if owner else "gpu_memory_used_bytes"
    return [
        row
        for second in seconds
        for row in (("gpu_up", gpu, mig, "", second, 1.0), (memory, gpu, mig, owner, second, float(used)))
    ]


def make_samples(rows: Iterable[Row]) -> pl.DataFrame:
    """As a sample store gives them."""
    absolute = [(*key, HOUR_S + second, float(value)) for *key, second, value in rows]
    return pl.DataFrame(absolute, schema=SAMPLE_COLUMNS, orient="row")


def observe(
    rows: Iterable[Row] = (),
    *,
    start: int = 0,
    end: int = 3_600,
    heard: Iterable[tuple[float, float]] = (),
    devices: Iterable[tuple[str, str]] = (),
    node: str = "n1",
) -> Evidence:
    """Evidence of [start, end); `heard` are stretches of heartbeats, `devices` the cards that the node has."""
    contacts = [stretch(first, last) for first, last in heard]
    return make_evidence(node, stretch(start, end), make_samples(rows), contacts, devices)
