"""What is sold: SKUs by model and VRAM."""

import re
import reprlib
import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from domain.errors import InputError
from domain.slugs import check_slug
from domain.units import GIB

_ROW = {"name": str, "model": str, "vram_gib": int}


@dataclass(frozen=True, slots=True)
class SkuTable:
    """The operator's table; keys are (model in lower case, whole GiB), values SKU names."""

    by_card: dict[tuple[str, int], str]

    @property
    def names(self) -> frozenset[str]:
        """Every SKU of the table, without MIG profiles."""
        return frozenset(self.by_card.values())

    def sku_of(self, model: str, vram_total_bytes: int, mig_profile: str | None = None) -> str:
        """The SKU of a card, or of a MIG instance on it.

        A model the table lacks gets a SKU made of its own name and size, so that it is counted and shown as
        unpriced instead of dropped.
        """
        gib = round(vram_total_bytes / GIB)
        card = self.by_card.get((model.lower(), gib)) or _made_up(model, gib)
        return f"{card}/{mig_profile}" if mig_profile else card


def load_skus(path: Path | None = None) -> SkuTable:
    """The table of the file, or the one gputab ships where `path` is None."""
    try:
        text = path.read_text("utf-8") if path else (resources.files("domain") / "skus.toml").read_text("utf-8")
        content = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"cannot read the SKU table {str(path)!r}: {error}; check 'sku_table'") from error
    rows = content.pop("sku", [])
    if content or not isinstance(rows, list):
        raise InputError(f"cannot use the SKU table {str(path)!r}: write [[sku]] rows and nothing else")
    by_card: dict[tuple[str, int], str] = {}
    for row in rows:
        key, name = _read_row(row)
        if by_card.setdefault(key, name) != name:
            raise InputError(f"cannot use the SKU table: {row['model']!r} is named twice; keep one row")
    return SkuTable(by_card)


def _read_row(row: Any) -> tuple[tuple[str, int], str]:
    if not isinstance(row, dict) or {key: type(value) for key, value in row.items()} != _ROW:
        raise InputError(
            f"cannot use the SKU row {reprlib.repr(row)}: it needs name, model and vram_gib (a whole number)"
        )
    # A slash begins a MIG profile, and a star is every SKU.
    return (row["model"].lower(), row["vram_gib"]), check_slug("SKU", row["name"])


def _made_up(model: str, gib: int) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", model.lower().removeprefix("nvidia ")).strip("-") or "unknown"
    return f"{slug}-{gib}g" if gib else slug
