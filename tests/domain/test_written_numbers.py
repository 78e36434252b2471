"""Text becomes a number only where a person would read the same number in it."""

from datetime import UTC, datetime

import pytest

from domain.errors import InputError
from domain.money import parse_quote
from domain.period import parse_instant, parse_iso_instant
from domain.written_numbers import parse_whole

# What Python's own conversions take: underscores, digits of other scripts, blanks around, powers of ten, signs.
_MISREAD = ("2_20", "٢", "２.20", " 2.20", "2.20\n", "+2.20", "2.", ".5", "1E+2", "2,20", "0x10", "nan", "")
_HUGE = ("1e99999999", "1e-99999999", "0e99999999")


@pytest.mark.parametrize("text", [*_MISREAD, *_HUGE, "9" * 5_000])
def test_a_price_is_plain_digits_with_a_point(text: str) -> None:
    """Somebody meant 2.20 by "2_20", which is 220 to Python."""
    with pytest.raises(
        InputError, match=r"^cannot read the price .*: write a decimal number, zero or more, such as 2\.20$"
    ):
        parse_quote(text, "GPU-hour")


@pytest.mark.parametrize(("text", "whole"), [("0", 0), ("30", 30), ("007", 7), ("-1", -1), ("9" * 18, 10**18 - 1)])
def test_a_whole_number_is_plain_digits(text: str, whole: int) -> None:
    assert parse_whole(text) == whole


@pytest.mark.parametrize("text", [*_MISREAD, *_HUGE, "1.0", "1" + "0" * 18, "--1", "²"])
def test_what_is_not_plainly_a_whole_number_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"^cannot read .* as a whole number: write at most 18 digits, such as 30$"):
        parse_whole(text)


@pytest.mark.parametrize("text", ["1_0", "٣", "+5", "1e3", "1e99999999", "0x10", "5.", ".5", "1" * 41])
def test_an_instant_is_no_number_that_only_python_reads(text: str) -> None:
    with pytest.raises(InputError, match="as a time: write ISO 8601"):
        parse_instant(text)


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-01510:00Z",
        "2026-01-01１10:00Z",
        "2026-01-01x10:00Z",
        "2026-01-01+10:00Z",
        "2026-01-01T00:00:00.123456７Z",
        "2026-01-01\ud80010:00Z",
    ],
)
def test_a_time_has_a_t_or_a_blank_after_its_date(text: str) -> None:
    """The library takes any sign there, and stops at the first decimal that is no digit to it."""
    for parse in (parse_instant, parse_iso_instant):
        with pytest.raises(InputError, match="as a time: write ISO 8601"):
            parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31T12:00:00+08:00",
        "2026-01-31t12:00+08",
        "2026-01-31 12:00:00.000+0800",
        "20260131T120000,0+08:00:00",
        "2026-W05-6T04:00Z",
    ],
)
def test_the_forms_of_iso_8601_are_read(text: str) -> None:
    assert parse_instant(text) == int(datetime(2026, 1, 31, 4, tzinfo=UTC).timestamp()) * 10**6
