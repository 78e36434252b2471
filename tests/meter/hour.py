"""The hour that tests of the meter play in; an instant is said as an offset into it, in seconds."""

from domain.clock import MICROSECONDS
from domain.inventory import CONTACT_SECONDS
from domain.period import HOUR_US, Period
from meter.evidence.evidence import CONTEXT_S

# 2026-03-01T10:00:00Z
HOUR_S = 1_772_359_200
START_US = HOUR_S * MICROSECONDS
# Complete up to here, the hour can settle: it is read with its context.
DONE = 3_600 + CONTEXT_S
# Seconds after a last sample in which the node still counts as heard from, and is billed.
TAIL = CONTACT_SECONDS - 1


def instant_us(offset: float) -> int:
    """The instant, to the microsecond."""
    return START_US + round(offset * MICROSECONDS)


def stretch(start: float, end: float) -> Period:
    """[start, end)."""
    return Period(instant_us(start), instant_us(end))


def hours_after(start_us: int) -> int:
    """How many hours after this one another begins; negative before it."""
    return (start_us - START_US) // HOUR_US
