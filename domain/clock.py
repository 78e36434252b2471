"""The one place where gputab looks at a clock."""

import time
from typing import Protocol

MICROSECONDS = 1_000_000


class Clock(Protocol):
    """What a component that needs the time is given."""

    def now_us(self) -> int:
        """Wall clock, microseconds since 1970-01-01T00:00:00Z. May step when the machine's clock is set."""
        ...

    def monotonic_s(self) -> float:
        """Seconds from an arbitrary origin; never steps back. For waiting and measuring, never for billing."""
        ...

    def boot_us(self) -> int:
        """Microseconds since the machine was started, time asleep included: the clock of some drivers' stamps."""
        ...

    def sleep_s(self, seconds: float) -> None:
        """Block for `seconds`; negative values return at once."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_us(self) -> int:
        return time.time_ns() // 1_000

    def monotonic_s(self) -> float:
        return time.monotonic()

    def boot_us(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000

    def sleep_s(self, seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)


class FrozenClock:
    """A clock for tests: it moves only when told to, and sleeping moves it."""

    def __init__(self, now_us: int) -> None:
        self._now_us = now_us
        self._started_us = now_us

    def now_us(self) -> int:
        return self._now_us

    def monotonic_s(self) -> float:
        return (self._now_us - self._started_us) / MICROSECONDS

    def boot_us(self) -> int:
        return self._now_us - self._started_us

    def sleep_s(self, seconds: float) -> None:
        self.advance_us(max(0, round(seconds * MICROSECONDS)))

    def advance_us(self, by_us: int) -> None:
        """Move the clock; a negative step is a clock that was set back."""
        self._now_us += by_us
