"""A log of any step as readings of whole seconds: finer steps are merged, coarser ones hold for a stated time."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from collector.imports.sample_owners import Moment, Values, excess, limit_of, merge_owners, moments, owned_bytes
from collector.imports.sample_rows import Identity, Row
from domain.clock import MICROSECONDS
from domain.series import OWNER_MEMORY, Kind, Series

_Device = tuple[str, str, str]
_Standing = dict[Identity, tuple[int, Values]]


class Reading(NamedTuple):
    """What is known of a device (or an owner on it) from `second_s` until its next reading, None after the last."""

    identity: Identity
    second_s: int
    next_s: int | None
    values: Values


@dataclass
class Seconds:
    """Rows on their way to whole seconds; a time between two belongs to the earlier one.

    `merged` counts rows that shared a second with another of the same device or owner. `problems` gets a line for
    each second in which the owners of a device have more memory than the device uses.
    """

    problems: list[str] = field(default_factory=list)
    merged: int = 0
    # By device, the least time after one of its rows at which owners had more than that row allows.
    _outgrown: dict[Identity, tuple[int, str]] = field(default_factory=dict)

    def readings(self, rows: Iterable[Row], holds_s: Mapping[Identity, int] | None = None) -> Iterator[Reading]:
        """One reading per device or owner and second; rows of one device, owners too, come in the order of time.

        `holds_s` says for how many seconds readings stand. Where it is given, a reading of an owner ends early where
        a later second, which does not name that owner, leaves no room for its bytes beside the device's use.
        """
        gathered: dict[_Device, tuple[int, list[Row]]] = {}
        standing: dict[_Device, _Standing] = defaultdict(dict)
        for row in rows:
            device, second_s = row.identity[:3], row.time_us // MICROSECONDS
            open_ = gathered.get(device)
            if open_ is not None:
                if open_[0] == second_s:
                    open_[1].append(row)
                    continue
                yield from self._next(*open_, standing[device], holds_s)
            gathered[device] = second_s, [row]
        for device, open_ in gathered.items():
            yield from self._next(*open_, standing[device], holds_s)
            for identity, (second_s, values) in standing.pop(device).items():
                yield Reading(identity, second_s, None, values)

    def outgrown(self, holds_s: Mapping[Identity, int]) -> list[str]:
        """A line for each device whose owners had more than its row allows while that row stands for other seconds."""
        return [line for device, (after_s, line) in self._outgrown.items() if after_s < holds_s[device]]

    def _next(
        self, second_s: int, rows: Sequence[Row], standing: _Standing, holds_s: Mapping[Identity, int] | None
    ) -> Iterator[Reading]:
        """The readings that end with a device's next second; what the rows of that say is standing then."""
        found = self._found(second_s, rows, standing)
        for identity in found:
            earlier = standing.pop(identity, None)
            if earlier is not None:
                yield Reading(identity, earlier[0], second_s, earlier[1])
        if standing and holds_s is not None:
            for identity in _crowded_out(found, standing, second_s, holds_s):
                yield Reading(identity, standing[identity][0], second_s, standing.pop(identity)[1])
        standing.update((identity, (second_s, values)) for identity, values in found.items())

    def _found(self, second_s: int, rows: Sequence[Row], standing: _Standing) -> dict[Identity, Values]:
        """The one reading of the device and of each owner."""
        if len(rows) == 1 and not rows[0].identity.owner:
            return {rows[0].identity: rows[0].values}
        found: dict[Identity, Values] = {row.identity: row.values for row in rows}
        self.merged += len(rows) - len(found)
        looks: Sequence[Moment] = ()
        if any(identity.owner for identity in found):
            looks = moments(rows)
            self._hold_against_device(second_s, looks, standing)
        if len(found) < len(rows):
            found |= merge_owners(looks)
            of_device = [row for row in rows if not row.identity.owner]
            if of_device:
                found[of_device[0].identity] = _merge([row.values for row in of_device])
        return found

    def _hold_against_device(self, second_s: int, looks: Sequence[Moment], standing: _Standing) -> None:
        limits = [look.limit for look in looks if look.limit is not None]
        if limits:
            most = max(limits, key=lambda limit: limit[1])
            self.problems += filter(None, (excess(look, look.limit or most) for look in looks))
            return
        if any(look.device is not None for look in looks):
            return
        fullest = max(looks, key=lambda look: look.owned_bytes)
        device = next(iter(fullest.owners))._replace(owner="")
        before = standing.get(device)
        limit = limit_of(before[1]) if before else None
        line = excess(fullest, limit) if limit else None
        if before and line:
            after_s = second_s - before[0]
            self._outgrown[device] = min(self._outgrown.get(device, (after_s, line)), (after_s, line))


@dataclass
class Steps:
    """How far apart the readings of each device lie; an owner's readings count for its device."""

    _seconds: dict[_Device, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))

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


def _crowded_out(
    found: Mapping[Identity, Values], standing: _Standing, second_s: int, holds_s: Mapping[Identity, int]
) -> list[Identity]:
    """The owners that cannot still have what they had, now that the rows of a later second are known."""
    still = {each: values for each, (since_s, values) in standing.items() if second_s < since_s + holds_s.get(each, 0)}
    device = next((values for each, values in (*found.items(), *still.items()) if not each.owner), {})
    limit = limit_of(device)
    if limit is None or owned_bytes((*found.values(), *still.values())) <= limit[1]:
        return []
    return [identity for identity, values in still.items() if OWNER_MEMORY in values]


def _merge(readings: Sequence[Values]) -> Values:
    if len(readings) == 1:
        return readings[0]
    together: dict[Series, list[int | float]] = defaultdict(list)
    for values in readings:
        for series, value in values.items():
            together[series].append(value)
    return {series: _one_of(series, values) for series, values in together.items()}


def _one_of(series: Series, values: Sequence[int | float]) -> int | float:
    """The last of a counter or code, the most memory, the least of `up` (away for a part is not up), else the mean."""
    if series.kind is Kind.COUNTER or series.unit == "code":
        return values[-1]
    return _MERGES.get(series.unit, _mean)(values)


def _mean(values: Sequence[int | float]) -> float:
    return sum(values) / len(values)


_MERGES: dict[str, Callable[[Sequence[int | float]], int | float]] = {"bytes": max, "bool": min}
