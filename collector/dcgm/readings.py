"""What DCGM says of one card or MIG instance in a second, as a reading, whichever of its doors it came through."""

from collections.abc import Collection
from math import isnan

from collector.compute_basis import CARD_CANDIDATES, INSTANCE_CANDIDATES, ComputeBasis, StuckProfiling
from collector.dcgm.device_values import DeviceValues
from collector.dcgm.fields import FIELDS
from collector.telling import Said, Telling
from domain.samples import UNATTRIBUTED, Basis, DeviceReading, FieldState, OwnerUse
from domain.series import GPU_MEMORY_USED, GPU_UP, OWNER_COMPUTE, Series

_NOT_A_NUMBER = float("nan")
_SERIES = tuple(dict.fromkeys(each.series for each in FIELDS if each.series is not None and each.series.part is None))


class DeviceReadings:
    """The readings of one card or MIG instance, second by second: it remembers what must stand for some seconds."""

    def __init__(self, gpu_uuid: str, mig_uuid: str | None, basis: Basis) -> None:
        """`basis` is where its values come from, and what they are."""
        self.gpu_uuid = gpu_uuid
        self.mig_uuid = mig_uuid
        self._basis = basis
        self._compute = ComputeBasis(CARD_CANDIDATES if mig_uuid is None else INSTANCE_CANDIDATES)
        self._stuck = StuckProfiling()
        self._before: Said | None = None

    def reading(
        self, told: DeviceValues, now_s: float, *, garbled: Collection[Series] = (), is_owned: bool = True
    ) -> DeviceReading:
        """One second of the device, `now_s` being its time on a clock that never steps.

        `garbled` are series that have no number, which `ranges` counts. All used memory is nobody's: no name of a pod
        or a job proves whose it is, and nothing says who computed; where `is_owned` is false the instances tell of it.
        """
        telling = Telling()
        for series, exact in told.values.items():
            telling.tell(series, int(exact) if series.whole else float(exact), basis=self._basis)
        for series, parts in told.parts.items():
            whole = series.whole
            telling.parts[series] = {part: int(exact) if whole else float(exact) for part, exact in parts.items()}
            telling.bases[series] = self._basis
        telling.missing.update(told.missing)
        if is_owned:
            telling.missing[OWNER_COMPUTE] = FieldState.UNSUPPORTED
        for series in garbled:
            telling.tell(series, _NOT_A_NUMBER)
        self._stuck.check(telling, None, now_s)
        self._compute.tell(telling, now_s)
        said = self._before = telling.said(self._before)
        return DeviceReading(
            self.gpu_uuid,
            self.mig_uuid,
            {GPU_UP: 1, **dict.fromkeys(_SERIES), **said.values},
            _nobodys(said.values.get(GPU_MEMORY_USED)) if is_owned else {},
            said.parts,
            said.missing,
            said.bases,
        )


def lost(gpu_uuid: str, mig_uuid: str | None) -> DeviceReading:
    """That a card is lost, or one of its instances with it."""
    return DeviceReading(gpu_uuid, mig_uuid, {GPU_UP: 0}, {})


def _nobodys(used_bytes: int | float | None) -> dict[str, OwnerUse]:
    if used_bytes is None or isnan(used_bytes):
        return {}
    return {UNATTRIBUTED: OwnerUse(int(used_bytes), None)}
