"""One device, asked; what it said it cannot tell is not asked again for ten minutes."""

from typing import Any

from collector.nvml.driver import Driver
from domain.clock import Clock
from domain.samples import FieldState

# A driver may learn a field while it is loaded, as where a feature of the card is switched on.
_ASK_AGAIN_SECONDS = 600


class Probe:
    """The questions to one device. All of them are asked anew where the device's handle is, and every ten minutes.

    Only what is unsupported stays unasked: a lack of permission, or an error, may be over in the next second.
    """

    def __init__(self, driver: Driver, handle: Any, clock: Clock) -> None:
        self.driver = driver
        self.handle = handle
        self.clock = clock
        self.now_s = clock.monotonic_s()
        self.round = 0
        """How often all was forgotten; see `Round`."""
        self._cannot: set[tuple[str, int]] = set()
        self._forgets_at_s = self.now_s + _ASK_AGAIN_SECONDS

    def begin(self) -> None:
        """A second begins: `now_s` is its monotonic time."""
        self.now_s = self.clock.monotonic_s()
        if self.now_s >= self._forgets_at_s:
            self._forgets_at_s = self.now_s + _ASK_AGAIN_SECONDS
            self._cannot.clear()
            self.round += 1

    def ask(self, call: str, *arguments: Any, of: int = 0, **options: Any) -> Any:
        """What `nvml<call>` answers of the device, or a FieldState.

        `of` tells apart what one call can be asked for and a card may have some of: kinds of clocks, of samples.
        Raises CardLostError and DriverGoneError.
        """
        if (call, of) in self._cannot:
            return FieldState.UNSUPPORTED
        answer = self.driver.answer(call, self.handle, *arguments, **options)
        if answer is FieldState.UNSUPPORTED:
            self._cannot.add((call, of))
        return answer


class Round:
    """For who remembers things of a device beside its `Probe`: when these are to be asked anew."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._seen: int | None = None

    def begins(self) -> bool:
        """Whether it is asked for the first time, or for the first time since the probe forgot all."""
        before, self._seen = self._seen, self._probe.round
        return before != self._seen
