"""The ground truth: what every simulated card does in every second, as a pure function.

Readings, history and the truth that bills are compared with all come from here, so that what was billed can be
held against what happened. Nothing here looks at a clock or keeps state: the same world gives the same reading
of the same second, in any order, however often.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from collector.simulated_fleet import Fleet, SimulatedCard, stable_number
from collector.workloads import PATTERNS, Pattern, Workload
from domain.errors import InputError
from domain.inventory import MigInstance
from domain.samples import UNATTRIBUTED, DeviceReading, OwnerUse, allocation_owner
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
    GPU_UP,
    Series,
)
from domain.units import MIB

# Drivers hand out VRAM in pages of this size.
_PAGE_BYTES = 2 * MIB
# Programs fail before the last page is theirs.
_ROOM_MILLI = 985
_WARMTH_SECONDS = 60
_MEGAHERTZ = 1_000_000
_MICRO = 1_000_000
_NANO = 1_000_000_000
# A driver keeps this much in each MIG instance, by memory slices (`nvidia-smi`, H100, driver 590.48).
_INSTANCE_CONTEXT_MIB = {1: 9, 2: 17, 4: 26, 8: 59}
_FOREVER_S = 2**62


@dataclass(frozen=True, slots=True)
class Tenancy:
    """A workload on one card or MIG instance over the whole seconds [start_s, end_s).

    `end_s` is None while the end is not known; what happens before the end does not depend on it. A workload uses
    compute in proportion to its share of the memory: `vram_limit_bytes` of the device's usable bytes.
    """

    allocation: str
    gpu_uuid: str
    mig_uuid: str | None
    workload: Workload
    start_s: int
    end_s: int | None
    vram_limit_bytes: int


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


class Use(NamedTuple):
    """One owner's part of a slot in one second: bytes, and busy time in millionths of the slot."""

    memory_bytes: int
    busy_micro: int


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
        self._slots: dict[str, list[_Slot]] = {
            uuid: [
                _Slot(fleet.seed, card, instance, held.pop((uuid, instance.uuid if instance else None), ()))
                for instance in card.slots
            ]
            for uuid, card in fleet.cards.items()
        }
        if held:
            raise InputError(f"cannot simulate a tenancy on {next(iter(held))!r}: the fleet has no such device")
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
            values[GPU_BUSY] = sum(use.busy_micro for use in uses[0].values()) / _MICRO
            return [DeviceReading(gpu_uuid, None, values, _owner_uses(uses[0], tells_compute=True))]
        instances = [
            DeviceReading(gpu_uuid, slot.mig_uuid, slot.memory_values(owners), _owner_uses(owners, tells_compute=False))
            for slot, owners in zip(card_slots, uses, strict=True)
        ]
        return [DeviceReading(gpu_uuid, None, values, {}), *instances]

    def used_bytes(self, gpu_uuid: str, mig_uuid: str | None, allocation: str | None, second_s: int) -> int:
        """Used VRAM of a slot, or of one allocation on it, in a second in which the card is not lost.

        Raises InputError where the fleet has no such slot.
        """
        slot = next((slot for slot in self._slots.get(gpu_uuid, ()) if slot.mig_uuid == mig_uuid), None)
        if slot is None:
            raise InputError(f"cannot tell the use of {gpu_uuid!r} {mig_uuid!r}: the fleet has no such device")
        uses = slot.uses(second_s)
        if allocation is None:
            return sum(use.memory_bytes for use in uses.values())
        use = uses.get(allocation_owner(allocation))
        return use.memory_bytes if use is not None else 0

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


def _owner_uses(uses: Mapping[str, Use], *, tells_compute: bool) -> dict[str, OwnerUse]:
    return {
        owner: OwnerUse(use.memory_bytes, use.busy_micro / _MICRO if tells_compute else None)
        for owner, use in uses.items()
    }


class _Running(NamedTuple):
    """A tenancy as its slot sees it."""

    owner: str
    pattern: Pattern
    phase_s: int
    start_s: int
    limit_bytes: int
    share_milli: int

    def busy_micro_seconds(self, second_s: int) -> int:
        return self.share_milli * self.pattern.busy_milli_seconds(second_s - self.start_s, self.phase_s)


class _Era(NamedTuple):
    """A stretch in which the same tenancies run; `busy_before` completes their busy time to that of the slot."""

    running: tuple[_Running, ...]
    busy_before: int


