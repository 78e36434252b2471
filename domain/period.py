"""Instants and half-open UTC intervals, in integer microseconds."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction
from functools import cache
from importlib import resources
from zoneinfo import ZoneInfo

from domain.clock import MICROSECONDS
from domain.errors import InputError

HOUR_S = 3_600
HOUR_US = HOUR_S * MICROSECONDS
# Plain digits: what other notations would mean is not for us to guess.
_EPOCH_FORM = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?")
_ISO_EXAMPLE = "2026-01-31T12:00:00+08:00"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The instants that a calendar can name: years 1 to 9999 in UTC.
_FIRST_S, _AFTER_S = -62_135_596_800, 253_402_300_800
CALENDAR_END_US = _AFTER_S * MICROSECONDS
_BELOW_A_MICROSECOND = re.compile(r"[.,][0-9]{6}[0-9]*[1-9]")
# The library takes any sign between date and time of day; the last form is a date with an offset and no time.
_ISO_FORM = re.compile(r"[0-9W-]{7,10}(?:[Tt ][0-9:.,]+(?:Z|[+-][0-9:.]+)?|[+-][0-9:]+)?")


@dataclass(frozen=True, slots=True, order=True)
class Period:
    """The half-open interval [start_us, end_us) of microseconds UTC.

    It holds the whole second s when the instant s lies inside, so adjacent periods never share a second.
    """

    start_us: int
    end_us: int

    def __post_init__(self) -> None:
        if self.end_us < self.start_us:
            raise InputError(
                f"cannot use a period that ends at {format_instant(self.end_us)!r} before it starts at "
                f"{format_instant(self.start_us)!r}: swap the two"
            )

    @property
    def first_second(self) -> int:
        """The first whole second the period holds, if it holds any."""
        return ceil_second(self.start_us)

    @property
    def seconds(self) -> int:
        """How many whole seconds the period holds."""
        return ceil_second(self.end_us) - ceil_second(self.start_us)

    def intersect(self, other: "Period") -> "Period | None":
        """The common part; None where the two do not meet."""
        start_us = max(self.start_us, other.start_us)
        end_us = min(self.end_us, other.end_us)
        return Period(start_us, end_us) if start_us < end_us else None

    def hours(self) -> Iterator["Period"]:
        """The UTC clock hours that the period touches, each one whole, in order; an empty one touches none."""
        if self.start_us == self.end_us:
            return
        hour_us = self.start_us // HOUR_US * HOUR_US
        while hour_us < self.end_us:
            yield Period(hour_us, hour_us + HOUR_US)
            hour_us += HOUR_US


def ceil_second(instant_us: int) -> int:
    """The first whole second at or after the instant."""
    return -(-instant_us // MICROSECONDS)


def parse_instant(text: str) -> int:
    """Microseconds UTC of an ISO 8601 time with an offset, or of epoch seconds (fractions allowed).

    A time without an offset is refused: whose noon it is cannot be guessed. Epoch second 0 is a time. Finer than
    a microsecond is refused, and so is what lies outside the years 1 to 9999, such as epoch microseconds.
    """
    text = text.strip()
    if not _EPOCH_FORM.fullmatch(text):
        return _reachable(text, _parse_iso(text, f"{_ISO_EXAMPLE}, or epoch seconds"))
    return _reachable(text, _parse_epoch(text))


def parse_iso_instant(text: str) -> int:
    """Microseconds UTC of an ISO 8601 time with an offset, and of nothing else.

    For what people write by hand: 2026 is a year to them and no second of 1970.
    """
    text = text.strip()
    if _EPOCH_FORM.fullmatch(text):
        raise InputError(f"cannot read {text!r} as a time: write ISO 8601 with an offset, such as {_ISO_EXAMPLE}")
    return _reachable(text, _parse_iso(text, _ISO_EXAMPLE))


def _reachable(text: str, instant_us: int) -> int:
    if not _FIRST_S * MICROSECONDS <= instant_us < CALENDAR_END_US:
        raise _unreachable(text)
    return instant_us


def _parse_epoch(text: str) -> int:
    # A fraction is exact where a product of decimals would be rounded to 28 digits.
    instant_us = Fraction(text) * MICROSECONDS
    if instant_us.denominator != 1:
        raise InputError(f"cannot read {text!r} as epoch seconds: write at most six decimals")
    return int(instant_us)


def _unreachable(text: str) -> InputError:
    return InputError(f"cannot use the time {text!r}: it is outside the years 1 to 9999; epoch times are in seconds")


def _parse_iso(text: str, example: str) -> int:
    try:
        moment = datetime.fromisoformat(text if _ISO_FORM.fullmatch(text) else "")
    except ValueError as error:
        raise InputError(f"cannot read {text!r} as a time: write ISO 8601 with an offset, such as {example}") from error
    if moment.tzinfo is None:
        # In a date with an offset the library takes the offset for the time of day.
        has_time = "T" in text.upper() or " " in text
        local = (moment if has_time else datetime.combine(moment, time.min)).isoformat()
        raise InputError(f"cannot use the naive time {text!r}: add its offset, such as {local}Z or {local}+08:00")
    if _BELOW_A_MICROSECOND.search(text):
        raise InputError(f"cannot use the time {text!r}: write at most six decimals of a second")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def format_instant(instant_us: int) -> str:
    """ISO 8601 in UTC with as many decimals as the instant needs, ending in Z."""
    moment = _EPOCH + timedelta(microseconds=instant_us)
    return moment.replace(tzinfo=None).isoformat() + "Z"


def billing_zone(name: str) -> ZoneInfo:
    """The IANA zone of that name.

    Raises InputError for every other name: the machine may know more of them (`localtime`, `right/UTC`), but what
    they mean is its own affair.
    """
    if name not in _iana_zones():
        raise InputError(f"cannot find the time zone {name!r}: use an IANA name such as 'UTC' or 'Asia/Shanghai'")
    return ZoneInfo(name)


@cache
def _iana_zones() -> frozenset[str]:
    # "Factory" is the list's own word for a clock that nobody has set.
    return frozenset((resources.files("tzdata") / "zones").read_text("utf-8").split()) - {"Factory"}


def billing_date(instant_us: int, zone: ZoneInfo) -> date:
    """The calendar day of the instant in the zone, by the zone's offset at that instant."""
    return (_EPOCH + timedelta(microseconds=instant_us)).astimezone(zone).date()


