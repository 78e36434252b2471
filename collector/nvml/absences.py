"""Readings of devices that cannot be read: lost, let go of, or not found yet. Their last values are not repeated."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from domain.inventory import Device
from domain.samples import DeviceReading, FieldState
from domain.series import GPU_UP, Series


class Absences:
    """Remembers which series each device has had, so that what is missing of one that is away can be said."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str | None], frozenset[Series]] = {}
        self._said: dict[tuple[str, str | None], _Said] = {}

    def remember(self, readings: Iterable[DeviceReading]) -> None:
        """What these devices say now is what they lack when they are away."""
        for reading in readings:
            self._told[reading.gpu_uuid, reading.mig_uuid] = frozenset(reading.values)

    def readings(self, device: Device, state: FieldState) -> list[DeviceReading]:
        """The card and each of its instances, away because of `state`: down where lost, else without a value."""
        up = {GPU_UP: 0} if state is FieldState.LOST else {}
        uuids = (None, *(instance.uuid for instance in device.instances))
        return [
            DeviceReading(device.uuid, each, up, {}, missing=self._missing(device.uuid, each, state)) for each in uuids
        ]

    def _missing(self, gpu_uuid: str, mig_uuid: str | None, state: FieldState) -> Mapping[Series, FieldState]:
        """Why each series is missing; the same object while that does not change."""
        place = gpu_uuid, mig_uuid
        told = self._told.get(place, frozenset())
        said = self._said.get(place)
        if said is None or (said.told, said.state) != (told, state):
            lacks = told - {GPU_UP} if state is FieldState.LOST else told | {GPU_UP}
            said = self._said[place] = _Said(told, state, dict.fromkeys(lacks, state))
        return said.missing


class _Said(NamedTuple):
    told: frozenset[Series]
    state: FieldState
    missing: Mapping[Series, FieldState]
