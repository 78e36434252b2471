"""The ground truth: what every simulated card does in every second, as a pure function.

Readings, history and the truth that bills are compared with all come from here, so that what was billed can be
held against what happened. Nothing here looks at a clock or keeps state: the same world gives the same reading
of the same second, in any order, however often.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from collector.simulation.fleet import Fleet, SimulatedCard, stable_number
from collector.simulation.slot import Slot, Tenancy, Use
from domain.errors import InputError
from domain.samples import DeviceReading, OwnerUse
from domain.series import (
    GPU_BUSY,
    GPU_ENERGY,
    GPU_MEMORY_CLOCK,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_SM_ACTIVE,
    GPU_SM_CLOCK,
    GPU_TEMPERATURE,
    GPU_UP,
    Series,
)

__all__ = ["Incident", "IncidentKind", "Tenancy", "World"]

_WARMTH_SECONDS = 60
_MEGAHERTZ = 1_000_000
_MICRO = 1_000_000
_NANO = 1_000_000_000


class IncidentKind(StrEnum):
    """What can happen to a card: a lost one has fallen off the bus and says nothing."""

    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that happens to a card over the whole seconds [start_s, end_s)."""

    kind: IncidentKind
    gpu_uuid: str
    start_s: int
    end_s: int


class World:
    """A fleet, who is on it when, and what befalls it, from the second `started_s` on."""

    def __init__(
        self, fleet: Fleet, started_s: int, tenancies: Iterable[Tenancy] = (), incidents: Iterable[Incident] = ()
    ) -> None:
        """Raises InputError for a tenancy on no slot of the fleet, or where tenants hold more than a slot has."""
        self.fleet = fleet
        self.started_s = started_s
        self.tenancies = tuple(tenancies)
        self.incidents = tuple(incidents)
        held: dict[tuple[str, str | None], list[Tenancy]] = defaultdict(list)
        for tenancy in self.tenancies:
            held[tenancy.gpu_uuid, tenancy.mig_uuid].append(tenancy)
        self._slots: dict[str, list[Slot]] = {
            uuid: [
                Slot(fleet.seed, card, instance, held.pop((uuid, instance.uuid if instance else None), ()))
                for instance in card.slots
            ]
            for uuid, card in fleet.cards.items()
        }
        if held:
            raise InputError(
                f"cannot simulate a tenancy on {next(iter(held))!r}: the fleet has no such device; use one of its own"
            )
        self._lost: dict[str, list[Incident]] = defaultdict(list)
        for incident in self.incidents:
            self._lost[incident.gpu_uuid].append(incident)

    def is_lost(self, gpu_uuid: str, second_s: int) -> bool:
        """Whether the card is off the bus in that second."""
        return any(each.start_s <= second_s < each.end_s for each in self._lost.get(gpu_uuid, ()))

    def readings(self, gpu_uuid: str, second_s: int) -> list[DeviceReading]:
        """What the card says in that second, as `Source.read` has it."""
        card = self.fleet.cards[gpu_uuid]
        card_slots = self._slots[gpu_uuid]
        if self.is_lost(gpu_uuid, second_s):
            uuids = [None, *(slot.mig_uuid for slot in card_slots if slot.mig_uuid is not None)]
            return [DeviceReading(gpu_uuid, mig_uuid, {GPU_UP: 0}, {}) for mig_uuid in uuids]
        uses = [slot.uses(second_s) for slot in card_slots]
        used_bytes = sum(use.memory_bytes for owners in uses for use in owners.values())
        values = self._card_values(card, second_s, used_bytes)
        if not card.device.mig_enabled:
            values[GPU_BUSY] = _busy_micro(uses[0]) / _MICRO
            return [DeviceReading(gpu_uuid, None, values, _owner_uses(uses[0], tells_compute=True))]
        instances = [
            DeviceReading(
                gpu_uuid,
                slot.mig_uuid,
                {**slot.memory_values(owners), GPU_SM_ACTIVE: _sm_active_ratio(card, _busy_micro(owners))},
                _owner_uses(owners, tells_compute=False),
            )
            for slot, owners in zip(card_slots, uses, strict=True)
        ]
        return [DeviceReading(gpu_uuid, None, values, {}), *instances]

    def used_bytes(self, gpu_uuid: str, mig_uuid: str | None, allocation: str | None, second_s: int) -> int:
        """Used VRAM of a slot, or of one allocation on it, in a second in which the card is not lost.

        Raises InputError where the fleet has no such slot.
        """
        slot = next((slot for slot in self._slots.get(gpu_uuid, ()) if slot.mig_uuid == mig_uuid), None)
        if slot is None:
            raise InputError(
                f"cannot tell the use of {gpu_uuid!r} {mig_uuid!r}: the fleet has no such device; use one of its own"
            )
        return slot.used_bytes(second_s, allocation)

    def _card_values(self, card: SimulatedCard, second_s: int, used_bytes: int) -> dict[Series, int | float | None]:
        """The card's own values, but for the busy ratio, which a driver does not tell in MIG mode."""
        model, uuid = card.model, card.device.uuid
        busy_micro = self._busy_micro_seconds(uuid, second_s + 1) - self._busy_micro_seconds(uuid, second_s)
        warm_from_s = max(self.started_s, second_s + 1 - _WARMTH_SECONDS)
        warmth = self._busy_micro_seconds(uuid, second_s + 1) - self._busy_micro_seconds(uuid, warm_from_s)
        span_celsius = model.busy_celsius - model.idle_celsius
        return {
            GPU_UP: 1,
            GPU_BUSY: None,
            GPU_SM_ACTIVE: _sm_active_ratio(card, busy_micro),
            GPU_MEMORY_TOTAL: card.device.vram_total_bytes,
            GPU_MEMORY_RESERVED: card.device.vram_reserved_bytes,
            GPU_MEMORY_USED: used_bytes,
            GPU_POWER: round(_energy_nano(model.idle_milliwatts, model.busy_milliwatts, 1, busy_micro) / _NANO, 3),
            GPU_ENERGY: round(self._energy_nanojoules(card, second_s) / _NANO, 3),
            GPU_TEMPERATURE: model.idle_celsius + span_celsius * warmth // (_WARMTH_SECONDS * _MICRO),
            GPU_SM_CLOCK: (model.sm_busy_megahertz if busy_micro else model.sm_idle_megahertz) * _MEGAHERTZ,
            GPU_MEMORY_CLOCK: (model.memory_busy_megahertz if busy_micro else model.memory_idle_megahertz) * _MEGAHERTZ,
        }

    def _energy_nanojoules(self, card: SimulatedCard, second_s: int) -> int:
        """The counter as it stands when the second begins; the driver was loaded some days before the world began."""
        model, uuid = card.model, card.device.uuid
        before_s = stable_number(self.fleet.seed, "driver loaded", uuid) % (20 * 86_400)
        return _energy_nano(
            model.idle_milliwatts,
            model.busy_milliwatts,
            before_s + second_s - self.started_s,
            self._busy_micro_seconds(uuid, second_s),
        )

    def _busy_micro_seconds(self, gpu_uuid: str, second_s: int) -> int:
        """Busy time of the card before the instant `second_s`, in millionths of a second."""
        return sum(slot.busy_micro_seconds(second_s) for slot in self._slots[gpu_uuid])


def _energy_nano(idle_milliwatts: int, busy_milliwatts: int, seconds: int, busy_micro_seconds: int) -> int:
    """Nanojoules of a card that was up for `seconds` and busy for a part of them; of one second, nanowatts."""
    return idle_milliwatts * _MICRO * seconds + (busy_milliwatts - idle_milliwatts) * busy_micro_seconds


def _busy_micro(uses: Mapping[str, Use]) -> int:
    return sum(use.busy_micro for use in uses.values())


def _sm_active_ratio(card: SimulatedCard, busy_micro: int) -> float | None:
    if card.model.sm_active_milli is None:
        return None
    return card.model.sm_active_milli * busy_micro / (1_000 * _MICRO)


def _owner_uses(uses: Mapping[str, Use], *, tells_compute: bool) -> dict[str, OwnerUse]:
    return {
        owner: OwnerUse(use.memory_bytes, use.busy_micro / _MICRO if tells_compute else None)
        for owner, use in uses.items()
    }