class _Slot:
    """What one tenant can hold: a card, or a MIG instance; or what several share."""

    def __init__(
        self, seed: int, card: SimulatedCard, instance: MigInstance | None, tenancies: Sequence[Tenancy]
    ) -> None:
        self.mig_uuid = instance.uuid if instance else None
        self._total_bytes = instance.vram_bytes if instance else card.device.vram_total_bytes
        self._usable_bytes = instance.vram_bytes if instance else card.usable_bytes
        if instance:
            self._context_bytes = _INSTANCE_CONTEXT_MIB[instance.slices] * MIB
            self._sm_milli = instance.sm_count * 1_000 // (card.device.sm_count or instance.sm_count)
        else:
            self._context_bytes = _PAGE_BYTES * (1 + stable_number(seed, "context", card.device.uuid) % 4)
            self._sm_milli = 1_000
        ordered = sorted(tenancies, key=lambda each: (each.start_s, each.allocation))
        running = [self._running(seed, each) for each in ordered]
        ends_s = [_FOREVER_S if each.end_s is None else each.end_s for each in ordered]
        self._era_starts_s = sorted({0, *(each.start_s for each in ordered), *ends_s})
        self._eras = [self._era(list(zip(running, ends_s, strict=True)), start_s) for start_s in self._era_starts_s]

    def uses(self, second_s: int) -> dict[str, Use]:
        """Memory and busy time by owner; `unattributed` is the driver's own."""
        room_bytes = self._usable_bytes * _ROOM_MILLI // 1_000 - self._context_bytes
        era = self._era_at(second_s)
        demands = [each.pattern.demand(second_s - each.start_s, each.phase_s) for each in era.running]
        wanted = [
            each.limit_bytes * demand.memory_milli // 1_000 for each, demand in zip(era.running, demands, strict=True)
        ]
        given: list[int] = []
        for each, bytes_wanted in zip(era.running, wanted, strict=True):
            given.append(min(bytes_wanted, each.limit_bytes, room_bytes))
            room_bytes -= given[-1]
        # What a tenant wants beyond its own it takes from what all the others leave.
        for index, bytes_wanted in enumerate(wanted):
            more = min(bytes_wanted - given[index], room_bytes)
            given[index] += more
            room_bytes -= more
        uses = {
            each.owner: Use(bytes_given // _PAGE_BYTES * _PAGE_BYTES, each.share_milli * demand.busy_milli)
            for each, demand, bytes_given in zip(era.running, demands, given, strict=True)
        }
        uses[UNATTRIBUTED] = Use(self._context_bytes, 0)
        return uses

    def memory_values(self, uses: Mapping[str, Use]) -> dict[Series, int | float | None]:
        """What a driver tells of a MIG instance: its memory, and nothing of how busy it is."""
        return {
            GPU_UP: 1,
            GPU_BUSY: None,
            GPU_MEMORY_TOTAL: self._total_bytes,
            GPU_MEMORY_RESERVED: self._total_bytes - self._usable_bytes,
            GPU_MEMORY_USED: sum(use.memory_bytes for use in uses.values()),
        }

    def busy_micro_seconds(self, second_s: int) -> int:
        """Busy time of the card's SMs by this slot before the instant `second_s`, in millionths of a second."""
        era = self._era_at(second_s)
        busy = era.busy_before + sum(each.busy_micro_seconds(second_s) for each in era.running)
        return busy * self._sm_milli // 1_000

    def _era_at(self, second_s: int) -> _Era:
        return self._eras[bisect_right(self._era_starts_s, second_s) - 1]

    def _running(self, seed: int, tenancy: Tenancy) -> _Running:
        phase_s = stable_number(seed, "phase", tenancy.allocation, tenancy.gpu_uuid, tenancy.mig_uuid) % 600
        return _Running(
            owner=allocation_owner(tenancy.allocation),
            pattern=PATTERNS[tenancy.workload],
            phase_s=phase_s,
            start_s=tenancy.start_s,
            limit_bytes=tenancy.vram_limit_bytes,
            share_milli=min(1_000, tenancy.vram_limit_bytes * 1_000 // self._usable_bytes),
        )

    def _era(self, tenancies: Sequence[tuple[_Running, int]], start_s: int) -> _Era:
        running = tuple(each for each, end_s in tenancies if each.start_s <= start_s < end_s)
        held_bytes = sum(each.limit_bytes for each in running)
        if held_bytes > self._usable_bytes:
            raise InputError(
                f"cannot simulate {', '.join(each.owner for each in running)!r} together: they hold "
                f"{held_bytes} bytes of {self._usable_bytes}"
            )
        busy = sum(each.busy_micro_seconds(min(start_s, end_s)) for each, end_s in tenancies if each.start_s < start_s)
        return _Era(running, busy - sum(each.busy_micro_seconds(start_s) for each in running))
