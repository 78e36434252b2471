"""One card, or MIG instance, told by two sources: each of its series comes from one of them, and stays with it.

A choice changes only where the chosen source has said nothing for some seconds, and goes back only where the better
one has been there for a minute. `gpu_basis_info` says in the same second where a series comes from.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import structlog

from collector.compute_basis import (
    CARD_CANDIDATES,
    INSTANCE_CANDIDATES,
    LASTING,
    ComputeBasis,
    tell_from_instances,
)
from collector.source_order import DCGM, NVML, ORDER, may_change
from collector.telling import Said, Telling
from domain.inventory import MigInstance
from domain.samples import Basis, DeviceReading, FieldState, OwnerUse
from domain.series import (
    GPU_BUSY,
    GPU_COMPUTE,
    GPU_GR_ACTIVE,
    GPU_MEMORY_USED,
    GPU_UP,
    OWNER_COMPUTE,
    OWNER_MEMORY,
    Series,
)

_LEAVE_SECONDS = 3
_RETURN_SECONDS = 60
# A card on which the driver is still at work tells no busy ratio for half a minute, and nobody else's is the tenant's.
_NOT_READY_SECONDS = 35
# Some series are asked for once a minute: a source that does not speak of one may do so yet.
_UNSPOKEN_SECONDS = 65
_DERIVED = frozenset({GPU_UP, GPU_COMPUTE, OWNER_MEMORY, OWNER_COMPUTE})
_UNSAID = "current"

log = structlog.get_logger()


class SeriesChoice:
    """The choices of one device; used from the thread of its card. Time is the second that is read."""

    def __init__(self, gpu_uuid: str, mig_uuid: str | None) -> None:
        self._gpu_uuid = gpu_uuid
        self._mig_uuid = mig_uuid
        self._chosen: dict[Series, str] = {}
        self._first_seen_s: dict[Series, int] = {}
        self._silent_since_s: dict[Series, int] = {}
        self._back_since_s: dict[Series, int] = {}
        self._candidates = CARD_CANDIDATES if mig_uuid is None else INSTANCE_CANDIDATES
        self._compute = ComputeBasis(self._candidates)
        self._before: Said | None = None

    def reading(
        self,
        second_s: int,
        told: Mapping[str, DeviceReading],
        instances: Iterable[tuple[MigInstance, DeviceReading]] = (),
        sm_count: int | None = None,
    ) -> DeviceReading:
        """The second as one reading, of the sources that spoke in it, by their names; at least one.

        `instances` are those of a card in MIG mode with what was chosen of them, and `sm_count` is its own: NVML by
        itself knows how busy it is by what NVML knows of its instances only.
        """
        telling = Telling()
        changes: Counter[tuple[str, str]] = Counter()
        for series in self._spoken_of(told.values()):
            before = self._chosen.get(series)
            source = self._choose(series, second_s, told)
            if before is not None and source != before:
                changes[before, str(source)] += 1
            self._tell(telling, series, source, told)
        for (before, after), count in changes.items():
            device = self._mig_uuid or self._gpu_uuid
            log.warning("source_changed", device=device, series=count, before=before, after=after, second_s=second_s)
        self._tell_compute(telling, second_s, told)
        tell_from_instances(telling, instances, sm_count)
        owners = self._tell_owners(telling, told)
        ups = [told[source].values.get(GPU_UP) for source in ORDER if source in told]
        said = self._before = telling.said(self._before)
        return DeviceReading(
            self._gpu_uuid,
            self._mig_uuid,
            {GPU_UP: next((up for up in ups if up is not None), None), **said.values},
            owners,
            said.parts,
            said.missing,
            said.bases,
        )

    def _spoken_of(self, readings: Iterable[DeviceReading]) -> list[Series]:
        spoken = dict.fromkeys(self._chosen)
        for reading in readings:
            spoken |= dict.fromkeys((*reading.values, *reading.parts, *reading.missing))
        return [series for series in spoken if series not in _DERIVED]

    def _choose(self, series: Series, second_s: int, told: Mapping[str, DeviceReading]) -> str | None:
        """The source of the series from this second on; None where it is still waited for the better one."""
        chosen = self._chosen.get(series)
        if chosen is None:
            chosen = self._first_choice(series, second_s, told)
        elif may_change(series):
            chosen = self._next_choice(series, chosen, second_s, told)
        if chosen is not None:
            self._chosen[series] = chosen
        return chosen

    def _first_choice(self, series: Series, second_s: int, told: Mapping[str, DeviceReading]) -> str | None:
        waited_s = second_s - self._first_seen_s.setdefault(series, second_s)
        for source in ORDER:
            if _has(told.get(source), series):
                return source
            if waited_s < _patience_s(told.get(source), series):
                return None
        return None

    def _next_choice(self, series: Series, chosen: str, second_s: int, told: Mapping[str, DeviceReading]) -> str:
        if chosen != NVML and self._is_back(series, second_s, told.get(NVML)):
            return self._change(series, NVML)
        speaking = [source for source in ORDER if _has(told.get(source), series)]
        if chosen in speaking or (chosen in told and not _speaks_of(told[chosen], series)):
            self._silent_since_s.pop(series, None)
        elif (
            second_s - self._silent_since_s.setdefault(series, second_s) >= _leave_s(told.get(chosen), series)
            and speaking
        ):
            return self._change(series, speaking[0])
        return chosen

    def _is_back(self, series: Series, second_s: int, nvml: DeviceReading | None) -> bool:
        """Whether NVML has a value again and was there for a minute, without saying that it has none of the series.

        What it does not speak of it may be asked for once a minute.
        """
        has_value = _has(nvml, series)
        if nvml is None or (_speaks_of(nvml, series) and not has_value):
            self._back_since_s.pop(series, None)
            return False
        return second_s - self._back_since_s.setdefault(series, second_s) >= _RETURN_SECONDS and has_value

    def _change(self, series: Series, source: str) -> str:
        self._silent_since_s.pop(series, None)
        self._back_since_s.pop(series, None)
        return source

    def _tell(self, telling: Telling, series: Series, source: str | None, told: Mapping[str, DeviceReading]) -> None:
        if source is None:
            telling.tell(series, _awaited_state(series, told))
            return
        reading = told.get(source)
        if reading is None:
            telling.tell(series, FieldState.ERROR)
            return
        basis = reading.bases.get(series, Basis(source, _UNSAID))
        if series in reading.parts:
            telling.parts[series] = reading.parts[series]
            telling.bases[series] = basis
        elif reading.values.get(series) is not None:
            telling.tell(series, reading.values[series], basis=basis)
        elif _speaks_of(reading, series):
            telling.tell(series, _state(reading, series))

    def _tell_compute(self, telling: Telling, second_s: int, told: Mapping[str, DeviceReading]) -> None:
        """How much it computed: as NVML says, unless something that it could be measured by is DCGM's."""
        nvml = told.get(NVML)
        if nvml is not None and all(self._chosen.get(each) != DCGM for each in self._candidates):
            if _speaks_of(nvml, GPU_COMPUTE):
                self._tell(telling, GPU_COMPUTE, NVML, told)
            return
        self._compute.tell(telling, second_s)

    def _tell_owners(self, telling: Telling, told: Mapping[str, DeviceReading]) -> Mapping[str, OwnerUse]:
        """The owners of whoever tells the memory that they share."""
        speaking = [source for source in ORDER if source in told and _speaks_of(told[source], OWNER_MEMORY)]
        source = self._chosen.get(GPU_MEMORY_USED) or next(iter(speaking), None)
        if source is None:
            return {}
        reading = told.get(source)
        if reading is None:
            telling.missing |= dict.fromkeys((OWNER_MEMORY, OWNER_COMPUTE), FieldState.ERROR)
            return {}
        for series in (OWNER_MEMORY, OWNER_COMPUTE):
            if series in reading.missing:
                telling.missing[series] = reading.missing[series]
            if series in reading.bases:
                telling.bases[series] = reading.bases[series]
        shared = GPU_BUSY if self._mig_uuid is None else GPU_GR_ACTIVE
        is_split = OWNER_COMPUTE in reading.bases or reading.split is not None
        if not is_split or self._chosen.get(shared) == source:
            return reading.owners
        return _split_anew(telling, reading, shared)


