"""docs/billing.md: each of its worked examples, rated as it says."""

import re
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml

from domain.grants import Grant, GrantKind
from domain.money import NANO
from domain.prices import GapRules, PriceBook, Rate, VramBasis
from domain.tenants import Tenant
from domain.units import GIB
from meter.evidence.evidence import Evidence
from meter.rating.rating import rate
from tests.meter.facts import Row, make_grant, make_rate, observe, use_of

PAGE = (Path(__file__).parents[2] / "docs" / "billing.md").read_text("utf-8")
EXAMPLES = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
COUNTS = ("granted", "measured", "bridged", "on_record", "free")


def _grants(example: dict[str, Any]) -> list[Grant]:
    ordinals: dict[str, int] = {}
    grants = []
    for row in example["granted"]:
        name = row["allocation"]
        changes: dict[str, Any] = {"allocation": name, "ordinal": ordinals.get(name, 0)}
        ordinals[name] = changes["ordinal"] + 1
        changes["gpu_uuid"] = None if row["card"] == "unknown" else f"GPU-{row.get('gpu', 1)}"
        if row["card"] == "share":
            changes |= {"kind": GrantKind.SHARE, "compute_units": row["milli_gpu"], "vram_bytes": row["vram_gib"] * GIB}
        grants.append(make_grant(row["from"], row["to"], **changes))
    return grants


def _evidence(example: dict[str, Any]) -> Evidence:
    rows: list[Row] = []
    for seen in example["seen"]:
        seconds = range(*seen["seconds"])
        for gpu in seen.get("gpus", [1]):
            rows += use_of(seconds, round(seen["used_gib"] * GIB), gpu=f"GPU-{gpu}")
        for name, used_gib in seen.get("owners_gib", {}).items():
            rows += use_of(seconds, used_gib * GIB, owner=f"alloc:{name}")
    heard = [tuple(example["heard"])] if "heard" in example else []
    return observe(rows, heard=heard, node="" if example["granted"][0]["card"] == "unknown" else "n1")


def _rate(row: dict[str, Any]) -> Rate:
    basis = VramBasis(row["basis"]) if "basis" in row else None
    return make_rate(row["dimension"], row["price"], row["unit"], basis=basis, start=row.get("from"), end=row.get("to"))


def test_the_page_has_its_examples() -> None:
    assert len(EXAMPLES) == 8


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example["granted"][0]))
def test_an_example_comes_to_what_the_page_says(example: dict[str, Any]) -> None:
    book = PriceBook("retail", "CNY", GapRules(), tuple(_rate(row) for row in example["prices"]))
    tenants = {"acme": Tenant("acme", ZoneInfo("UTC"), "CNY", ((0, "retail"),))}
    charges = rate(_evidence(example), _grants(example), tenants, {"retail": book})
    priced = {row["dimension"] for row in example["prices"]}
    found = [
        {
            "allocation": each.allocation,
            "ordinal": each.ordinal,
            "dimension": each.dimension,
            **{name: getattr(each, f"{name}_seconds") for name in COUNTS},
            "amount": Decimal(each.amount_nano) / NANO,
            "covered": each.covered_seconds,
        }
        for each in charges
        if each.dimension in priced
    ]
    said = [
        {
            "ordinal": 0,
            **dict.fromkeys(COUNTS, 0),
            "covered": row.get("measured"),
            **row,
            "amount": Decimal(row["amount"]),
        }
        for row in example["charges"]
    ]

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return (row["allocation"], row["ordinal"], row["dimension"], row["granted"])

    assert sorted(found, key=key) == sorted(said, key=key)
