"""What is kept of a card's counters from one second to the next, whatever happens to its handle."""

from collections.abc import Mapping

from collector.ranges import counted_ratio, is_possible
from collector.telling import Telling
from domain.series import GPU_ENERGY, Kind, Series

# Across a longer silence nobody knows what a card drew.
_BRIDGED_SECONDS = 10
_NARROW = 2**32
# More than any bus moves between two readings.
_ABSURD_BYTES = 2**50


class CardCounters:
    """The counters of one card, as they were last seen: one per card UUID, for as long as the process runs.

    It outlives handles, since a counter begins again just where the driver was loaded anew. Used from the card's own
    thread; `resets` and `capped` may be read from any.
    """

    def __init__(self) -> None:
        self.resets: Mapping[Series, int] = {}
        """How often a counter of the card began again, by series; those that never did are not in it."""
        self.capped: Mapping[Series, int] = {}
        """How often a ratio of the card, or of an instance on it, was taken as 1, by series; see `capped_ratio`."""
        self._last: dict[tuple[Series, str], int | float] = {}
        self._totals = Totals()
        self._of_instances: dict[int, tuple[int, Totals]] = {}
        self._drawn: tuple[float, float] | None = None

    def see(self, telling: Telling) -> None:
        """All that is told in a second, whoever counted it: a counter that is lower than it was has begun again."""
        for series, value in telling.values.items():
            if series.kind is Kind.COUNTER and value is not None:
                self._see(series, "", value)
        for series, by_part in telling.parts.items():
            if series.kind is Kind.COUNTER:
                for part, value in by_part.items():
                    self._see(series, part, value)

    def add(self, series: Series, amount: int | float) -> int | float:
        """The total of what the collector itself adds up, where the card counts nothing."""
        return self._totals.add(series, amount)

    def of_instance(self, gi_id: int, generation: int) -> "Totals":
        """What is added up of the MIG instance of that number: anew in each generation, of which the last is kept."""
        known = self._of_instances.get(gi_id)
        if known is None or known[0] != generation:
            known = self._of_instances[gi_id] = generation, Totals()
        return known[1]

    def capped_ratio(self, series: Series, ratio: float) -> float:
        """As `ranges.counted_ratio`; each that is not handed on as it was told is counted."""
        counted = counted_ratio(ratio)
        if counted != ratio:
            self.capped = {**self.capped, series: self.capped.get(series, 0) + 1}
        return counted

    def energy_joules(self, power_watts: float, now_s: float) -> float:
        """The energy of a card that does not count it: its power over time, as straight lines between the readings.

        `now_s` is the monotonic time of the reading. A silence of more than 10 s adds nothing.
        """
        drawn, self._drawn = self._drawn, (now_s, power_watts)
        if drawn is None or now_s - drawn[0] > _BRIDGED_SECONDS:
            return self.add(GPU_ENERGY, 0.0)
        return self.add(GPU_ENERGY, (now_s - drawn[0]) * (drawn[1] + power_watts) / 2)

    def _see(self, series: Series, part: str, value: int | float) -> None:
        if not is_possible(series, value):
            return
        last = self._last.get((series, part), 0)
        self._last[series, part] = value
        if value < last:
            self.resets = {**self.resets, series: self.resets.get(series, 0) + 1}


class Totals:
    """What the collector itself adds up of one device, by series."""

    def __init__(self) -> None:
        self._totals: dict[Series, int | float] = {}

    def add(self, series: Series, amount: int | float) -> int | float:
        """The total, with this."""
        total = self._totals[series] = self._totals.get(series, 0) + amount
        return total


class ByteCounter:
    """A counter of bytes that may have 32 bits, and then begins again every 4 GiB (nvml.h: "can be wrapped").

    At 64 GB/s that is fifteen times a second: only one who knows about how much it was can tell how often.
    """

    def __init__(self) -> None:
        self._last: int | None = None
        self.is_wide = False
        """Whether it has been seen to have more than 32 bits."""

    def step_bytes(self, now: int, about_bytes: float | None) -> int | None:
        """The bytes since it was last asked, 0 at first; at least so many where nobody knows about how many.

        None where no bus moves so many: then this reading is as if it had not been made.
        """
        last = self._last
        if last is not None and now - last > _ABSURD_BYTES:
            return None
        self._last = now
        self.is_wide |= now >= _NARROW
        if last is None:
            return 0
        if self.is_wide:
            return now - last if now >= last else now
        step = (now - last) % _NARROW
        if about_bytes is None:
            return step
        return step + max(0, round((about_bytes - step) / _NARROW)) * _NARROW
