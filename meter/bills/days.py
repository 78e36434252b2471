"""Billing dates as a stretch of time."""

from datetime import date, timedelta
from zoneinfo import ZoneInfo

from domain.errors import InputError
from domain.period import Period, day_start_us


def days_period(first_date: str, last_date: str, zone: ZoneInfo) -> Period:
    """From the first instant of the one day to that after the other, YYYY-MM-DD, both included, in the zone.

    InputError for days that reach beyond the calendar.
    """
    first, last = date.fromisoformat(first_date), date.fromisoformat(last_date)
    try:
        return Period(day_start_us(first, zone), day_start_us(last + timedelta(days=1), zone))
    except OverflowError as error:
        raise InputError(
            f"cannot use the days {first_date!r} to {last_date!r}: they reach beyond the years 1 to 9999; choose others"
        ) from error
