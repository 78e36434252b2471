"""Exact money: integer nano-units, exact rates, and the only rounding there is."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from domain.errors import InputError

NANO = 1_000_000_000

# What a rate may be quoted per: the dimension it prices, and the base units in one of it. A GPU-hour is one
# whole card for an hour whatever the grant's size; a GiB is 2^30 bytes.
UNITS: dict[str, tuple[str, int]] = {
    "GPU-hour": ("gpu-seconds", 3_600),
    "GPU-second": ("gpu-seconds", 1),
    "GiB-hour": ("byte-seconds", 3_600 * 2**30),
    "GiB-second": ("byte-seconds", 2**30),
}

# Bounds that keep every charge of an hour inside a BIGINT, on cards of up to `CARD_VRAM_BYTES_MAX` of domain/units.py.
_HOURLY_PRICE_MAX = 1_000_000
_PRICE_DECIMALS_MAX = 12
# Decimal itself also reads "2_20", as 220, and powers of ten, blanks around and digits of other scripts.
_PRICE = re.compile(r"[0-9]{1,40}(?:\.[0-9]{1,40})?")


@dataclass(frozen=True, slots=True)
class Quote:
    """A price as it was written: an exact decimal per unit, never per second.

    `unit` is a key of `UNITS`. A quote of 2.49 per GPU-hour is not representable per second, so it stays whole
    until it meets a quantity.
    """

    price: Decimal
    unit: str

    @property
    def basis(self) -> str:
        """What one unit counts: "gpu-seconds" or "byte-seconds"."""
        return UNITS[self.unit][0]

    def amount_nano(self, quantity: int, *, whole: int = 1) -> int:
        """What `quantity` costs, in nano-units of the currency, rounded once.

        `quantity` is in base units (seconds x compute units, or byte-seconds); `whole` is how many of them
        make one (a device's compute units where a quantity counts those, else 1).
        """
        exact = Fraction(self.price) * quantity / (UNITS[self.unit][1] * whole)
        return round_half_even(exact * NANO)


def parse_quote(price: object, unit: object) -> Quote:
    """The quote of a price book's cell; a float is refused because it is no longer what was written."""
    if not isinstance(unit, str) or unit not in UNITS:
        raise InputError(f"cannot use the unit {unit!r}: write one of {', '.join(UNITS)}")
    if not isinstance(price, str):
        raise InputError(f'cannot use the price {price!r}: write it in quotes, such as price: "2.20"')
    if not _PRICE.fullmatch(price):
        raise InputError(f"cannot read the price {price[:40]!r}: write a decimal number, zero or more, such as 2.20")
    amount = Decimal(price)
    price_max = _HOURLY_PRICE_MAX if unit.endswith("-hour") else _HOURLY_PRICE_MAX // 3_600
    if amount > price_max or len(price.partition(".")[2]) > _PRICE_DECIMALS_MAX:
        raise InputError(
            f"cannot use the price {price!r}: at most {price_max} per {unit} and {_PRICE_DECIMALS_MAX} decimals"
        )
    return Quote(amount, unit)


def round_half_even(value: Fraction) -> int:
    """The nearest integer, ties to the even one. All money is rounded here and nowhere else."""
    # `round` of a Fraction is exact and rounds half to even by its definition in the standard library.
    return round(value)


def largest_remainder(amounts_nano: Sequence[int], step_nano: int, total_nano: int | None = None) -> list[int]:
    """The amounts in multiples of `step_nano` whose sum is the rounded sum of the amounts.

    Each is rounded down and the steps that are missing go to the largest remainders, earlier ones first, so
    that the lines of an invoice add up to its total. `total_nano` is what they shall add up to where that is
    settled already: a multiple of `step_nano`, less than one step away from their sum.
    """
    if total_nano is None:
        total_nano = round_half_even(Fraction(sum(amounts_nano), step_nano)) * step_nano
    floors = [amount // step_nano for amount in amounts_nano]
    by_remainder = sorted(range(len(amounts_nano)), key=lambda i: (-(amounts_nano[i] % step_nano), i))
    for index in by_remainder[: total_nano // step_nano - sum(floors)]:
        floors[index] += 1
    return [floor * step_nano for floor in floors]


def format_nano(amount_nano: int) -> str:
    """The amount as a plain decimal with no trailing zeros but at least two decimals."""
    sign = "-" if amount_nano < 0 else ""
    whole, fraction = divmod(abs(amount_nano), NANO)
    decimals = f"{fraction:09d}".rstrip("0").ljust(2, "0")
    return f"{sign}{whole}.{decimals}"


# ISO 4217 currencies without a minor unit of a hundredth; all others have two decimals.
_WITHOUT_DECIMALS = (
    *("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG"),
    *("RWF", "UGX", "UYI", "VND", "VUV", "XAF", "XOF", "XPF"),
)
_MINOR_DIGITS = {
    **dict.fromkeys(_WITHOUT_DECIMALS, 0),
    **dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3),
    **dict.fromkeys(("CLF", "UYW"), 4),
}


def check_currency(code: object) -> str:
    """The code, if it has the form of ISO 4217: three capital letters."""
    if not (isinstance(code, str) and len(code) == 3 and code.isascii() and code.isalpha() and code.isupper()):
        raise InputError(f"cannot use {code!r} as a currency: write its ISO 4217 code, such as CNY")
    return code


def minor_unit_nano(currency: str) -> int:
    """The smallest amount that can be paid, in nano-units: a cent, a fen, a whole yen."""
    return NANO // int(10 ** _MINOR_DIGITS.get(currency, 2))
