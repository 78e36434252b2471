"""Values of a host engine by whole seconds.

The engine reads a field once a period at a time of its own, so second s has what was read in the second before it
began: a ratio is of the time before it is read, here as with NVML. Where another program has fields read more often,
ratios are averaged, of used memory the most counts, of all else the last.
"""

from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from threading import Lock
from typing import NamedTuple

from collector.dcgm.field import DcgmField, Watch
from collector.dcgm.fields import FIELD_OF_NUMBER, LAST_XID, MEMORY_USED
from collector.dcgm.host_engine import Entity, FieldValue, state_of
from collector.ranges import is_possible
from domain.clock import MICROSECONDS
from domain.samples import FieldState
from domain.series import Series

_LONG_PERIOD_US = 1_100_000
_STALE_PERIODS = 3

_Exact = int | Fraction | FieldState


class EngineSecond(NamedTuple):
    """Each field that was ever read of a device, as it was in a second, or why it has no value.

    `capped` are the ratios among them of which some value was taken as 1 and was a little more.
    """

    fields: dict[DcgmField, _Exact]
    capped: set[Series]


class EngineSeconds:
    """What was read, until it is forgotten. One value per instant: to add it twice changes nothing.

    Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._read: dict[Entity, dict[DcgmField, dict[int, int | float]]] = defaultdict(lambda: defaultdict(dict))
        self._failed: dict[Entity, dict[DcgmField, FieldState]] = defaultdict(dict)
        self._profiled: set[Entity] = set()
        self._lock = Lock()
        self.newest_us = 0

    def add(self, values: Iterable[FieldValue]) -> None:
        """Take what the engine answers to one question; fields that are not read here are left out.

        A failure is one of that answer: it holds until the next.
        """
        with self._lock:
            self._failed.clear()
            for each in values:
                field = FIELD_OF_NUMBER.get(each.field)
                if field is not None:
                    self._add(field, each)

    def forget_before(self, before_us: int) -> None:
        """Drop what was read before; of the last XID error, which is not read in periods, all but the newest."""
        with self._lock:
            for fields in self._read.values():
                for field, values in fields.items():
                    from_us = min(before_us, max(values, default=0)) if field is LAST_XID else before_us
                    fields[field] = {time_us: value for time_us, value in values.items() if time_us >= from_us}

    def of_second(self, entity: Entity, second_s: int) -> EngineSecond:
        """What the engine knows of the entity in that second."""
        with self._lock:
            told, capped = self._told(entity, second_s)
            failed = self._failed[entity]
            return EngineSecond(told | failed, capped - {field.series for field in failed})

    def _add(self, field: DcgmField, each: FieldValue) -> None:
        if each.status != 0:
            self._failed[each.entity][field] = state_of(each.status)
        elif isinstance(each.value, int | float):
            self._failed[each.entity].pop(field, None)
            self._read[each.entity][field][each.time_us] = each.value
            if field.watch is Watch.PROFILING and not isinstance(field.exact(each.value), FieldState):
                self._profiled.add(each.entity)
            self.newest_us = max(self.newest_us, each.time_us)

    def _told(self, entity: Entity, second_s: int) -> EngineSecond:
        until_us = second_s * MICROSECONDS
        told: dict[DcgmField, _Exact] = {}
        capped: set[Series] = set()
        blank: set[DcgmField] = set()
        for field, values in self._read[entity].items():
            times = sorted(time_us for time_us in values if time_us <= until_us)
            if field is LAST_XID:
                told |= {field: field.exact(values[times[-1]])} if times else {}
                continue
            within = [values[time_us] for time_us in times if time_us > until_us - MICROSECONDS]
            # Its periods are not exact: what was read a moment before the second is better than a hole.
            within = within or [values[time_us] for time_us in times[-1:] if time_us > until_us - _LONG_PERIOD_US]
            exact = [field.exact(value) for value in within]
            told[field] = _reduced(field, exact) if exact else _absence(times, until_us)
            if field.series is not None and any(field.is_capped(value) for value in within) and _is_ratio(told[field]):
                capped.add(field.series)
            if within and told[field] is FieldState.NOT_READY:
                blank.add(field)
        profiling = {field for field in told if field.watch is Watch.PROFILING}
        if entity in self._profiled and profiling <= blank:
            # All at once, after there were values: so `dcgmi profile --pause` makes it.
            told |= dict.fromkeys(profiling, FieldState.PROFILER_BUSY)
        return EngineSecond(told, capped)


def _absence(times: list[int], until_us: int) -> FieldState:
    if times and until_us - times[-1] <= _STALE_PERIODS * MICROSECONDS:
        # One that was not read in its period: such samples are lost under load (DCGM 313).
        return FieldState.NOT_READY
    return FieldState.STALE


def _is_ratio(exact: _Exact) -> bool:
    return not isinstance(exact, FieldState) and 0 <= exact <= 1


def _reduced(field: DcgmField, within: list[_Exact]) -> _Exact:
    """The one value of a second that was read several times; blanks count only where there is nothing else."""
    if FieldState.GARBAGE in within:
        return FieldState.GARBAGE
    values = [exact for exact in within if not isinstance(exact, FieldState)]
    if len(values) < 2:
        return values[0] if values else within[-1]
    impossible = [exact for exact in values if field.series is not None and not is_possible(field.series, exact)]
    if impossible:
        # No mean makes it possible: whoever checks the reading counts it.
        return impossible[0]
    if field is MEMORY_USED:
        return max(values)
    if field.series is not None and field.series.unit == "ratio":
        return Fraction(sum(values), len(values))
    return values[-1]
