"""Billing days of a zone: each instant in exactly one, each border the zone's own midnight."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.errors import InputError
from domain.period import (
    Period,
    billing_date,
    billing_zone,
    day_start_us,
    month_dates,
    next_midnight_us,
    parse_instant,
)
from domain.tenants import Tenant

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
# Midnight skipped, midnight repeated, a day that never was, offsets that are no whole hours, and one without DST.
ZONES = (
    "UTC",
    "Asia/Shanghai",
    "Asia/Kathmandu",
    "Europe/Vienna",
    "America/New_York",
    "America/Sao_Paulo",
    "America/Havana",
    "America/St_Johns",
    "America/Nuuk",
    "Africa/Cairo",
    "Asia/Beirut",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Atlantic/Azores",
)
# 2005 to 2037
_instants = st.integers(1_104_537_600, 2_145_916_800).map(lambda second: second * 1_000_000)


def _us(text: str) -> int:
    return parse_instant(text)


@pytest.mark.parametrize(
    ("zone", "day", "start"),
    [
        ("UTC", "2026-03-01", "2026-03-01T00:00:00Z"),
        ("Asia/Shanghai", "2026-03-01", "2026-03-01T00:00:00+08:00"),
        ("America/New_York", "2026-03-08", "2026-03-08T00:00:00-05:00"),
        ("America/New_York", "2026-03-09", "2026-03-09T00:00:00-04:00"),
        # The clock goes from 24:00 to 01:00: the day begins at 01:00 of the wall, in the gap's own instant.
        ("America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00:00Z"),
        ("Asia/Beirut", "2026-03-29", "2026-03-28T22:00:00Z"),
        # The clock goes back from 24:00 to 23:00: the day before has 25 hours.
        ("America/Sao_Paulo", "2018-02-18", "2018-02-18T03:00:00Z"),
        # The clock goes back from 01:00 to 00:00: the first of the two midnights counts.
        ("America/Havana", "2026-11-01", "2026-11-01T04:00:00Z"),
        # 30 December never was.
        ("Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00Z"),
        ("Pacific/Apia", "2011-12-31", "2011-12-30T10:00:00Z"),
    ],
)
def test_a_day_begins_at_its_first_instant(zone: str, day: str, start: str) -> None:
    assert day_start_us(date.fromisoformat(day), ZoneInfo(zone)) == _us(start)


@given(_instants, st.sampled_from(ZONES))
@settings(max_examples=settings().max_examples * 300 // 100, deadline=None)
def test_the_next_midnight_lies_ahead_and_ends_the_day(instant_us: int, name: str) -> None:
    zone = ZoneInfo(name)
    midnight_us = next_midnight_us(instant_us, zone)
    assert instant_us < midnight_us <= instant_us + DAY_US + HOUR_US
    today, tomorrow = billing_date(instant_us, zone), billing_date(midnight_us, zone)
    assert tomorrow > today
    assert billing_date(midnight_us - 1, zone) in (today, tomorrow - timedelta(days=1))


@pytest.mark.parametrize("name", ZONES)
def test_the_midnights_of_years_follow_each_other_without_end(name: str) -> None:
    """Walking from midnight to midnight passes every change of the clock of twenty years, and gets on."""
    zone = ZoneInfo(name)
    instant_us, end_us = _us("2008-01-01T12:00:00Z"), _us("2028-01-01T12:00:00Z")
    steps = 0
    while instant_us < end_us:
        following_us = next_midnight_us(instant_us, zone)
        assert following_us > instant_us
        instant_us, steps = following_us, steps + 1
    assert steps - 7_305 in (-1, 0, 1, 2)


def test_a_clock_put_back_across_midnight_still_reaches_the_next_day() -> None:
    """St. John's of 2010 fell from 00:01 to 23:01 of the day before; from there midnight is a minute to an hour off."""
    zone = ZoneInfo("America/St_Johns")
    again_us = _us("2010-11-07T03:00:00Z")
    assert billing_date(again_us, zone) == date(2010, 11, 6)
    assert next_midnight_us(again_us, zone) == _us("2010-11-07T03:30:00Z")


@given(_instants, st.integers(1, 5 * DAY_US), st.sampled_from(ZONES), st.lists(st.integers(0, 5 * DAY_US), max_size=3))
@settings(max_examples=settings().max_examples * 100 // 100, deadline=None)
def test_the_days_of_a_period_cover_it_however_it_was_cut(
    start_us: int, length_us: int, name: str, cuts: list[int]
) -> None:
    """Billing dates do not depend on where a window begins."""
    tenant = Tenant("acme", ZoneInfo(name), "CNY", ())
    end_us = start_us + length_us
    inner = sorted({start_us, end_us, *(start_us + cut for cut in cuts if cut < length_us)})
    whole = _seconds_by_day(tenant, [Period(start_us, end_us)])
    parts = _seconds_by_day(tenant, [Period(a, b) for a, b in pairwise(inner)])
    assert whole == parts
    assert sum(whole.values()) == Period(start_us, end_us).seconds


def _seconds_by_day(tenant: Tenant, periods: list[Period]) -> dict[str, int]:
    days: dict[str, int] = {}
    for period in periods:
        for part, day in tenant.days(period):
            days[day] = days.get(day, 0) + part.seconds
    return {day: seconds for day, seconds in days.items() if seconds}


def test_a_day_is_named_by_the_offset_of_then_not_of_now() -> None:
    """22:30Z of 31 January is January in Vienna, also when asked in summer (openclaw 103092)."""
    assert billing_date(_us("2026-01-31T22:30:00Z"), ZoneInfo("Europe/Vienna")) == date(2026, 1, 31)


@pytest.mark.parametrize(
    ("month", "first", "last"),
    [
        ("2026-01", date(2026, 1, 1), date(2026, 1, 31)),
        ("2026-04", date(2026, 4, 1), date(2026, 4, 30)),
        ("2026-12", date(2026, 12, 1), date(2026, 12, 31)),
        ("2026-02", date(2026, 2, 1), date(2026, 2, 28)),
        ("2028-02", date(2028, 2, 1), date(2028, 2, 29)),
        ("2100-02", date(2100, 2, 1), date(2100, 2, 28)),
        ("0001-01", date(1, 1, 1), date(1, 1, 31)),
    ],
)
def test_a_month_has_a_first_and_a_last_day(month: str, first: date, last: date) -> None:
    """Whose midnights they are between is the tenant's matter."""
    assert month_dates(month) == (first, last)


@pytest.mark.parametrize("month", ["", "2026", "2026-13", "2026-00", "2026-1", "26-01", "2026-01-01", "9999-12"])
def test_what_is_no_month_is_refused(month: str) -> None:
    with pytest.raises(InputError, match=r"^cannot read .* as a month: write YYYY-MM"):
        month_dates(month)


@pytest.mark.parametrize("name", ["", "Mars/Olympus", "../etc/passwd", "/etc/passwd", "Europe", "UTC\0"])
def test_what_is_no_zone_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"^cannot find the time zone .*IANA name"):
        billing_zone(name)


def test_a_zone_is_found_by_its_name() -> None:
    shanghai = datetime(2026, 1, 1, tzinfo=billing_zone("Asia/Shanghai"))
    assert shanghai.astimezone(UTC) == datetime(2025, 12, 31, 16, tzinfo=UTC)
