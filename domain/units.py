"""Bytes, compute units and milli-GPU: the conversions, in one place."""

from fractions import Fraction

from domain.money import round_half_even

MIB = 2**20
GIB = 2**30

# Some thirty times the largest card there is. An hour of so much at the highest price that domain/money.py reads is
# still below 2^63 nano-units, which is what the ledger holds.
CARD_VRAM_BYTES_MAX = 2**43
# A few dozen times the largest.
CARD_SMS_MAX = 10_000

# A device's compute where MIG is off. Where it is on, a device counts the SMs of its full-card profile.
WHOLE_GPU_UNITS = 1_000


def milli_gpu(compute_units: int, units_total: int) -> int:
    """Compute units as thousandths of their device, for people; rounded half-even, never summed in a proof."""
    return round_half_even(Fraction(compute_units * 1_000, units_total))


def format_gib(vram_bytes: int | Fraction) -> str:
    """Bytes as GiB with two decimals, for people."""
    return f"{float(vram_bytes) / GIB:,.2f}"
