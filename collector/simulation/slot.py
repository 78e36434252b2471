"""One slot of the simulated fleet: what tenants can hold, and what those on it use of it in each second."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from collector.simulation.fleet import SimulatedCard, stable_number
from collector.simulation.workloads import PATTERNS, Pattern, Workload
from domain.errors import InputError
from domain.inventory import MigInstance
from domain.samples import UNATTRIBUTED, allocation_owner
from domain.series import GPU_BUSY, GPU_MEMORY_RESERVED, GPU_MEMORY_TOTAL, GPU_MEMORY_USED, GPU_UP, Series
from domain.units import MIB

# Drivers hand out VRAM in pages of this size.
_PAGE_BYTES = 2 * MIB
# Programs fail before the last page is theirs.
_ROOM_MILLI = 985
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


class Use(NamedTuple):
    """One owner's part of a slot in one second: bytes, and busy time in millionths of the slot."""

    memory_bytes: int
    busy_micro: int


class Slot:
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

    def used_bytes(self, second_s: int, allocation: str | None) -> int:
        """Memory in use, or that of one allocation, which is 0 while nothing of it runs."""
        uses = self.uses(second_s)
        if allocation is None:
            return sum(use.memory_bytes for use in uses.values())
        use = uses.get(allocation_owner(allocation))
        return use.memory_bytes if use is not None else 0

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

    def _era_at(self, second_s: int) -> "_Era":
        return self._eras[bisect_right(self._era_starts_s, second_s) - 1]

    def _running(self, seed: int, tenancy: Tenancy) -> "_Running":
        phase_s = stable_number(seed, "phase", tenancy.allocation, tenancy.gpu_uuid, tenancy.mig_uuid) % 600
        return _Running(
            owner=allocation_owner(tenancy.allocation),
            pattern=PATTERNS[tenancy.workload],
            phase_s=phase_s,
            start_s=tenancy.start_s,
            limit_bytes=tenancy.vram_limit_bytes,
            share_milli=min(1_000, tenancy.vram_limit_bytes * 1_000 // self._usable_bytes),
        )

    def _era(self, tenancies: Sequence[tuple["_Running", int]], start_s: int) -> "_Era":
        running = tuple(each for each, end_s in tenancies if each.start_s <= start_s < end_s)
        held_bytes = sum(each.limit_bytes for each in running)
        if held_bytes > self._usable_bytes:
            raise InputError(
                f"cannot simulate {', '.join(each.owner for each in running)!r} together: they hold "
                f"{held_bytes} bytes of {self._usable_bytes}; end one before the next begins"
            )
        busy = sum(each.busy_micro_seconds(min(start_s, end_s)) for each, end_s in tenancies if each.start_s < start_s)
        return _Era(running, busy - sum(each.busy_micro_seconds(start_s) for each in running))


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
