"""Instants and half-open intervals: what is read, what is refused, and that neighbours never share a second."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.errors import InputError
from domain.period import HOUR_US, Period, ceil_second, format_instant, parse_instant, parse_iso_instant

US = 1_000_000
_instants = st.integers(-(10**15), 4 * 10**15)


@pytest.mark.parametrize(
    ("text", "expected_us"),
    [
        ("0", 0),
        ("1970-01-01T00:00:00Z", 0),
        (" 1970-01-01T08:00:00+08:00 ", 0),
        ("-1", -US),
        ("1780586634.1", 1_780_586_634_100_000),
        ("1780586634.227587", 1_780_586_634_227_587),
        ("2026-03-01T10:00:00Z", 1_772_359_200 * US),
        ("2026-03-01T10:00:00.5Z", 1_772_359_200 * US + 500_000),
        ("2026-03-01 18:00:00+08:00", 1_772_359_200 * US),
        ("20260301T100000Z", 1_772_359_200 * US),
        ("2026-03-01T10:04:50.227587Z", 1_772_359_490_227_587),
        ("2026-03-01T10:00:00.000000000Z", 1_772_359_200 * US),
    ],
)
def test_a_time_is_read_to_the_microsecond(text: str, expected_us: int) -> None:
    assert parse_instant(text) == expected_us


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "nan",
        "inf",
        "-Infinity",
        "2026-03-01T10:00:00",
        "2026-03-01",
        "2026-02-30T10:00:00Z",
        "2026-03-01T25:00:00Z",
        "1780586634.1234567",
        "2026-03-01T10:00:00.1234567Z",
        "2026-03-01T10:00:00,0000001+00:00",
        "1e999999",
        "1e30",
        # Plain digits only: other notations are read by nobody without a doubt.
        "1.7805866341e9",
        "1_780_586_634",
        "+5",
        ".5",
        "5.",
        "0x10",
        "1,5",
        "\u0661\u0662",
        "- 5",
        "--5",
        "1" * 41,
        "1772359200000000",
        "-1e20",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-12:00",
        "1780586634.0000000000000000000000000001",
    ],
)
def test_what_is_not_one_exact_instant_is_refused_and_quoted(text: str) -> None:
    """Neither guessed, nor cut to microseconds, nor accepted where no calendar reaches."""
    with pytest.raises(InputError, match=r"^cannot ") as refused:
        parse_instant(text)
    assert repr(text) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "expected_us"),
    [
        ("1970-01-01T00:00:00Z", 0),
        (" 2026-03-01 18:00:00+08:00 ", 1_772_359_200 * US),
        ("20260301T100000Z", 1_772_359_200 * US),
        ("0001-01-01T00:00:00Z", -62_135_596_800 * US),
    ],
)
def test_a_time_that_a_person_writes_is_iso(text: str, expected_us: int) -> None:
    assert parse_iso_instant(text) == expected_us == parse_instant(text)


@pytest.mark.parametrize(
    "text",
    ["0", "2026", "20260101", " 1772359200 ", "1772359200.5", "-1", "2026-03-01", "2026-03-01T10:00:00", "", "soon"],
)
def test_where_a_person_writes_digits_alone_are_no_time(text: str) -> None:
    """2026 is a year to whoever wrote it, and half an hour of 1970 to a parser of seconds."""
    with pytest.raises(InputError, match=r"^cannot ") as refused:
        parse_iso_instant(text)
    assert repr(text.strip()) in str(refused.value)
    if text.strip().isdecimal() or text in ("", "soon"):
        assert str(refused.value).endswith("write ISO 8601 with an offset, such as 2026-01-31T12:00:00+08:00")


def test_a_time_outside_the_calendar_is_refused_in_either_way() -> None:
    for parse in (parse_instant, parse_iso_instant):
        with pytest.raises(InputError, match="it is outside the years 1 to 9999"):
            parse("9999-12-31T23:59:59-12:00")


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("2026-03-01T10:00:00", "2026-03-01T10:00:00"),
        ("2026-03-01 10:00", "2026-03-01T10:00:00"),
        ("20260301T10", "2026-03-01T10:00:00"),
        ("2026-03-01", "2026-03-01T00:00:00"),
        ("2026-W09-7", "2026-03-01T00:00:00"),
        ("2026-03-01+08:00", "2026-03-01T00:00:00"),
    ],
)
def test_a_naive_time_is_told_how_to_name_its_offset(text: str, local: str) -> None:
    """In words that are read themselves: a date with an offset alone is no time."""
    with pytest.raises(InputError) as refused:
        parse_instant(text)
    assert str(refused.value).endswith(f"add its offset, such as {local}Z or {local}+08:00")
    assert parse_instant(f"{local}Z") - parse_instant(f"{local}+08:00") == 8 * 3_600 * US


@given(_instants)
def test_every_instant_survives_being_written_and_read(instant_us: int) -> None:
    assert parse_instant(format_instant(instant_us)) == instant_us


@given(_instants, st.integers(-840, 840))
def test_the_offset_of_a_time_does_not_matter(instant_us: int, offset_minutes: int) -> None:
    """08:00+08:00 and 00:00Z are one instant, whatever the offset."""
    local = format_instant(instant_us + offset_minutes * 60 * US).removesuffix("Z")
    hours, minutes = divmod(abs(offset_minutes), 60)
    assert parse_instant(f"{local}{'-' if offset_minutes < 0 else '+'}{hours:02d}:{minutes:02d}") == instant_us


def test_a_period_that_ends_before_it_starts_is_refused_with_both_ends() -> None:
    with pytest.raises(InputError, match=r"ends at '1970-01-01T00:00:01Z' before .* '1970-01-01T00:00:02Z': swap"):
        Period(2 * US, US)


@given(_instants, st.integers(0, 10**10))
def test_a_period_holds_the_whole_seconds_whose_instant_lies_in_it(start_us: int, length_us: int) -> None:
    """Second s is held iff start <= s < end, so counting agrees with looking at each border second."""
    period = Period(start_us, start_us + length_us)
    first, after = period.first_second, period.first_second + period.seconds
    assert start_us <= first * US or period.seconds == 0
    assert (first - 1) * US < start_us
    assert (after - 1) * US < period.end_us <= after * US or period.seconds == 0


@given(st.lists(_instants, min_size=2, max_size=20))
def test_neighbours_never_share_a_second_and_lose_none(cuts: list[int]) -> None:
    cuts.sort()
    parts = [Period(start, end) for start, end in pairwise(cuts)]
    assert sum(part.seconds for part in parts) == Period(cuts[0], cuts[-1]).seconds


@given(_instants, st.integers(0, 10**10), _instants, st.integers(0, 10**10))
def test_the_common_part_is_what_lies_in_both(a_us: int, a_length: int, b_us: int, b_length: int) -> None:
    a, b = Period(a_us, a_us + a_length), Period(b_us, b_us + b_length)
    common = a.intersect(b)
    assert common == b.intersect(a)
    assert (common is None) == (max(a_us, b_us) >= min(a.end_us, b.end_us))
    if common is not None:
        assert common.start_us in (a_us, b_us)
        assert common.end_us in (a.end_us, b.end_us)


def test_periods_that_only_touch_have_nothing_in_common() -> None:
    assert Period(0, 5).intersect(Period(5, 9)) is None
    assert Period(3, 3).intersect(Period(0, 9)) is None


@given(st.integers(-(10**13), 10**13), st.integers(0, 50 * HOUR_US))
def test_the_hours_of_a_period_are_whole_clock_hours_that_cover_it(start_us: int, length_us: int) -> None:
    period = Period(start_us, start_us + length_us)
    hours = list(period.hours())
    assert all(hour.start_us % HOUR_US == 0 and hour.end_us - hour.start_us == HOUR_US for hour in hours)
    assert all(hour.intersect(period) for hour in hours)
    assert sum(part.seconds for hour in hours if (part := hour.intersect(period))) == period.seconds


@pytest.mark.parametrize(("instant_us", "second_s"), [(0, 0), (1, 1), (US, 1), (US + 1, 2), (-1, 0), (-US, -1)])
def test_a_second_begins_at_or_after_the_instant(instant_us: int, second_s: int) -> None:
    assert ceil_second(instant_us) == second_s


@pytest.mark.parametrize(
    ("instant_us", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.000001Z"),
        (-US, "1969-12-31T23:59:59Z"),
        (1_780_586_634_100_000, "2026-06-04T15:23:54.100000Z"),
    ],
)
def test_an_instant_is_written_in_utc_with_the_decimals_it_needs(instant_us: int, text: str) -> None:
    assert format_instant(instant_us) == text
