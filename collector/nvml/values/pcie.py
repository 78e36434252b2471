"""The bytes that went over PCIe, by whichever of the driver's ways the card or MIG instance has.

Never by nvmlDeviceGetPcieThroughput, which counts for 20 ms in each direction before it answers.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from collector.nvml.values import fields, gpm
from collector.nvml.values.counters import ByteCounter
from collector.nvml.values.fields import Field, Told
from collector.nvml.values.gpm import Metrics
from collector.telling import Telling
from domain.samples import Basis, FieldState
from domain.series import GPU_PCIE_RECEIVED, GPU_PCIE_TRANSMITTED, Series
from domain.units import MIB

FIELDS: tuple[Field, ...] = (fields.PCIE_TRANSMITTED_BYTES, fields.PCIE_RECEIVED_BYTES)
_GPM, _GPM_RATE = Basis("nvml", "gpm"), Basis("nvml", "gpm_rate")
_COUNTER, _AT_LEAST = Basis("nvml", "counter"), Basis("nvml", "at_least")


class _Ways(NamedTuple):
    """How to learn of one direction: a metric that counts, a field that counts, a metric that is a rate."""

    bytes_metric: int
    field: Field
    rate_metric: int


_WAYS = {
    GPU_PCIE_TRANSMITTED: _Ways(gpm.PCIE_TRANSMITTED_BYTES, fields.PCIE_TRANSMITTED_BYTES, gpm.PCIE_TRANSMITTED_RATE),
    GPU_PCIE_RECEIVED: _Ways(gpm.PCIE_RECEIVED_BYTES, fields.PCIE_RECEIVED_BYTES, gpm.PCIE_RECEIVED_RATE),
}


class Pcie:
    """The traffic of one device. What it does not count in 64 bits is added up from when it was first asked."""

    def __init__(self, add: Callable[[Series, int | float], int | float]) -> None:
        """`add` is what outlives it: the total of a series with what is added."""
        self._add = add
        self._counted: Mapping[Series, ByteCounter] = {series: ByteCounter() for series in _WAYS}

    def tell(self, telling: Telling, told: Told, metrics: Metrics, window_s: float) -> None:
        """Both directions: the first way that the device supports, whether it works in this second or not.

        `told` has `FIELDS` where they were asked for: of an instance there are none.
        """
        for series, ways in _WAYS.items():
            count, field = metrics[ways.bytes_metric], told.get(ways.field, FieldState.UNSUPPORTED)
            rate = metrics[ways.rate_metric]
            bytes_ = rate if isinstance(rate, FieldState) else rate * MIB * window_s
            if count is not FieldState.UNSUPPORTED:
                telling.tell(series, count if isinstance(count, FieldState) else int(count), basis=_GPM)
            elif field is not FieldState.UNSUPPORTED:
                self._tell_field(telling, series, field, None if isinstance(bytes_, FieldState) else bytes_)
            elif isinstance(bytes_, FieldState):
                telling.tell(series, bytes_)
            else:
                telling.tell(series, int(self._add(series, bytes_)), basis=_GPM_RATE)

    def _tell_field(self, telling: Telling, series: Series, field: Any, about_bytes: float | None) -> None:
        if isinstance(field, FieldState):
            telling.tell(series, field)
            return
        counter = self._counted[series]
        step_bytes = counter.step_bytes(field, about_bytes)
        if step_bytes is None:
            telling.tell(series, FieldState.GARBAGE)
            return
        is_exact = counter.is_wide or about_bytes is not None
        telling.tell(series, self._add(series, step_bytes), basis=_COUNTER if is_exact else _AT_LEAST)
