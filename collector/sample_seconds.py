"""A log of any step as readings of whole seconds: finer steps are merged, coarser ones hold for a stated time."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from collector.sample_csv import Identity, Row
from domain.clock import MICROSECONDS
from domain.series import Kind, Series


class Reading(NamedTuple):
    """What is known of a device (or an owner on it) from `second_s` until its next reading, None after the last."""

    identity: Identity
    second_s: int
    next_s: int | None
    values: Mapping[Series, int | float]


@dataclass
class Seconds:
    """Rows on their way to whole seconds; a time between two belongs to the earlier one. `merged` counts rows that
    shared a second with another of the same device."""

    merged: int = 0

    def readings(self, rows: Iterable[Row]) -> Iterator[Reading]:
        """One reading per device and second; rows of one device come in the order of time."""
        open_: dict[Identity, tuple[int, list[Mapping[Series, int | float]]]] = {}
        for row in rows:
            second_s = row.time_us // MICROSECONDS
            found = open_.get(row.identity)
            if found is not None and found[0] == second_s:
                found[1].append(row.values)
                self.merged += 1
                continue
            if found is not None:
                yield Reading(row.identity, found[0], second_s, _merge(found[1]))
            open_[row.identity] = second_s, [row.values]
        for identity, (second_s, values) in open_.items():
            yield Reading(identity, second_s, None, _merge(values))


@dataclass
class Steps:
    """How far apart the readings of each device lie; an owner's readings count for its device."""

    _seconds: dict[tuple[str, str, str], Counter[int]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, reading: Reading) -> None:
        """Count the step to the next reading."""
        if reading.next_s is not None:
            self._seconds[reading.identity[:3]][reading.next_s - reading.second_s] += 1

    def median_s(self, identity: Identity) -> int:
        """The lower median step of the device in seconds; 1 where it has a single reading."""
        counts = self._seconds.get(identity[:3])
        if not counts:
            return 1
        half = (counts.total() + 1) // 2
        for step_s in sorted(counts):
            half -= counts[step_s]
            if half <= 0:
                break
        return step_s


def _merge(readings: Sequence[Mapping[Series, int | float]]) -> Mapping[Series, int | float]:
    if len(readings) == 1:
        return readings[0]
    together: dict[Series, list[int | float]] = defaultdict(list)
    for values in readings:
        for series, value in values.items():
            together[series].append(value)
    return {series: _one_of(series, values) for series, values in together.items()}


def _one_of(series: Series, values: Sequence[int | float]) -> int | float:
    """The last of a counter, the most memory, the least of `up` (away for a part is not up), else the mean."""
    if series.kind is Kind.COUNTER:
        return values[-1]
    return _MERGES.get(series.unit, _mean)(values)


def _mean(values: Sequence[int | float]) -> float:
    return sum(values) / len(values)


_MERGES: dict[str, Callable[[Sequence[int | float]], int | float]] = {"bytes": max, "bool": min}