def next_midnight_us(instant_us: int, zone: ZoneInfo) -> int:
    """The first midnight of the zone after the instant, as an instant.

    Where daylight saving skips midnight, the first instant of the new day counts.
    """
    day_after = billing_date(instant_us, zone) + timedelta(days=1)
    midnight_us = day_start_us(day_after, zone)
    # A clock that was put back across midnight strikes it a second time.
    return midnight_us if midnight_us > instant_us else _midnight_us(day_after, zone, fold=1)


def day_start_us(day: date, zone: ZoneInfo) -> int:
    """The first instant of the calendar day in the zone."""
    # Where the zone skips midnight, fold 0 reads the wall clock by the offset before the gap: the gap's own
    # instant, with which the new day begins.
    return _midnight_us(day, zone, fold=0)


def _midnight_us(day: date, zone: ZoneInfo, fold: int) -> int:
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone, fold=fold)
    return (midnight.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)


def month_dates(month: str) -> tuple[date, date]:
    """The first and last day of a month written YYYY-MM."""
    try:
        first = date.fromisoformat(f"{month}-01")
        following = (first + timedelta(days=31)).replace(day=1)
    except (ValueError, OverflowError) as error:
        raise InputError(f"cannot read {month!r} as a month: write YYYY-MM, such as 2026-01") from error
    return first, following - timedelta(days=1)
