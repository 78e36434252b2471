"""What "how much it computed" means on a device, second by second: the best of its series that can be trusted."""

from collections.abc import Iterable, Sequence
from typing import Any

from collector.ranges import is_possible
from collector.source_order import NVML
from collector.telling import Said, Telling
from domain.inventory import MigInstance
from domain.samples import Basis, DeviceReading, FieldState
from domain.series import (
    GPU_BUSY,
    GPU_COMPUTE,
    GPU_GR_ACTIVE,
    GPU_POWER,
    GPU_SM_ACTIVE,
    Series,
)

CARD_CANDIDATES = (GPU_SM_ACTIVE, GPU_BUSY)
INSTANCE_CANDIDATES = (GPU_SM_ACTIVE, GPU_GR_ACTIVE)
_MEASURES = {GPU_SM_ACTIVE: "sm_active", GPU_GR_ACTIVE: "gr_active", GPU_BUSY: "busy"}
_INSTANCES = "instances"

# What is missing for these reasons stays missing. For any other it is waited for: a second on another basis would be
# charged by another measure, and an SM-active of 0.3 may be the same work as a busy of 1.
LASTING = frozenset({FieldState.UNSUPPORTED, FieldState.NO_PERMISSION, FieldState.PROFILER_BUSY, FieldState.SUSPECT})
_WAIT_SECONDS = 10

# Profiling that hangs says 0 for minutes. A kernel that runs has at least one SM busy.
_STUCK_SECONDS = 30
_BUSY_RATIO = 0.9
_HIGH_POWER = 0.5


class ComputeBasis:
    """Tells `GPU_COMPUTE` of one device, with its basis."""

    def __init__(self, candidates: Sequence[Series]) -> None:
        """`candidates` are the series that it may be, the best first."""
        self._candidates = candidates
        self._told_s: dict[Series, float] = {}

    def tell(self, telling: Telling, now_s: float) -> None:
        """The first candidate that has a value, from where that comes from; `now_s` is by the caller's one clock."""
        state = FieldState.UNSUPPORTED
        for series in self._candidates:
            value = telling.values.get(series)
            if value is not None and is_possible(series, value):
                self._told_s[series] = now_s
                telling.tell(GPU_COMPUTE, value, basis=Basis(_source(telling, series), _MEASURES[series]))
                return
            state = FieldState.GARBAGE if value is not None else telling.missing.get(series, FieldState.UNSUPPORTED)
            if state not in LASTING and now_s - self._told_s.setdefault(series, now_s) < _WAIT_SECONDS:
                break
        telling.tell(GPU_COMPUTE, state)


class StuckProfiling:
    """Finds an SM-active that stays 0 although a kernel runs all the time and the card draws much of its power."""

    def __init__(self) -> None:
        self._since_s: float | None = None

    def check(self, telling: Telling, limit_watts: float | None, now_s: float) -> None:
        """Make it missing as SUSPECT; without a known limit the power is not looked at."""
        values = telling.values
        if values.get(GPU_SM_ACTIVE) != 0 or not _is_at_work(values.get(GPU_BUSY), values.get(GPU_POWER), limit_watts):
            self._since_s = None
            return
        if self._since_s is None:
            self._since_s = now_s
        if now_s - self._since_s >= _STUCK_SECONDS:
            telling.tell(GPU_SM_ACTIVE, FieldState.SUSPECT)


def _is_at_work(busy: float | None, power_watts: float | None, limit_watts: float | None) -> bool:
    if busy is None or not _BUSY_RATIO <= busy <= 1:
        return False
    return not limit_watts or (power_watts is not None and power_watts >= _HIGH_POWER * limit_watts)


def tell_from_instances(
    telling: Telling, instances: Iterable[tuple[MigInstance, Said | DeviceReading]], sm_count: int | None
) -> None:
    """What a card in MIG mode cannot say of itself: the mean over its instances, each with the weight of its SMs.

    It comes from where their values come from: `dcgm_engine+nvml` where those are two. SMs that no instance has are
    idle. Where one of the instances does not tell, the card cannot either, unless it has said so itself; where there
    are none, or the SMs of the card are not known, nothing changes.
    """
    told = list(instances)
    if not told or not sm_count:
        return
    for series, of_instance in ((GPU_BUSY, GPU_GR_ACTIVE), (GPU_COMPUTE, GPU_COMPUTE)):
        ratios = [_told(said, of_instance) for _, said in told]
        missing = next((ratio for ratio in ratios if isinstance(ratio, FieldState)), None)
        if missing is not None:
            if telling.values.get(series) is None:
                telling.tell(series, missing)
            continue
        weighed = [instance.sm_count * ratio for (instance, _), ratio in zip(told, ratios, strict=True)]
        sources = "+".join(sorted({_source(said, of_instance) for _, said in told}))
        telling.tell(series, min(1.0, sum(weighed) / sm_count), basis=Basis(sources, _INSTANCES))


def _source(told: Telling | Said | DeviceReading, series: Series) -> str:
    """Where a value comes from: one that can be had in one way only has no basis, and is NVML's."""
    return told.bases[series].source if series in told.bases else NVML


def _told(said: Said | DeviceReading, series: Series) -> Any:
    """A ratio that can be believed, or the reason why there is none."""
    ratio = said.values.get(series)
    if ratio is None:
        return said.missing.get(series, FieldState.UNSUPPORTED)
    return ratio if is_possible(series, ratio) else FieldState.GARBAGE
