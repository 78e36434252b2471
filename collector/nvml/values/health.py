"""What changes seldom and is asked for once a minute: failing memory, and what the driver wants done about a card."""

from collections.abc import Mapping

from collector.nvml.probe import Probe
from collector.nvml.values.fields import (
    RECOVERY_ACTION,
    REMAPPED_CORRECTABLE,
    REMAPPED_FAILURE,
    REMAPPED_PENDING,
    REMAPPED_UNCORRECTABLE,
    Field,
    Told,
)
from collector.telling import Telling
from domain.samples import FieldState
from domain.series import (
    GPU_ECC_CORRECTED,
    GPU_ECC_UNCORRECTED,
    GPU_RECOVERY_ACTION,
    GPU_REMAPPED_ROWS,
    GPU_ROW_REMAP_FAILED,
    GPU_ROW_REMAP_PENDING,
    Series,
)

FIELDS: tuple[Field, ...] = (
    REMAPPED_CORRECTABLE,
    REMAPPED_UNCORRECTABLE,
    REMAPPED_PENDING,
    REMAPPED_FAILURE,
    RECOVERY_ACTION,
)
_MINUTE_SECONDS = 60
# nvml.h: nvmlMemoryErrorType_t, and of nvmlEccCounterType_t the one that a driver's loading leaves as it is.
_ECC = {GPU_ECC_CORRECTED: 0, GPU_ECC_UNCORRECTED: 1}
_AGGREGATE = 1


class Health:
    """The health of one card. Values are told in the second that they are asked in and not again; why some are
    missing is told all the time.
    """

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._due_s = probe.now_s
        self._missing: Mapping[Series, FieldState] = {}

    @property
    def is_due(self) -> bool:
        """Whether it is asked for in this second."""
        return self._probe.now_s >= self._due_s

    def tell(self, telling: Telling, told: Told) -> None:
        """What is due, of `FIELDS` that were asked for. Raises CardLostError, DriverGoneError."""
        self._due_s = self._probe.now_s + _MINUTE_SECONDS
        health = Telling()
        for series, kind in _ECC.items():
            errors = self._probe.ask("DeviceGetTotalEccErrors", kind, _AGGREGATE, of=kind)
            health.tell(series, errors)
        causes = {"correctable": told[REMAPPED_CORRECTABLE], "uncorrectable": told[REMAPPED_UNCORRECTABLE]}
        health.tell_parts(GPU_REMAPPED_ROWS, causes)
        health.tell(GPU_ROW_REMAP_PENDING, told[REMAPPED_PENDING])
        health.tell(GPU_ROW_REMAP_FAILED, told[REMAPPED_FAILURE])
        health.tell(GPU_RECOVERY_ACTION, told[RECOVERY_ACTION])
        telling.values.update(health.values)
        telling.parts.update(health.parts)
        self._missing = health.missing
        telling.missing.update(health.missing)

    def tell_missing(self, telling: Telling) -> None:
        """In any other second: what was missing when it was last asked for."""
        telling.missing.update(self._missing)
