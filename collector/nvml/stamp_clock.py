"""The clock that a driver stamps its samples by, which differs from driver to driver."""

from collections.abc import Callable

from collector.nvml.probe import Probe
from domain.clock import MICROSECONDS

# A stamp is a little ahead where it was made while it was asked for.
AHEAD_US = 1_000_000
_OLDEST_US = 86_400 * MICROSECONDS


class StampClock:
    """The clock that a driver stamps its samples by: some by the time of day, others by the time since boot."""

    def __init__(self, probe: Probe) -> None:
        self._clocks: tuple[Callable[[], int], ...] = (probe.clock.now_us, probe.clock.boot_us)

    def now_us(self, newest_us: int) -> int | None:
        """What that clock says now, told by its newest stamp; None where that is of none of them."""
        nows = [clock() for clock in self._clocks]
        ages = [(now_us - newest_us, now_us) for now_us in nows if -AHEAD_US <= now_us - newest_us <= _OLDEST_US]
        return min(ages)[1] if ages else None
