"""One card in one opening of the driver: what it and its MIG instances say, second by second."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from collector.nvml.card_owners import CardOwners
from collector.nvml.cards import mig_is_on
from collector.nvml.driver import CardLostError, Driver, DriverError, DriverGoneError
from collector.nvml.known_cards import KnownCard
from collector.nvml.mig import Place, look_at_places, missing_numbers
from collector.nvml.values.card_values import CardValues, InstanceValues
from collector.nvml.values.counters import CardCounters
from collector.owners.processes import ProcessTable
from collector.telling import Said
from domain.clock import Clock
from domain.errors import UnavailableError
from domain.inventory import Device, MigInstance
from domain.samples import DeviceReading
from domain.series import GPU_MEMORY_USED, GPU_UP, Series


class CardChanged(NamedTuple):
    """What a read found to be otherwise than in `card`: instances that are gone, by number, and maybe others."""

    card: KnownCard
    gone: frozenset[int]


class OpenCard:
    """Asked once a second from the card's own thread. Made anew where the card's handle changes."""

    def __init__(
        self,
        driver: Driver,
        card: KnownCard,
        *,
        clock: Clock,
        counters: CardCounters,
        table: ProcessTable,
        changed: Callable[[CardChanged], None],
    ) -> None:
        """`changed` is told in the midst of a read that what is known of the card does not hold any more."""
        self._driver = driver
        self._card = card
        self._clock = clock
        self._counters = counters
        self._table = table
        self._changed = changed
        self._open: _Open | None = None
        self._instances: dict[int, tuple[MigInstance, InstanceValues]] = {}

    @property
    def owners(self) -> CardOwners | None:
        """Who was on the card in the last second; None before the first."""
        return None if self._open is None else self._open.owners

    def is_of(self, card: KnownCard) -> bool:
        """Whether this is that card still: other MIG instances on it do not make it another."""
        return (card.opening, card.address) == (self._card.opening, self._card.address)

    def read(self, card: KnownCard) -> list[DeviceReading]:
        """What the card and its instances say, with owners; `card` is what is known of it now.

        Raises CardLostError, DriverGoneError, UnavailableError where it gives no answer that means anything.
        """
        self._card = card
        device = self._device_of_now(card)
        values, owners = self._take_up(device)
        # Before memory: what is allocated in between is nobody's then, not more than there is.
        owners.list_processes()
        told = [(each, self._instance_values(each).read()) for each in device.instances]
        said = values.read(told, device.sm_count)
        if all(value is None for value in said.values.values()):
            raise UnavailableError(f"cannot read the card {device.uuid!r}: it answers no question; see dmesg")
        # An instance that does not tell even this is mute.
        there = [(each, its) for each, its in told if its.values[GPU_MEMORY_USED] is not None]
        readings = [_reading(device, None, said), *(_reading(device, each, its) for each, its in there)]
        return owners.split(device, readings)

    def close(self) -> None:
        """Let go of what the driver keeps for it, unless that is gone with it. Never while a read is running."""
        instances, self._instances = self._instances, {}
        open_, self._open = self._open, None
        with suppress(CardLostError, DriverGoneError):
            for _, values in instances.values():
                values.close()
            if open_ is not None:
                open_.values.close()

    def _device_of_now(self, card: KnownCard) -> Device:
        """The card with those of the instances known of it that are there in this second."""
        device = card.device
        if not card.places_max:
            return device
        try:
            is_mig = bool(mig_is_on(self._driver, card.handle))
            places = look_at_places(self._driver, card.handle, card.places_max) if is_mig else ()
        except CardLostError:
            raise
        except DriverError:
            # In the midst of a change: its instances are not there, and whether they come back is seen later.
            is_mig, places = device.mig_enabled, ()
        if (is_mig, places) == (device.mig_enabled, card.places):
            return device
        gone = missing_numbers(card.places, places)
        self._changed(CardChanged(card, gone))
        there = tuple(each for each in device.instances if each.gi_id not in gone)
        return replace(device, mig_enabled=is_mig, instances=there if is_mig else ())

    def _take_up(self, device: Device) -> tuple[CardValues, CardOwners]:
        """What reads the card: anew where its MIG mode is another than before, values also where its instances are."""
        is_mig, places, handle = device.mig_enabled, self._card.places, self._card.handle
        open_ = self._open
        if open_ is None or (open_.is_mig, open_.places) != (is_mig, places):
            values = CardValues(self._driver, handle, is_mig=is_mig, clock=self._clock, counters=self._counters)
            if open_ is not None:
                open_.values.close()
            if open_ is not None and open_.is_mig == is_mig:
                owners = open_.owners
            else:
                owners = CardOwners(self._driver, handle, self._clock, self._table, is_mig=is_mig)
            self._open = open_ = _Open(is_mig, places, values, owners)
        self._close_instances(keeping={each.gi_id: each for each in device.instances})
        return open_.values, open_.owners

    def _close_instances(self, keeping: Mapping[int, MigInstance]) -> None:
        for number, (instance, values) in list(self._instances.items()):
            if keeping.get(number) != instance:
                values.close()
                del self._instances[number]

    def _instance_values(self, instance: MigInstance) -> InstanceValues:
        found = self._instances.get(instance.gi_id)
        if found is None:
            handle = self._card.handles[instance.gi_id]
            values = InstanceValues(
                self._driver,
                self._card.handle,
                handle,
                instance.gi_id,
                generation=instance.generation,
                clock=self._clock,
                counters=self._counters,
            )
            found = self._instances[instance.gi_id] = instance, values
        return found[1]


class _Open(NamedTuple):
    """What reads the card, and the MIG mode and devices that it was made for."""

    is_mig: bool
    places: tuple[Place, ...]
    values: CardValues
    owners: CardOwners


def _reading(device: Device, instance: MigInstance | None, said: Said) -> DeviceReading:
    mig_uuid = None if instance is None else instance.uuid
    values: dict[Series, int | float | None] = {GPU_UP: 1, **said.values}
    return DeviceReading(device.uuid, mig_uuid, values, {}, said.parts, said.missing, said.bases)
