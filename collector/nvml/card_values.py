"""What one card, or one MIG instance, says of itself in a second: milliwatts, megahertz and percent become base units.

Memory is asked for by its second version, whose `used` is without what the driver reserves (the first version's is
not: 912 MB on an idle A100).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from collector.nvml.driver import MEMORY_VERSION_2, Driver
from domain.samples import Basis, FieldState
from domain.series import (
    GPU_BUSY,
    GPU_ENERGY,
    GPU_MEMORY_CLOCK,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_SM_CLOCK,
    GPU_TEMPERATURE,
    Series,
)

_MEGAHERTZ = 1_000_000
_CLOCK_SM, _CLOCK_MEMORY = 1, 2
_SENSOR_CORE = 0


class Said(NamedTuple):
    """What a device said in one second, as in `DeviceReading`; `values` lacks what it cannot tell."""

    values: Mapping[Series, int | float | None]
    parts: Mapping[Series, Mapping[str, int | float]]
    missing: Mapping[Series, FieldState]
    bases: Mapping[Series, Basis]


class CardValues:
    """One card, asked once a second. Made anew where its handle or its MIG mode changes."""

    def __init__(self, driver: Driver, handle: Any, *, is_mig: bool) -> None:
        self._driver = driver
        self._handle = handle
        self._is_mig = is_mig

    def read(self) -> Said:
        """What the card says now. Raises CardLostError, DriverGoneError."""
        values: dict[Series, int | float | None] = {}
        missing: dict[Series, FieldState] = {}

        def tell(series: Series, answer: Any, per_unit: float = 1) -> None:
            if isinstance(answer, FieldState):
                values[series], missing[series] = None, answer
            else:
                values[series] = answer / per_unit if per_unit != 1 else answer

        ask, handle = self._driver.answer, self._handle
        _tell_memory(tell, ask("DeviceGetMemoryInfo", handle, version=MEMORY_VERSION_2))
        rates = ask("DeviceGetUtilizationRates", handle)
        # Some drivers say 0 % of a card in MIG mode at 438 W: there the rate does not exist.
        busy = FieldState.UNSUPPORTED if self._is_mig else rates if isinstance(rates, FieldState) else rates.gpu
        tell(GPU_BUSY, busy, 100)
        tell(GPU_POWER, ask("DeviceGetPowerUsage", handle), 1_000)
        tell(GPU_ENERGY, ask("DeviceGetTotalEnergyConsumption", handle), 1_000)
        tell(GPU_TEMPERATURE, ask("DeviceGetTemperature", handle, _SENSOR_CORE))
        tell(GPU_SM_CLOCK, ask("DeviceGetClockInfo", handle, _CLOCK_SM), 1 / _MEGAHERTZ)
        tell(GPU_MEMORY_CLOCK, ask("DeviceGetClockInfo", handle, _CLOCK_MEMORY), 1 / _MEGAHERTZ)
        return Said(values, {}, missing, {})


class InstanceValues:
    """One MIG instance, asked once a second."""

    def __init__(self, driver: Driver, handle: Any) -> None:
        self._driver = driver
        self._handle = handle

    def read(self) -> Said:
        """What the instance says now. Raises CardLostError, DriverGoneError."""
        values: dict[Series, int | float | None] = {}
        missing: dict[Series, FieldState] = {}

        def tell(series: Series, answer: Any) -> None:
            values[series] = None if isinstance(answer, FieldState) else answer
            if isinstance(answer, FieldState):
                missing[series] = answer

        _tell_memory(tell, self._driver.answer("DeviceGetMemoryInfo", self._handle, version=MEMORY_VERSION_2))
        return Said(values, {}, missing, {})


def _tell_memory(tell: Any, memory: Any) -> None:
    is_missing = isinstance(memory, FieldState)
    tell(GPU_MEMORY_TOTAL, memory if is_missing else memory.total)
    tell(GPU_MEMORY_RESERVED, memory if is_missing else memory.reserved)
    tell(GPU_MEMORY_USED, memory if is_missing else memory.used)
