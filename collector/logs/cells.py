"""What a cell of nvidia-smi says: a value in its base unit, or that the card cannot tell."""

import re
from collections.abc import Mapping
from fractions import Fraction

from collector.ranges import is_possible
from domain.series import (
    GPU_BUSY,
    GPU_DECODER_BUSY,
    GPU_DRAM_ACTIVE,
    GPU_ENCODER_BUSY,
    GPU_FP16_ACTIVE,
    GPU_FP32_ACTIVE,
    GPU_FP64_ACTIVE,
    GPU_GR_ACTIVE,
    GPU_JPEG_BUSY,
    GPU_MEMORY_BUSY,
    GPU_MEMORY_CLOCK,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_TEMPERATURE,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_OFA_BUSY,
    GPU_POWER,
    GPU_SM_ACTIVE,
    GPU_SM_CLOCK,
    GPU_SM_OCCUPANCY,
    GPU_TEMPERATURE,
    GPU_TENSOR_ACTIVE,
    Series,
)
from domain.units import GIB, MIB

# nvidia-smi writes in brackets why there is no value, and in its table without them.
_CANNOT_TELL = re.compile(r"\[[^\]]*\]|N/A|Not Supported|Unknown Error|ERR!|GPU is lost", re.IGNORECASE)
_VALUE = re.compile(r"([+-]?[0-9]{1,18}(?:\.[0-9]{1,18})?) ?(%|[°]?[A-Za-z]{0,10})")

# Unit in lower case, "" where none is written -> what one of it is in the base unit. To whoever logs a card a MB is
# what nvidia-smi calls a MiB.
_BYTES = {"": MIB, "mib": MIB, "mb": MIB, "gib": GIB, "gb": GIB, "kib": 2**10, "kb": 2**10, "b": 1, "bytes": 1}
_CLOCK = {"": 10**6, "mhz": 10**6, "ghz": 10**9, "hz": 1}
_CELSIUS = dict.fromkeys(("", "c", "°c", "celsius"), 1)
_PERCENT = dict.fromkeys(("", "%", "percent", "pct"), Fraction(1, 100))
_PERCENTAGES = (
    *(GPU_BUSY, GPU_MEMORY_BUSY, GPU_ENCODER_BUSY, GPU_DECODER_BUSY, GPU_JPEG_BUSY, GPU_OFA_BUSY),
    *(GPU_GR_ACTIVE, GPU_SM_ACTIVE, GPU_SM_OCCUPANCY, GPU_TENSOR_ACTIVE, GPU_DRAM_ACTIVE),
    *(GPU_FP64_ACTIVE, GPU_FP32_ACTIVE, GPU_FP16_ACTIVE),
)
UNITS: dict[Series, dict[str, int | Fraction]] = {
    **{series: {**_PERCENT} for series in _PERCENTAGES},
    GPU_MEMORY_TOTAL: {**_BYTES},
    GPU_MEMORY_RESERVED: {**_BYTES},
    GPU_MEMORY_USED: {**_BYTES},
    GPU_POWER: {**dict.fromkeys(("", "w", "watt", "watts"), 1), "mw": Fraction(1, 1_000)},
    GPU_TEMPERATURE: {**_CELSIUS},
    GPU_MEMORY_TEMPERATURE: {**_CELSIUS},
    GPU_SM_CLOCK: {**_CLOCK},
    GPU_MEMORY_CLOCK: {**_CLOCK},
}


def is_cannot_tell(cell: str) -> bool:
    """Whether the cell says that the card has no such value, or failed to say it."""
    return _CANNOT_TELL.fullmatch(cell) is not None


def read_value(series: Series, cell: str, unit: str = "") -> int | Fraction | None:
    """The exact value in the series' own unit, of a cell without blanks around; None where the card cannot tell.

    `unit`, one of `UNITS` of the series, is that of a cell which has none of its own. Bytes with a fraction are cut to
    whole bytes. Raises ValueError with the reason for what is no number, has another unit, or is what no card can say.
    """
    if is_cannot_tell(cell):
        return None
    found = _VALUE.fullmatch(cell)
    scale = UNITS[series].get((found[2] or unit).lower()) if found else None
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
