"""What a cell of nvidia-smi says: a value in its base unit, or that the card cannot tell."""

import re
from collections.abc import Mapping
from fractions import Fraction

from collector.ranges import is_possible
from domain.series import GPU_MEMORY_TOTAL, GPU_MEMORY_USED, Series
from domain.units import GIB, MIB

# nvidia-smi writes in brackets why there is no value, and in its table without them.
_CANNOT_TELL = re.compile(r"\[[^\]]*\]|N/A|Not Supported|Unknown Error|ERR!|GPU is lost", re.IGNORECASE)
_VALUE = re.compile(r"([+-]?[0-9]{1,18}(?:\.[0-9]{1,18})?) ?(%|[°]?[A-Za-z]{0,10})")

# A card's index; more digits are some other number.
INDEX_DIGITS = 9

# By the base unit of a series: unit in lower case, "" where none is written -> what one of it is in the base unit. To
# whoever logs a card a MB is what nvidia-smi calls a MiB.
UNITS: Mapping[str, Mapping[str, int | Fraction]] = {
    "ratio": dict.fromkeys(("", "%", "percent", "pct"), Fraction(1, 100)),
    "bytes": {"": MIB, "mib": MIB, "mb": MIB, "gib": GIB, "gb": GIB, "kib": 2**10, "kb": 2**10, "b": 1, "bytes": 1},
    "watts": {**dict.fromkeys(("", "w", "watt", "watts"), 1), "mw": Fraction(1, 1_000)},
    "celsius": dict.fromkeys(("", "c", "°c", "celsius"), 1),
    "hertz": {"": 10**6, "mhz": 10**6, "ghz": 10**9, "hz": 1},
}


def is_cannot_tell(cell: str) -> bool:
    """Whether the cell says that the card has no such value, or failed to say it."""
    return _CANNOT_TELL.fullmatch(cell) is not None


def is_number(cell: str, digits: int) -> bool:
    """Whether the cell is a whole number of at most so many digits, and nothing else."""
    return cell.isascii() and cell.isdigit() and len(cell) <= digits


def read_value(series: Series, cell: str, unit: str = "") -> int | Fraction | None:
    """The exact value in the series' own unit, of a cell without blanks around; None where the card cannot tell.

    `unit`, one of the `UNITS` for it, is that of a cell which has none of its own. Bytes with a fraction are cut to
    whole bytes. Raises ValueError with the reason for what is no number, has another unit, or is what no card can say.
    """
    if is_cannot_tell(cell):
        return None
    found = _VALUE.fullmatch(cell)
    scale = UNITS[series.unit].get((found[2] or unit).lower()) if found else None
    if found is None or scale is None:
        raise ValueError(f"cannot read {cell[:40]!r} as {series.unit}")
    value = Fraction(found[1]) * scale
    exact = int(value) if series.whole or value.denominator == 1 else value
    if not is_possible(series, exact):
        raise ValueError(f"no card can have the {series.unit} {cell[:40]!r}")
    return exact


def check_memory(values: Mapping[Series, int | Fraction]) -> None:
    """Raises ValueError where more memory is in use than the card has."""
    used, total = values.get(GPU_MEMORY_USED), values.get(GPU_MEMORY_TOTAL)
    if used is not None and total is not None and used > total:
        raise ValueError("more memory is in use than the card has")
