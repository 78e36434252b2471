"""The conversions for people."""

from fractions import Fraction

import pytest

from domain.units import GIB, MIB, format_gib, milli_gpu


@pytest.mark.parametrize(
    ("units", "total", "expected"),
    [(0, 1_000, 0), (250, 1_000, 250), (98, 98, 1_000), (14, 98, 143), (1, 16, 62), (3, 16, 188), (1, 2_000, 0)],
)
def test_milli_gpu_is_rounded_half_even(units: int, total: int, expected: int) -> None:
    """1/16 of a card is 62.5 thousandths, shown as 62; 3/16 is 187.5, shown as 188."""
    assert milli_gpu(units, total) == expected


@pytest.mark.parametrize(
    ("vram_bytes", "text"), [(0, "0.00"), (GIB, "1.00"), (512 * MIB, "0.50"), (2_048 * GIB, "2,048.00")]
)
def test_gib_are_binary(vram_bytes: int, text: str) -> None:
    assert format_gib(vram_bytes) == text
    assert format_gib(Fraction(vram_bytes)) == text
