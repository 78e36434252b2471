"""Quotes as they were written, one rounding a charge, and lines that add up."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.errors import InputError
from domain.money import (
    NANO,
    UNITS,
    Quote,
    format_nano,
    largest_remainder,
    minor_unit_nano,
    parse_quote,
    round_half_even,
)
from domain.units import CARD_VRAM_BYTES_MAX, GIB

BIGINT_MAX = 2**63 - 1


@pytest.mark.parametrize(
    ("price", "unit", "expected"),
    [
        ("2.20", "GPU-hour", Decimal("2.20")),
        ("0", "GPU-second", Decimal(0)),
        ("0.000000000001", "GiB-hour", Decimal("0.000000000001")),
        ("1000000", "GPU-hour", Decimal(1_000_000)),
    ],
)
def test_a_quote_is_kept_as_it_was_written(price: str, unit: str, expected: Decimal) -> None:
    quote = parse_quote(price, unit)
    assert (quote.price, quote.unit) == (expected, unit)
    assert Decimal(str(quote.price)) == expected


@pytest.mark.parametrize(
    ("price", "unit", "problem"),
    [
        (2.2, "GPU-hour", r"cannot use the price 2\.2: write it in quotes"),
        (2, "GPU-hour", "cannot use the price 2: write it in quotes"),
        (None, "GPU-hour", "cannot use the price None: write it in quotes"),
        ("", "GPU-hour", "cannot read the price ''"),
        ("two", "GPU-hour", "cannot read the price 'two'"),
        ("1,50", "GPU-hour", "cannot read the price '1,50'"),
        ("-1", "GPU-hour", "cannot read the price '-1': write a decimal number, zero or more"),
        ("-0.01", "GPU-hour", "zero or more"),
        ("NaN", "GPU-hour", "cannot read the price"),
        ("sNaN", "GPU-hour", "cannot read the price"),
        ("Infinity", "GPU-hour", "cannot read the price"),
        ("1000001", "GPU-hour", "at most 1000000"),
        ("1E+7", "GPU-hour", "cannot read the price"),
        ("0.0000000000001", "GPU-hour", "12 decimals"),
        ("2.20", None, "cannot use the unit None: write one of GPU-hour, GPU-second, GiB-hour, GiB-second"),
        ("2.20", "", "cannot use the unit ''"),
        ("2.20", "GPU-month", "cannot use the unit 'GPU-month'"),
        ("2.20", ["GPU-hour"], "cannot use the unit"),
    ],
)
def test_a_quote_that_is_not_exact_and_whole_is_refused(price: object, unit: object, problem: str) -> None:
    """The unit is mandatory, a provider's -1 is no price, a float is not what was written.

    OpenCost 3781, elizaOS 22681.
    """
    with pytest.raises(InputError, match=problem):
        parse_quote(price, unit)


@pytest.mark.parametrize("unit", UNITS)
def test_the_dearest_quote_of_the_largest_card_for_an_hour_fits_the_ledger(unit: str) -> None:
    """No price that is accepted can make a charge that a BIGINT does not hold."""
    limit = _largest_accepted(unit)
    quantity = 3_601 * (1_000 if unit.startswith("GPU") else CARD_VRAM_BYTES_MAX)
    assert limit >= 200
    assert Quote(limit, unit).amount_nano(quantity, whole=1_000 if unit.startswith("GPU") else 1) <= BIGINT_MAX


def _largest_accepted(unit: str) -> Decimal:
    accepted = 0
    for power in range(40, -1, -1):
        try:
            parse_quote(str(accepted + 2**power), unit)
        except InputError:
            continue
        accepted += 2**power
    return Decimal(accepted)


def test_an_hourly_price_stays_hourly() -> None:
    """0.95 per GPU-hour is 0.95 after an hour, not 0.95 / 730 (OpenCost 3781)."""
    assert parse_quote("0.95", "GPU-hour").amount_nano(3_600 * 1_000, whole=1_000) == 950_000_000


def test_a_month_at_an_hourly_quote_is_not_rounded_each_second() -> None:
    """2.49 an hour has no exact price per second; 30 days cost 1,792.80 and nothing more."""
    assert parse_quote("2.49", "GPU-hour").amount_nano(30 * 86_400) == 1_792_800_000_000


def test_a_gib_is_binary() -> None:
    assert parse_quote("0.03", "GiB-hour").amount_nano(GIB * 3_600) == 30_000_000
    assert parse_quote("0.03", "GiB-hour").amount_nano(10**9 * 3_600) == 27_939_677


@pytest.mark.parametrize(
    ("numerator", "denominator", "expected"),
    [(1, 2, 0), (3, 2, 2), (5, 2, 2), (-1, 2, 0), (-3, 2, -2), (7, 3, 2), (8, 3, 3), (10**30 + 1, 2, 5 * 10**29)],
)
def test_ties_go_to_the_even_number(numerator: int, denominator: int, expected: int) -> None:
    assert round_half_even(Fraction(numerator, denominator)) == expected


@given(
    st.decimals(0, 1_000, places=6, allow_nan=False),
    st.sampled_from(sorted(UNITS)),
    st.integers(0, 10**15),
    st.integers(1, 1_000),
)
def test_an_amount_is_the_exact_product_rounded_once(price: Decimal, unit: str, quantity: int, whole: int) -> None:
    exact = Fraction(price) * quantity * NANO / (UNITS[unit][1] * whole)
    amount = Quote(price, unit).amount_nano(quantity, whole=whole)
    assert abs(amount - exact) <= Fraction(1, 2)
    if exact.denominator == 2:
        assert amount % 2 == 0


_amounts = st.lists(st.integers(-(10**12), 10**14), max_size=30)


@given(_amounts, st.sampled_from([1, 1_000_000, 10_000_000, NANO]))
def test_lines_add_up_to_the_rounded_total_and_none_moves_a_whole_step(amounts: list[int], step: int) -> None:
    lines = largest_remainder(amounts, step)
    assert sum(lines) == round_half_even(Fraction(sum(amounts), step)) * step
    assert all(line % step == 0 for line in lines)
    assert all(abs(line - amount) < step for line, amount in zip(lines, amounts, strict=True))


@given(_amounts, st.booleans())
def test_lines_can_be_told_what_to_add_up_to(amounts: list[int], is_rounded_up: bool) -> None:
    """To the step below their sum or to the one above it; none of them moves a whole step for that."""
    step = 10_000_000
    total = (-(-sum(amounts) // step) if is_rounded_up else sum(amounts) // step) * step
    lines = largest_remainder(amounts, step, total)
    assert sum(lines) == total
    assert all(line % step == 0 and abs(line - amount) < step for line, amount in zip(lines, amounts, strict=True))


@given(_amounts)
def test_exact_lines_are_left_alone(amounts: list[int]) -> None:
    """A line without a remainder never gets a step: an unpriced line stays at nothing."""
    step = 10_000_000
    lines = largest_remainder(amounts, step)
    assert all(line == amount for line, amount in zip(lines, amounts, strict=True) if amount % step == 0)


@given(_amounts)
def test_of_two_lines_the_one_with_the_larger_remainder_is_served_first(amounts: list[int]) -> None:
    step = 10_000_000
    lines = largest_remainder(amounts, step)
    raised = [amount % step for line, amount in zip(lines, amounts, strict=True) if line > amount // step * step]
    lowered = [amount % step for line, amount in zip(lines, amounts, strict=True) if line == amount // step * step]
    assert not raised or not lowered or min(raised) >= max(lowered) or 0 in raised + lowered


def test_of_equal_remainders_the_earlier_line_is_served_first() -> None:
    assert largest_remainder([5, 5, 5, 5], 10) == [10, 10, 0, 0]


def test_a_card_of_72_a_day_splits_into_72() -> None:
    """2 h x 4/7, 6 h x 1/7, 2 h x 2/7 and the rest of a $72 day, in cents."""
    parts = [Fraction(72 * 2 * 4, 24 * 7), Fraction(72 * 6, 24 * 7), Fraction(72 * 2 * 2, 24 * 7)]
    exact = [round_half_even(part * NANO) for part in (*parts, Fraction(72) - sum(parts))]
    cents = [line // 10_000_000 for line in largest_remainder(exact, 10_000_000)]
    assert cents == [343, 257, 171, 6_429]


def test_eighty_one_lines_add_up_to_the_rounded_total() -> None:
    """Rounded apart these lines lose two cents (Lago 5121)."""
    total = 23_072_529_600_000
    amounts = [total // 81 + (index < total % 81) for index in range(81)]
    assert sum(largest_remainder(amounts, 10_000_000)) == 23_072_530_000_000
    assert sum(amount // 10_000_000 * 10_000_000 for amount in amounts) != 23_072_530_000_000


@pytest.mark.parametrize(
    ("amount_nano", "text"),
    [
        (0, "0.00"),
        (1, "0.000000001"),
        (10_000_000, "0.01"),
        (1_500_000_000, "1.50"),
        (-1_500_000_000, "-1.50"),
        (-1, "-0.000000001"),
        (47_500_000, "0.0475"),
        (10**27, "1000000000000000000.00"),
    ],
)
def test_an_amount_is_written_exactly(amount_nano: int, text: str) -> None:
    assert format_nano(amount_nano) == text


@given(st.integers(-(10**24), 10**24))
def test_what_is_written_is_what_there_is(amount_nano: int) -> None:
    assert Fraction(Decimal(format_nano(amount_nano))) * NANO == amount_nano


@pytest.mark.parametrize(
    ("currency", "minor_unit"),
    [("CNY", NANO // 100), ("USD", NANO // 100), ("JPY", NANO), ("KRW", NANO), ("KWD", NANO // 1_000)]
    # ISO 4217, table A.1: no minor unit, and three or four digits.
    + [(code, NANO) for code in ("UGX", "XAF", "XOF", "XPF", "RWF", "PYG", "KMF", "GNF", "DJF", "BIF", "VUV")]
    + [("IQD", NANO // 1_000), ("LYD", NANO // 1_000), ("CLF", NANO // 10_000)],
)
def test_the_smallest_payable_amount_is_the_currencys_own(currency: str, minor_unit: int) -> None:
    assert minor_unit_nano(currency) == minor_unit


def test_a_basis_says_what_a_unit_counts() -> None:
    bases: dict[str, Any] = {unit: Quote(Decimal(1), unit).basis for unit in UNITS}
    assert bases == {
        "GPU-hour": "gpu-seconds",
        "GPU-second": "gpu-seconds",
        "GiB-hour": "byte-seconds",
        "GiB-second": "byte-seconds",
    }
