"""Is what was billed what was true? Every allocation's charges against the simulated world, to the byte-second.

The truth side is the customers' own record of what they held and the simulator's of what their workloads did; it
shares no code with the meter.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from allocator.bodies import AllocationBody, GrantBody
from collector.simulation.fleet import Fleet
from collector.simulation.history_plan import PlannedGrant
from collector.simulation.truth import Span, truth
from collector.simulation.world import World
from domain.errors import InputError
from domain.grants import GrantKind
from domain.period import ceil_second
from meter.rating.charges import Charge


@dataclass(frozen=True, slots=True)
class HeldGrant:
    """What a customer knows it held: `span` in whole seconds, its size in the device's own integers."""

    allocation: str
    tenant: str
    span: Span
    compute_units: int
    vram_bytes: int


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A quantity of one allocation that was billed otherwise than it was."""

    allocation: str
    quantity: str
    billed: int
    true: int

    def __str__(self) -> str:
        return f"{self.allocation}: {self.quantity} billed {self.billed:,}, true {self.true:,}"


@dataclass(frozen=True, slots=True)
class Proof:
    """`holes` are seconds of granted cards that nobody sampled; they are left out of the truth, and shown."""

    allocations: int
    granted_seconds: int
    holes: int
    mismatches: tuple[Mismatch, ...]


def prove(
    grants: Iterable[HeldGrant],
    worlds: Mapping[str, tuple[World, int]],
    charges: Sequence[Charge],
    unsampled: Mapping[tuple[str, str | None], frozenset[int]],
) -> Proof:
    """Compare, allocation by allocation.

    `worlds` gives each allocation its world and the step of its samples in seconds; of one that ran in none, only
    the seconds it was granted are known. `unsampled` gives each device the seconds of which nothing was told, not even
    that it was lost.
    """
    true: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    holes = 0
    for grant in grants:
        span = grant.span
        missing = unsampled.get((span.gpu_uuid, span.mig_uuid), frozenset())
        if grant.allocation not in worlds:
            true[grant.allocation]["granted seconds"] += span.end_s - span.start_s
            holes += sum(span.start_s <= second_s < span.end_s for second_s in missing)
            continue
        world, step_s = worlds[grant.allocation]
        found = truth(world, span, step_s, grant.vram_bytes, missing)
        seconds = span.end_s - span.start_s
        of_grant = true[grant.allocation]
        of_grant["granted seconds"] += seconds
        of_grant["measured seconds"] += found.covered_seconds
        of_grant["seconds lost with the card"] += found.lost_seconds
        of_grant["compute-unit-seconds"] += grant.compute_units * (seconds - found.lost_seconds)
        of_grant["VRAM byte-seconds"] += grant.vram_bytes * (seconds - found.lost_seconds) + found.overuse_byte_seconds
        holes += found.hole_seconds
    billed = _billed(charges)
    mismatches = [
        Mismatch(allocation, quantity, billed.get(allocation, {}).get(quantity, 0), value)
        for allocation, quantities in sorted(true.items())
        for quantity, value in quantities.items()
        if billed.get(allocation, {}).get(quantity, 0) != value
    ]
    strangers = sorted(set(billed).difference(true))
    mismatches += [Mismatch(name, "granted seconds", billed[name]["granted seconds"], 0) for name in strangers]
    granted = sum(each["granted seconds"] for each in true.values())
    return Proof(len(true), granted, holes, tuple(mismatches))


def _billed(charges: Sequence[Charge]) -> dict[str, dict[str, int]]:
    billed: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for charge in charges:
        of_allocation = billed[charge.allocation]
        if charge.dimension == "gpu":
            of_allocation["granted seconds"] += charge.granted_seconds
            of_allocation["measured seconds"] += charge.measured_seconds
            of_allocation["seconds lost with the card"] += charge.free_seconds
            of_allocation["compute-unit-seconds"] += charge.quantity
        elif charge.dimension == "vram":
            of_allocation["VRAM byte-seconds"] += charge.quantity
    return billed


def held_by_service(allocation: AllocationBody, grant: GrantBody) -> HeldGrant:
    """What a customer knows of a grant that it was given and has given back."""
    name = allocation.allocation
    if grant.gpu_uuid is None or grant.end_us is None:
        raise InputError(f"cannot prove {name!r}: its grant has no device or no end; release it first")
    owner = name if grant.kind is GrantKind.SHARE else None
    span = Span(grant.gpu_uuid, grant.mig_uuid, owner, ceil_second(grant.start_us), ceil_second(grant.end_us))
    return HeldGrant(name, allocation.tenant, span, grant.compute_units, grant.vram_bytes)


def held_in_plan(planned: PlannedGrant, fleet: Fleet) -> HeldGrant:
    """What a customer of the past knows of a grant."""
    tenancy = planned.tenancy
    instances = {each.uuid: each for each in fleet.cards[tenancy.gpu_uuid].device.instances}
    units = instances[tenancy.mig_uuid].sm_count if tenancy.mig_uuid else planned.milli_gpu
    return HeldGrant(tenancy.allocation, planned.tenant, planned.span, units, tenancy.vram_limit_bytes)
