"""Times as logs write them, as exact microseconds UTC."""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from domain.clock import MICROSECONDS

_CLOCK = r"[T ] *([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]{1,12}))?"
_ZONE = r"(?: ?(Z|UTC|[+-][0-9]{2}:?[0-9]{2}))?"
_YEAR_FIRST = re.compile(rf"([0-9]{{4}})([-/.])([0-9]{{1,2}})\2([0-9]{{1,2}}){_CLOCK}{_ZONE}")
_MONTH_FIRST = re.compile(rf"([0-9]{{1,2}})([-/])([0-9]{{1,2}})\2([0-9]{{4}}){_CLOCK}{_ZONE}")
# What `nvidia-smi` writes above its table, whatever the locale.
_ASCTIME = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ([A-Z][a-z]{2}) +([0-9]{1,2}) ([0-9]{2}):([0-9]{2}):([0-9]{2}) ([0-9]{4})"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_NUMBER = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,30}))?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# Numbers below are seconds since the log began; above it they are no seconds.
_EPOCH_MIN_S, _EPOCH_MAX_S = 10**8, 10**11
# Rows of several cards may be a little out of order; an hour is not a little.
_LATE_US = 60 * MICROSECONDS
_OFFSET_MAX = timedelta(hours=15)


class LogTimes:
    """The times of one log, in the order of its rows.

    A local time is of the zone, or UTC where there is none. Of the two instants that one in an hour struck twice may
    mean it is the second only where the first would lie more than a minute before the time before it. `is_relative`
    says whether times count from the log's beginning; it is None until a number was read, which decides for all.
    """

    def __init__(self, zone: ZoneInfo | None, start_us: int | None) -> None:
        """`start_us` is the instant that relative times count from; None where the log has none."""
        self.is_relative: bool | None = None
        self._guessed = 0
        self._zone = zone
        self._start_us = start_us
        self._previous_us: int | None = None

    @property
    def guess(self) -> str | None:
        """What a person should know of times that might mean another instant; None where all are certain."""
        if not self._guessed:
            return None
        return (
            f"{self._guessed:,} times lie in an hour that clocks struck twice; which was meant was told by the rows "
            "before"
        )

    def instant_us(self, text: str) -> int:
        """The instant that the cell means; decimals beyond the microsecond are cut.

        Year first, or month, day and year; both with an offset or without; epoch seconds; seconds since the start.
        Raises ValueError with the reason where it means none, or one before 1970.
        """
        instant_us = self._instant_us(text)
        if instant_us < 0:
            raise ValueError(f"its time {text[:40]!r} is before 1970")
        self._previous_us = instant_us
        return instant_us

    def _instant_us(self, text: str) -> int:
        if number := _NUMBER.fullmatch(text):
            return self._seconds_us(text, *number.groups())
        if found := _YEAR_FIRST.fullmatch(text):
            year, _, month, day, *clock = found.groups()
        elif found := _MONTH_FIRST.fullmatch(text):
            month, _, day, year, *clock = found.groups()
            if int(month) > len(_MONTHS):
                raise ValueError(
                    f"its time {text!r} has no month {month}: the month stands first where the year is last"
                )
        elif (found := _ASCTIME.fullmatch(text)) and found[1] in _MONTHS:
            name, day, *clock, year = found.groups()
            month, clock = str(_MONTHS.index(name) + 1), [*clock, None, None]
        else:
            raise ValueError(f"cannot read {text[:40]!r} as a time")
        hour, minute, second, decimals, offset = clock
        try:
            local = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second), tzinfo=UTC)
        except ValueError:
            raise ValueError(f"its time {text[:40]!r} is in no calendar") from None
        return self._utc_us(text, local, offset) + _decimals_us(decimals)

    def _seconds_us(self, text: str, whole: str, decimals: str | None) -> int:
        seconds = int(whole)
        if seconds >= _EPOCH_MAX_S:
            raise ValueError(f"its time {text[:40]!r} is no number of seconds since 1970")
        is_relative = seconds < _EPOCH_MIN_S
        if self.is_relative is None:
            self.is_relative = is_relative
        elif self.is_relative is not is_relative:
            raise ValueError(f"its time {text[:40]!r} is of another kind than those above it")
        return seconds * MICROSECONDS + _decimals_us(decimals) + ((self._start_us or 0) if is_relative else 0)

    def _utc_us(self, text: str, local: datetime, offset: str | None) -> int:
        """The instant of a calendar's whole second, which is handed in as if it were UTC."""
        utc_us = (local - _EPOCH) // _MICROSECOND
        if offset is not None:
            return utc_us - _offset_us(text, offset)
        if self._zone is None:
            return utc_us
        first_us, second_us = (utc_us - _zone_offset_us(local, self._zone, fold) for fold in (0, 1))
        if first_us > second_us:
            raise ValueError(f"its time {text!r} does not exist in {self._zone}: clocks were put forward over it")
        if first_us < second_us:
            self._guessed += 1
            is_second = self._previous_us is not None and first_us < self._previous_us - _LATE_US
            return second_us if is_second else first_us
        return first_us


def is_time_line(line: str) -> bool:
    """Whether the line is the time that `nvidia-smi` writes above its table."""
    return _ASCTIME.fullmatch(line) is not None


def seconds_us(text: str) -> int:
    """Microseconds of a number of seconds with at most six decimals; ValueError for any other text."""
    number = _NUMBER.fullmatch(text)
    if number is None or len(number[2] or "") > len(str(MICROSECONDS)) - 1:
        raise ValueError(text)
    return int(number[1]) * MICROSECONDS + _decimals_us(number[2])


def _decimals_us(decimals: str | None) -> int:
    return int((decimals or "")[:6].ljust(6, "0"))


def _zone_offset_us(local: datetime, zone: ZoneInfo, fold: int) -> int:
    return (local.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta()) // _MICROSECOND


def _offset_us(text: str, offset: str) -> int:
    if offset in ("Z", "UTC"):
        return 0
    hours, minutes = int(offset[1:3]), int(offset[-2:])
    behind = timedelta(hours=hours, minutes=minutes)
    if minutes > 59 or behind > _OFFSET_MAX:
        raise ValueError(f"its time {text[:40]!r} has an offset that no clock has")
    return (behind if offset[0] == "+" else -behind) // _MICROSECOND
