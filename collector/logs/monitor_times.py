"""When the rows of dmon and pmon were read: by the day and the time of day, by one of them, or by neither."""

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

from collector.logs.log import LogOptions
from collector.logs.log_times import LogTimes
from collector.logs.monitor_rows import DATE, TIME
from domain.clock import MICROSECONDS
from domain.errors import InputError

_DAY = re.compile("([0-9]{4})([0-9]{2})([0-9]{2})")
_TIME_OF_DAY = re.compile("([0-9]{2}):([0-9]{2}):([0-9]{2})")
_ONE_DAY = timedelta(days=1)
# A clock that is put back for winter falls by an hour, one that passes midnight by nearly a day.
_PAST_MIDNIGHT = timedelta(hours=12)
# A row of the day before that comes a little late.
_BEFORE_MIDNIGHT = timedelta(hours=23)


class MonitorTimes:
    """The times of one log, in the order of its rows.

    Times of day without a day go on from the day of `options.start_us`: the first is the one nearest to that instant,
    and where one falls back by more than 12 hours the next day has begun.
    """

    def __init__(self, path: str, options: LogOptions) -> None:
        self.has_days = False
        self.has_times_of_day = False
        self._path = path
        self._options = options
        self._times = LogTimes(options.zone, None)
        self._previous: datetime | None = None

    def instant_us(self, cells: Mapping[str, str]) -> int | None:
        """The instant of a row by its cells; None where no column has the time of day.

        Raises ValueError with the reason where it cannot be read, and InputError where the day must be said.
        """
        clock, day = cells.get(TIME), cells.get(DATE)
        if clock is None:
            return None
        if day is None:
            self.has_times_of_day = True
            return self._times.instant_us(f"{self._with_day(clock):%Y-%m-%d} {clock}")
        self.has_days = True
        return self._times.instant_us(f"{_dashed(day)} {clock}")

    def refuse_other_day(self, cells: Mapping[str, str], time_us: int) -> None:
        """Raise InputError where a row that tells its day, and no time of day, was given a time on another."""
        day = cells.get(DATE)
        if day is not None and _dashed(day) != f"{self._local(time_us):%Y-%m-%d}":
            raise InputError(
                f"cannot use --start for the log {self._path!r}: its first row is of the day {day[:40]!r}; give its "
                "time on that day"
            )

    def notes(self) -> Iterator[str]:
        """What a person should know of the times, and of options that they did not need."""
        if self.has_days and self._options.start_us is not None:
            yield "--start was not needed: its times are dates"
        if (self.has_days or self.has_times_of_day) and self._options.step_us is not None:
            yield "--step was not needed: its rows have times"
        if self.has_times_of_day:
            yield "its times have no day: they go on from the day of --start, and past midnight where they fall back"
        if self._times.guess:
            yield self._times.guess

    def _with_day(self, clock: str) -> datetime:
        if self._options.start_us is None:
            raise InputError(
                f"cannot read the log {self._path!r}: its times have no day; say when it began with --start"
            )
        found = _TIME_OF_DAY.fullmatch(clock)
        if found is None:
            raise ValueError(f"cannot read {clock[:40]!r} as a time of day")
        hour, minute, second = map(int, found.groups())
        near = self._previous or self._local(self._options.start_us)
        try:
            same_day = near.replace(hour=hour, minute=minute, second=second, microsecond=0)
            if self._previous is None:
                moment = min((same_day - _ONE_DAY, same_day, same_day + _ONE_DAY), key=lambda each: abs(each - near))
            elif same_day < near - _PAST_MIDNIGHT:
                moment = same_day + _ONE_DAY
            else:
                moment = same_day - _ONE_DAY if same_day > near + _BEFORE_MIDNIGHT else same_day
        except (ValueError, OverflowError):
            raise ValueError(f"its time {clock!r} is in no calendar") from None
        self._previous = moment
        return moment

    def _local(self, start_us: int) -> datetime:
        try:
            return datetime.fromtimestamp(start_us // MICROSECONDS, self._options.zone or UTC).replace(tzinfo=None)
        except (ValueError, OverflowError):
            raise InputError(
                f"cannot use --start for the log {self._path!r}: its zone has no calendar then; give an earlier one"
            ) from None


def snapshots(keys: Iterable[tuple[str | None, Hashable]]) -> Iterator[int]:
    """Which snapshot, from 0, each row is of, where no time tells it: a row is a card's index and what of it.

    A snapshot ends where a row of it comes again, or the index falls. A row without an index belongs to the one it
    stands in.
    """
    number = highest = 0
    seen: set[tuple[int, Hashable]] = set()
    for index, part in keys:
        if index is not None:
            row = int(index), part
            if row in seen or row[0] < highest:
                number += 1
                seen.clear()
            seen.add(row)
            highest = row[0]
        yield number


def _dashed(day: str) -> str:
    found = _DAY.fullmatch(day)
    return "-".join(found.groups()) if found else day.replace("/", "-")
