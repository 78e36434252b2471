"""What a cell of nvidia-smi says."""

from fractions import Fraction

import pytest

from collector.logs.cells import read_value
from domain.series import (
    GPU_BUSY,
    GPU_MEMORY_CLOCK,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_TEMPERATURE,
    Series,
)
from domain.units import GIB, MIB


@pytest.mark.parametrize(
    ("series", "cell", "unit", "value"),
    [
        (GPU_BUSY, "34 %", "", Fraction(34, 100)),
        (GPU_BUSY, "34", "%", Fraction(34, 100)),
        (GPU_BUSY, "0", "", 0),
        (GPU_BUSY, "12.5%", "", Fraction(1, 8)),
        (GPU_MEMORY_USED, "1129 MiB", "mib", 1129 * MIB),
        (GPU_MEMORY_USED, "1129MiB", "", 1129 * MIB),
        # To whoever logs a card a MB is a MiB, and so is what has no unit.
        (GPU_MEMORY_USED, "909.5", "mb", 909 * MIB + MIB // 2),
        (GPU_MEMORY_USED, "26133", "", 26133 * MIB),
        (GPU_MEMORY_TOTAL, "80 GiB", "mib", 80 * GIB),
        # Whole bytes with a fraction are cut.
        (GPU_MEMORY_USED, "0.0000010 MiB", "", 1),
        (GPU_POWER, "33.09 W", "", Fraction(3309, 100)),
        (GPU_POWER, "33", "w", 33),
        (GPU_TEMPERATURE, "45.218", "", Fraction(45218, 1000)),
        (GPU_TEMPERATURE, "-5", "c", -5),
        (GPU_MEMORY_CLOCK, "9001 MHz", "", 9_001_000_000),
    ],
)
def test_a_value_is_exact_and_in_its_base_unit(series: Series, cell: str, unit: str, value: int | Fraction) -> None:
    found = read_value(series, cell, unit)
    assert found == value
    assert not isinstance(found, float)


@pytest.mark.parametrize(
    "cell",
    [
        "[N/A]",
        "N/A",
        "[Not Supported]",
        "Not Supported",
        "[Unknown Error]",
        "ERR!",
        "[GPU is lost]",
        "[Insufficient Permissions]",
        "[Requested functionality has been deprecated]",
    ],
)
def test_what_a_card_cannot_tell_is_missing_and_not_zero(cell: str) -> None:
    assert read_value(GPU_BUSY, cell, "%") is None


@pytest.mark.parametrize(
    ("series", "cell", "reason"),
    [
        (GPU_BUSY, "101 %", "no card can have the ratio '101 %'"),
        (GPU_BUSY, "-1 %", "no card can have the ratio '-1 %'"),
        (GPU_BUSY, "4294967295 %", "no card can have"),
        (GPU_MEMORY_USED, "17592186044416 MiB", "no card can have the bytes"),
        (GPU_MEMORY_TOTAL, "0 MiB", "no card can have the bytes"),
        (GPU_POWER, "5 %", "cannot read '5 %' as watts"),
        (GPU_BUSY, "nan", "cannot read 'nan' as ratio"),
        (GPU_BUSY, "1e1", "cannot read '1e1' as ratio"),
        (GPU_BUSY, "٥ %", "cannot read"),
        (GPU_BUSY, "9" * 100_000, "cannot read '9999"),
    ],
)
def test_what_no_card_can_say_is_refused_and_never_clamped(series: Series, cell: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r".*") as refused:
        read_value(series, cell)
    assert reason in str(refused.value)
    assert len(str(refused.value)) < 200
