"""Whose what a card and its MIG instances do in a second is: who the driver lists, and whose those processes are."""

from typing import Any, NamedTuple

from collector.nvml.compute_instances import ComputeInstances
from collector.nvml.driver import Driver
from collector.nvml.probe import Probe
from collector.nvml.process_use import ProcessUse
from collector.nvml.processes import ListedProcess, ProcessLists
from collector.owners.device_owners import DeviceOwners, compute_by_samples, compute_by_sms
from collector.owners.processes import Looked, Processes, ProcessTable
from collector.owners.split import Claim
from domain.clock import Clock
from domain.inventory import Device
from domain.samples import UNATTRIBUTED, DeviceReading, FieldState
from domain.series import GPU_MEMORY_USED, GPU_UP

_NOBODY = Looked({}, set(), set())


class OwnedProcess(NamedTuple):
    """A process as it was last seen on a card, for people: `sm_percent` is what the driver sampled, not scaled."""

    pid: int
    owner: str | None
    gi_id: int | None
    used_bytes: int | None
    sm_percent: int | None


class CardOwners:
    """The owners of one card, from second to second. Made anew where its handle or its MIG mode changes."""

    def __init__(self, driver: Driver, handle: Any, clock: Clock, table: ProcessTable, *, is_mig: bool) -> None:
        self._table = table
        self._is_mig = is_mig
        self._lists = ProcessLists(driver, handle, table.has)
        self._use = ProcessUse(Probe(driver, handle, clock))
        self._processes = Processes(table)
        self._compute_instances = ComputeInstances(driver, handle)
        self._device: Device | None = None
        self._devices: dict[str | None, DeviceOwners] = {}
        self._listed: list[ListedProcess] | FieldState = FieldState.NOT_READY
        self._percents: dict[int, int] | FieldState = FieldState.NOT_READY
        self._looked = _NOBODY

    def list_processes(self) -> None:
        """Ask who is on the card; to be called before its memory is read.

        What is allocated in between is nobody's then, not more than there is. Raises CardLostError, DriverGoneError.
        """
        unavailable = FieldState.ATTRIBUTION_UNAVAILABLE
        self._listed = self._lists.read() if self._table.can_tell_owners else unavailable

    def split(self, device: Device, readings: list[DeviceReading]) -> list[DeviceReading]:
        """The readings of one second with their owners: the card's, or where MIG is on each instance's.

        `readings` are those of `Source.read`; one of a lost device stays as it is. Raises as `list_processes`.
        """
        if device is not self._device:
            self._device = device
            self._compute_instances.forget()
        gi_ids: dict[str | None, int | None] = {instance.uuid: instance.gi_id for instance in device.instances}
        if any(self._is_overclaimed(each, gi_ids.get(each.mig_uuid)) for each in readings):
            # Memory was freed after it was listed.
            self.list_processes()
        self._percents = FieldState.UNSUPPORTED if self._is_mig else self._use.read()
        self._looked = self._look()
        return [self._split_one(each, gi_ids.get(each.mig_uuid)) for each in readings]

    @property
    def unproved(self) -> int:
        """How many processes were on the card in the last second of which no owner is proved."""
        return len({each.pid for each in self._on_card()} - self._looked.owners.keys())

    @property
    def refused_samples(self) -> int:
        """How many samples of processes were garbage, so far."""
        return self._use.refused

    def processes(self) -> list[OwnedProcess]:
        """Who was on the card in the last second."""
        percents = {} if isinstance(self._percents, FieldState) else self._percents
        owners = self._looked.owners
        return [
            OwnedProcess(each.pid, owners.get(each.pid), each.gi_id, each.used_bytes, percents.get(each.pid))
            for each in self._on_card()
        ]

    def _on_card(self) -> list[ListedProcess]:
        return [] if isinstance(self._listed, FieldState) else self._listed

    def _is_told(self, reading: DeviceReading) -> bool:
        """Whether owners are told of this device: it is there, and not a card whose instances have them."""
        return reading.values.get(GPU_UP) != 0 and (reading.mig_uuid is None) != self._is_mig

    def _claims(self, gi_id: int | None) -> list[Claim]:
        return [
            Claim(each.pid, each.used_bytes, each.ci_id)
            for each in self._on_card()
            if not self._is_mig or each.gi_id == gi_id
        ]

    def _is_overclaimed(self, reading: DeviceReading, gi_id: int | None) -> bool:
        used_bytes = reading.values.get(GPU_MEMORY_USED)
        if used_bytes is None or not self._is_told(reading):
            return False
        return sum(claim.used_bytes or 0 for claim in self._claims(gi_id)) > used_bytes

    def _look(self) -> Looked:
        """Whose the listed and the sampled processes are.

        A sampled one that is on no list may have ended in this second. If nothing is known of it, its sample is old.
        """
        if isinstance(self._listed, FieldState):
            return _NOBODY
        listed = {each.pid for each in self._listed}
        sampled = set() if isinstance(self._percents, FieldState) else self._percents.keys() - listed
        looked = self._processes.look(listed | sampled)
        # The next second's may be the new one's only.
        self._use.forget(looked.replaced)
        if not isinstance(self._percents, FieldState):
            there = listed | looked.seen | looked.owners.keys()
            self._percents = {pid: percent for pid, percent in self._percents.items() if pid in there}
        if not self._table.judge(lists_any=bool(listed), sees_any=not listed.isdisjoint(looked.seen)):
            self._listed = FieldState.ATTRIBUTION_UNAVAILABLE
        return looked

    def _split_one(self, reading: DeviceReading, gi_id: int | None) -> DeviceReading:
        if not self._is_told(reading):
            return reading
        owners_of = self._devices.setdefault(reading.mig_uuid, DeviceOwners())
        if isinstance(self._listed, FieldState):
            return owners_of.unknown(reading, self._listed)
        claims, owners = self._claims(gi_id), self._looked.owners
        if not self._lists.tells_mps_clients:
            # A server of MPS, which is nobody's, works for whom nobody sees.
            owners = {pid: owner for pid, owner in owners.items() if owner != UNATTRIBUTED}
        if gi_id is None:
            # Of a PID that has changed hands a sample does not say whose it is.
            sampled = {pid: owner for pid, owner in owners.items() if pid not in self._looked.replaced}
            compute = compute_by_samples(reading, claims, sampled, self._percents)
        else:
            ci_ids = {claim.ci_id for claim in claims if claim.ci_id is not None}
            compute = compute_by_sms(reading, claims, owners, lambda: self._compute_instances.sms(gi_id, ci_ids))
        return owners_of.told(reading, claims, owners, compute)
