"""A machine whose wall clock can be set while its monotonic one runs on."""

from domain.clock import FrozenClock


class SettableClock(FrozenClock):
    """Both clocks move when told to; `set_by_us` moves the wall clock alone, as NTP or a person does."""

    def __init__(self, now_us: int) -> None:
        super().__init__(now_us)
        self._set_us = 0

    def now_us(self) -> int:
        return super().now_us() + self._set_us

    def set_by_us(self, by_us: int) -> None:
        """Set the wall clock forward, or back where negative."""
        self._set_us += by_us
