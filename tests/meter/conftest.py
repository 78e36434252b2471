"""What tests of the meter are made of: grants, books, samples."""

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from domain.grants import Grant, GrantKind
from domain.money import Quote
from domain.period import Period
from domain.prices import GapRules, PriceBook, Rate, VramBasis
from domain.tenants import Tenant
from meter.evidence import Evidence, make_evidence
from meter.observations import SAMPLE_COLUMNS

# 2026-03-01T10:00:00Z
HOUR_S = 1_772_359_200
US = 1_000_000
GIB = 2**30


@pytest.fixture
def hour_s() -> int:
    """A whole UTC hour, in seconds."""
    return HOUR_S


@pytest.fixture
def make_grant() -> Callable[..., Grant]:
    """A whole RTX 4090 for the tenant acme; seconds are offsets into the hour, fractions allowed."""

    def make(start: float = 0, end: float | None = 3600, **changes: Any) -> Grant:
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
            "start_us": HOUR_S * US + round(start * US),
            "end_us": None if end is None else HOUR_S * US + round(end * US),
        }
        return Grant(**{**values, **changes})

    return make


@pytest.fixture
def make_rate() -> Callable[..., Rate]:
    """A rate in force for ever unless `start` and `end` (offsets into the hour, seconds) say otherwise."""

    def make(
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
        start_us = 0 if start is None else HOUR_S * US + round(start * US)
        end_us = None if end is None else HOUR_S * US + round(end * US)
        rate_id = "|".join(map(str, (dimension, price, unit, sku, tenant, project, basis, start_us)))
        return Rate(rate_id, dimension, sku, tenant, project, Quote(Decimal(price), unit), basis, start_us, end_us)

    return make


@pytest.fixture
def make_book(make_rate: Callable[..., Rate]) -> Callable[..., dict[str, PriceBook]]:
    """The book `retail`, by name; without rates given: 2.20 a GPU-hour and 0.03 a GiB-hour."""

    def make(*rates: Rate, gaps: GapRules | None = None) -> dict[str, PriceBook]:
        chosen = rates or (make_rate(), make_rate("vram", "0.03", "GiB-hour", basis=VramBasis.MAX))
        return {"retail": PriceBook("retail", "CNY", gaps or GapRules(), tuple(chosen))}

    return make


@pytest.fixture
def tenants() -> dict[str, Tenant]:
    """The tenant acme, in UTC, rated by `retail`."""
    return {"acme": Tenant("acme", ZoneInfo("UTC"), "CNY", ((0, "retail"),))}


@pytest.fixture
def make_samples() -> Callable[..., pl.DataFrame]:
    """Samples out of (series, gpu_uuid, mig_uuid, owner, second as offset into the hour, value)."""

    def make(rows: Iterable[tuple[str, str, str, str, int, float]]) -> pl.DataFrame:
        absolute = [(*key, HOUR_S + second, float(value)) for *key, second, value in rows]
        return pl.DataFrame(absolute, schema=SAMPLE_COLUMNS, orient="row")

    return make


@pytest.fixture
def use_of() -> Callable[..., list[tuple[str, str, str, str, int, float]]]:
    """Samples of a card that is up and uses `used` bytes in each of the seconds (offsets into the hour)."""

    def rows(
        seconds: Iterable[int], used: int = GIB, *, gpu: str = "GPU-1", mig: str = "", owner: str = ""
    ) -> list[tuple[str, str, str, str, int, float]]:
        memory = "gpu_owner_memory_bytes" if owner else "gpu_memory_used_bytes"
        return [
            row
            for second in seconds
            for row in (("gpu_up", gpu, mig, "", second, 1.0), (memory, gpu, mig, owner, second, float(used)))
        ]

    return rows


@pytest.fixture
def observe(make_samples: Callable[..., pl.DataFrame]) -> Callable[..., Evidence]:
    """Evidence of [start, end) out of rows for `make_samples`; heartbeats and seconds are offsets into the hour."""

    def make(
        rows: Iterable[tuple[str, str, str, str, int, float]] = (),
        *,
        start: int = 0,
        end: int = 3600,
        heard: Iterable[tuple[float, float]] = (),
        devices: Iterable[tuple[str, str]] = (),
        node: str = "n1",
    ) -> Evidence:
        contacts = [Period(HOUR_S * US + round(a * US), HOUR_S * US + round(b * US)) for a, b in heard]
        period = Period((HOUR_S + start) * US, (HOUR_S + end) * US)
        return make_evidence(node, period, make_samples(rows), contacts, devices)

    return make
