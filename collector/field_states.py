"""Why values are missing and what those that are there mean: said where it changes, and every minute."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from collector.sample_runs import device_labels, one_sample
from domain.samples import Basis, DeviceReading, FieldState, SampleRun
from domain.series import GPU_BASIS_INFO, GPU_FIELD_STATE, Series

_REPEAT_SECONDS = 60
# Twice those that a node has and had: MIG instances come and go.
_PLACES_MAX = 2_048

# The labels that tell one line of those series from another, behind those of the device.
_Said = tuple[tuple[str, str], ...]
_Device = tuple[str, str | None]


class FieldStates:
    """What was last said of each device. What no longer holds is said to be 0, once."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._said: dict[tuple[_Device, Series], tuple[Mapping[Series, Any], frozenset[_Said]]] = {}

    def runs(self, second_s: int, readings: Iterable[DeviceReading]) -> Iterator[SampleRun]:
        """What is to be said in that second. A device without a reading keeps what was said of it."""
        for reading in readings:
            yield from self._changes(second_s, reading, GPU_FIELD_STATE, reading.missing)
            yield from self._changes(second_s, reading, GPU_BASIS_INFO, reading.bases)

    def _changes(
        self, second_s: int, reading: DeviceReading, series: Series, told: Mapping[Series, FieldState | Basis]
    ) -> Iterator[SampleRun]:
        place = (reading.gpu_uuid, reading.mig_uuid), series
        before, said = self._said.get(place, ({}, frozenset()))
        is_due = second_s % _REPEAT_SECONDS == 0
        # Sources hand out the same mapping as long as nothing changes.
        if told is before and not is_due:
            return
        holds = frozenset(_line(field, what) for field, what in told.items())
        labels = device_labels(self._node, reading)
        for line in sorted(holds if is_due else holds - said):
            yield one_sample(series, labels | dict(line), second_s, 1)
        for line in sorted(said - holds):
            yield one_sample(series, labels | dict(line), second_s, 0)
        if place not in self._said and len(self._said) >= _PLACES_MAX:
            # The one that was there before all others; if it is there still, it is said anew.
            del self._said[next(iter(self._said))]
        self._said[place] = told, holds


def _line(field: Series, what: FieldState | Basis) -> _Said:
    if isinstance(what, Basis):
        return ("field", field.name), ("source", what.source), ("basis", what.basis)
    return ("field", field.name), ("state", what)
