"""The wall clock as far as it can be believed: a step is taken for an error until it has stood for a while.

A wall clock that goes a year ahead for one second must not stamp a sample, nor a mark, nor a report. The monotonic
clock says what time it ought to be; where the two part, a sample can be stamped with neither, since a machine that
slept has a wall clock that is right and a monotonic one that stood still.
"""

import threading
from typing import NamedTuple

import structlog

from domain.clock import MICROSECONDS, Clock

# As far as a node's clock may be off before its seconds are not those of its grants.
_TOLERANCE_US = 2 * MICROSECONDS
_PROOF_US = 10 * MICROSECONDS

log = structlog.get_logger()


class SteadyClock:
    """A `Clock` for one process, safe to use from several threads.

    Up to 2 s apart from what the monotonic clock lets expect, the wall clock is followed. A larger step either way
    is in doubt for 10 s, and then believed if it still stands. What the clock says at the start is believed.
    """

    def __init__(self, clock: Clock) -> None:
        """`clock` has the machine's clocks."""
        self._clock = clock
        self._lock = threading.Lock()
        self._offset_us = clock.now_us() - self._monotonic_us()
        self._doubted: _Step | None = None
        self._steps = 0

    @property
    def steps(self) -> int:
        """How often the wall clock has jumped by more than 2 s, there or back."""
        return self._steps

    def now_us(self) -> int:
        """Microseconds since 1970: the wall clock's, or while that is in doubt those that it would have had."""
        return self._look()[0]

    def believed_us(self) -> int | None:
        """Microseconds since 1970 by the wall clock; None while it is in doubt."""
        now_us, is_believed = self._look()
        return now_us if is_believed else None

    def monotonic_s(self) -> float:
        """Seconds of the machine's monotonic clock."""
        return self._clock.monotonic_s()

    def boot_us(self) -> int:
        """Microseconds since the machine was started."""
        return self._clock.boot_us()

    def sleep_s(self, seconds: float) -> None:
        """Block for `seconds`; negative values return at once."""
        self._clock.sleep_s(seconds)

    def _look(self) -> tuple[int, bool]:
        with self._lock:
            monotonic_us = self._monotonic_us()
            self._judge(self._clock.now_us() - monotonic_us, monotonic_us)
            return monotonic_us + self._offset_us, self._doubted is None

    def _judge(self, offset_us: int, monotonic_us: int) -> None:
        """Follow the wall clock, which is `offset_us` ahead of the monotonic one, doubt it, or believe its step."""
        by_us = offset_us - self._offset_us
        if abs(by_us) <= _TOLERANCE_US:
            if self._doubted is not None:
                self._steps += 1
                log.info("clock_step_taken_back")
        elif self._doubted is None or abs(offset_us - self._doubted.offset_us) > _TOLERANCE_US:
            self._doubted = _Step(offset_us, monotonic_us)
            self._steps += 1
            log.warning("clock_stepped", by_seconds=by_us / MICROSECONDS, remedy="check what sets this node's clock")
            return
        elif monotonic_us - self._doubted.seen_us < _PROOF_US:
            return
        else:
            log.warning("clock_step_believed", by_seconds=by_us / MICROSECONDS)
        self._offset_us = offset_us
        self._doubted = None

    def _monotonic_us(self) -> int:
        return round(self._clock.monotonic_s() * MICROSECONDS)


class _Step(NamedTuple):
    """Where a wall clock has gone that is not believed yet, and when by the monotonic clock that was seen."""

    offset_us: int
    seen_us: int
