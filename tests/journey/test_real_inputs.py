"""Two public traces through the commands a user has, to the last unit."""

from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from store.database import Database
from store.tables.billing import charges
from tests import alibaba, openb

Gputab = Callable[..., Any]

BOOK = """
book: trace
currency: USD
rates:
  - {dimension: gpu, sku: "*", price: "1.80", unit: GPU-hour, from: 2020-01-01T00:00:00Z}
  - {dimension: vram, sku: "*", price: "0.01", unit: GiB-hour, basis: used, from: 2020-01-01T00:00:00Z}
"""


@pytest.mark.skipif(not openb.OPENB.exists(), reason="shared data is not beside the checkout")
def test_openb_gives_its_milli_gpu_seconds_exactly_and_again(gputab: Gputab, place: Path) -> None:
    """6,203 tasks with shares, one of which begins at epoch second 0, without devices."""
    (place / "openb.csv").write_text(openb.allocation_csv(openb.OPENB))
    for _ in range(2):
        gputab("allocations", "import", "openb.csv", "--create-tenants", "--currency", "USD")
        found = gputab("usage", "--from", "0", "--to", "12902960", "--by", "tenant", "--format", "json")["rows"]
        assert [row["milli_gpu_seconds"] for row in found] == [openb.MILLI_GPU_SECONDS]
        assert found[0]["covered_seconds"] is None
        assert found[0]["used_vram_byte_seconds"] is None
    parts = [
        gputab("usage", "--from", start, "--to", end, "--by", "", "--format", "json")["rows"][0]
        for start, end in (("0", "1234567.000001"), ("1234567.000001", "12902960"))
    ]
    assert sum(part["milli_gpu_seconds"] for part in parts) == openb.MILLI_GPU_SECONDS


@pytest.mark.skipif(not alibaba.SUBSET.exists(), reason="shared data is not beside the checkout")
def test_alibaba_is_metered_from_the_store_to_the_byte_second(gputab: Gputab, place: Path, database_url: str) -> None:
    """5,304 readings that stand for 57 s each, 16 allocations; by `usage` and by `meter run`, cut anywhere."""
    ticks = alibaba.read_ticks()
    (place / "samples.csv").write_text(alibaba.sample_csv(ticks))
    (place / "allocations.csv").write_text(alibaba.allocation_csv(ticks))
    (place / "book.yaml").write_text(BOOK)
    assert alibaba.allocation_csv(ticks).count("\n") == 1 + alibaba.ALLOCATIONS
    gputab("samples", "import", "samples.csv", "--hold", str(alibaba.STEP_S))
    gputab("allocations", "import", "allocations.csv", "--create-tenants", "--currency", "USD")
    gputab("prices", "load", "book.yaml")
    gputab("tenant", "assign", alibaba.TENANT, "trace", "--from", "2020-01-01T00:00:00Z")
    first_s = min(its[0][0] for its in ticks.values())
    end_s = max(its[-1][0] for its in ticks.values()) + alibaba.STEP_S

    whole = _usage(gputab, first_s, end_s)
    assert whole == (alibaba.GRANTED_SECONDS, alibaba.GRANTED_SECONDS, alibaba.USED_VRAM_BYTE_SECONDS)
    cuts = [first_s, first_s + 1, first_s + 4_000, first_s + 12_345, end_s]
    parts = [_usage(gputab, *cut) for cut in pairwise(cuts)]
    assert tuple(sum(column) for column in zip(*parts, strict=True)) == whole

    gputab("meter", "run", "--from", str(first_s), "--to", str(end_s))
    billed = _charges(database_url)
    assert _sums(billed, "gpu") == (alibaba.GRANTED_SECONDS, alibaba.GRANTED_SECONDS, alibaba.GRANTED_SECONDS * 1_000)
    assert _sums(billed, "vram")[1:] == (alibaba.GRANTED_SECONDS, alibaba.USED_VRAM_BYTE_SECONDS)
    for start, end in pairwise(cuts):
        gputab("meter", "run", "--from", str(start), "--to", str(end))
    assert _charges(database_url) == billed


def _usage(gputab: Gputab, start_s: int, end_s: int) -> tuple[int, int, int]:
    (row,) = gputab("usage", "--from", str(start_s), "--to", str(end_s), "--format", "json")["rows"]
    return row["granted_seconds"], row["covered_seconds"], row["used_vram_byte_seconds"]


def _charges(url: str) -> list[Any]:
    with closing(Database(url)) as ledger, ledger.read() as connection:
        return list(connection.execute(select(charges).order_by(charges.c.charge_id)).mappings())


def _sums(rows: list[Any], dimension: str) -> tuple[int, int, int]:
    chosen = [row for row in rows if row["dimension"] == dimension]
    return (
        sum(row["granted_seconds"] for row in chosen),
        sum(row["covered_seconds"] for row in chosen),
        sum(row["quantity"] for row in chosen),
    )