def _split_anew(telling: Telling, reading: DeviceReading, shared: Series) -> Mapping[str, OwnerUse]:
    """The owners where the ratio that theirs sum to is another source's: it is split as they are told to share it.

    Where that depends on the ratio itself, as of a whole card, nothing is told of theirs.
    """
    ratio = telling.values.get(shared)
    compute: Mapping[str, float] = {}
    if reading.split is not None and ratio is not None:
        compute = reading.split.of(ratio)
        telling.missing.pop(OWNER_COMPUTE, None)
        telling.bases[OWNER_COMPUTE] = reading.split.basis
    else:
        telling.bases.pop(OWNER_COMPUTE, None)
        telling.missing[OWNER_COMPUTE] = telling.missing.get(shared, FieldState.NOT_READY)
    memory = {owner: use.memory_bytes for owner, use in reading.owners.items()}
    uses = {owner: OwnerUse(memory.get(owner), compute.get(owner)) for owner in {**memory, **compute}}
    return {owner: use for owner, use in uses.items() if use != OwnerUse(None, None)}


def _has(reading: DeviceReading | None, series: Series) -> bool:
    return reading is not None and (reading.values.get(series) is not None or series in reading.parts)


def _speaks_of(reading: DeviceReading, series: Series) -> bool:
    places: tuple[Mapping[Series, Any], ...] = (reading.values, reading.parts, reading.missing)
    return any(series in place for place in places)


def _state(reading: DeviceReading, series: Series) -> FieldState:
    """Why there is no value; where no reason is told the card cannot tell it."""
    return reading.missing.get(series, FieldState.UNSUPPORTED)


def _awaited_state(series: Series, told: Mapping[str, DeviceReading]) -> FieldState:
    """Why a series that no source was chosen for has no value."""
    if any(_has(reading, series) for reading in told.values()):
        return FieldState.NOT_READY
    speaking = [told[source] for source in ORDER if source in told and _speaks_of(told[source], series)]
    return _state(speaking[0], series) if speaking else FieldState.NOT_READY


def _patience_s(reading: DeviceReading | None, series: Series) -> int:
    """For how long a source without a value is waited for before another one is chosen in its place."""
    if reading is None:
        return _LEAVE_SECONDS
    if not _speaks_of(reading, series):
        return _UNSPOKEN_SECONDS
    return 0 if _state(reading, series) in LASTING else _leave_s(reading, series)


def _leave_s(reading: DeviceReading | None, series: Series) -> int:
    """For how long a source is waited for that has no value now and may have one in a moment."""
    is_ready = reading is None or _state(reading, series) is not FieldState.NOT_READY
    return _LEAVE_SECONDS if is_ready else _NOT_READY_SECONDS
