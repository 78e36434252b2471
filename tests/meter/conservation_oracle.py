"""What each second of a card must come to, counted one second and one placement at a time.

It shares no code with what it checks: which instances fit is found by trying every placement of the vendor's published
tables, written out here anew, and a second is in an interval when its instant is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from domain.clock import MICROSECONDS
from domain.grants import Grant
from domain.period import Period
from domain.units import MIB
from meter.conservation.fleet import Fleet
from store.capacity import DevicePeriod, Hold, MigPeriod
from tests.meter.capacity import STATES


@dataclass(frozen=True)
class Profile:
    """A row of `nvidia-smi mig -lgip` with its starts by `-lgipp`."""

    name: str
    starts: tuple[int, ...]
    slices: int
    sms: int
    mib: int


# Model and MiB of a card -> its profiles. Of "+me" a card has one at a time.
TABLES: dict[tuple[str, int], tuple[Profile, ...]] = {
    ("NVIDIA A100-SXM4-80GB", 81_920): (
        Profile("1g.10gb", (0, 1, 2, 3, 4, 5, 6), 1, 14, 9_856),
        Profile("1g.10gb+me", (0, 1, 2, 3, 4, 5, 6), 1, 14, 9_856),
        Profile("1g.20gb", (0, 2, 4, 6), 2, 14, 19_968),
        Profile("2g.20gb", (0, 2, 4), 2, 28, 19_968),
        Profile("3g.40gb", (0, 4), 4, 42, 40_192),
        Profile("4g.40gb", (0,), 4, 56, 40_192),
        Profile("7g.80gb", (0,), 8, 98, 80_384),
    ),
    ("NVIDIA H100 80GB HBM3", 81_559): (
        Profile("1g.10gb", (0, 1, 2, 3, 4, 5, 6), 1, 16, 9_984),
        Profile("1g.10gb+me", (0, 1, 2, 3, 4, 5, 6), 1, 16, 9_984),
        Profile("1g.20gb", (0, 2, 4, 6), 2, 26, 20_096),
        Profile("2g.20gb", (0, 2, 4), 2, 32, 20_096),
        Profile("3g.40gb", (0, 4), 4, 60, 40_448),
        Profile("4g.40gb", (0,), 4, 64, 40_448),
        Profile("7g.80gb", (0,), 8, 132, 81_152),
    ),
    ("NVIDIA A30", 24_576): (
        Profile("1g.6gb", (0, 1, 2, 3), 1, 14, 5_836),
        Profile("1g.6gb+me", (0, 1, 2, 3), 1, 14, 5_836),
        Profile("2g.12gb", (0, 2), 2, 28, 11_672),
        Profile("2g.12gb+me", (0, 2), 2, 28, 11_672),
        Profile("4g.24gb", (0,), 4, 56, 23_344),
    ),
}
FULL_SMS = {"NVIDIA A100-SXM4-80GB": 98, "NVIDIA H100 80GB HBM3": 132, "NVIDIA A30": 56}

Placed = tuple[Profile, int]
# State -> (compute units, bytes); "residual" is among them.
Second = dict[str, tuple[int, int]]


def fits(new: Placed, placed: Sequence[tuple[str, int, int]]) -> bool:
    """Whether an instance can be made beside others, each (profile name, start, slices)."""
    profile, start = new
    for name, other, slices in placed:
        if set(range(start, start + profile.slices)) & set(range(other, other + slices)):
            return False
        if profile.name.endswith("+me") and name.endswith("+me"):
            return False
    return True


def placements(table: Sequence[Profile], placed: Sequence[tuple[str, int, int]]) -> Iterator[Placed]:
    """Every instance that could be made beside what is placed."""
    yield from (each for profile in table for start in profile.starts if fits(each := (profile, start), placed))


def node_seconds(fleet: Fleet, node: str, lost: dict[str, set[int]], seconds: range) -> dict[tuple[str, int], Second]:
    """The seven states and the residual of every card of the node in every second that it is there."""
    return {
        (device.gpu_uuid, second_s): card_second(fleet, device, second_s, lost.get(device.gpu_uuid, set()))
        for second_s in seconds
        for device in fleet.devices
        if device.node == node and _has(device.period, second_s)
    }


def card_second(fleet: Fleet, device: DevicePeriod, second_s: int, lost: set[int]) -> Second:
    """One card in one second."""
    here = [each for each in fleet.instances if each.gpu_uuid == device.gpu_uuid and _has(each.period, second_s)]
    grants = [each for each in fleet.grants if each.gpu_uuid == device.gpu_uuid and _has(each.period, second_s)]
    holds = [each for each in fleet.holds if each.gpu_uuid == device.gpu_uuid and _has(each.period, second_s)]
    takes: list[Grant | Hold] = [*grants, *holds]
    reserved = _reserved_bytes(device, here)
    whole = (device.compute_units, device.vram_total_bytes - reserved)
    real = [_real(device, whole, here, takes, dimension) for dimension in (0, 1)]
    free = [max(0, whole[dimension] - real[dimension]) for dimension in (0, 1)]
    idle = _idle(device, free, here, takes)
    found: Second = dict.fromkeys(STATES, (0, 0))
    found["granted"] = (sum(each.compute_units for each in grants), sum(each.vram_bytes for each in grants))
    found["held"] = (sum(each.compute_units for each in holds), sum(each.vram_bytes for each in holds))
    found["reserved"] = (0, reserved)
    said = [each.state for each in fleet.states if each.gpu_uuid == device.gpu_uuid and _has(each.period, second_s)]
    if second_s in lost:
        found["lost"] = (free[0], free[1])
    elif said in (["draining"], ["failed"]):
        found["drained"] = (free[0], free[1])
    else:
        found["idle"] = (idle[0], idle[1])
        found["stranded"] = (free[0] - idle[0], free[1] - idle[1])
    total = (device.compute_units, device.vram_total_bytes)
    in_states = [sum(found[state][dimension] for state in STATES) for dimension in (0, 1)]
    return {**found, "residual": (total[0] - in_states[0], total[1] - in_states[1])}


def _has(period: Period, second_s: int) -> bool:
    return period.start_us <= second_s * MICROSECONDS < period.end_us


def _size(each: Grant | Hold, dimension: int) -> int:
    return (each.compute_units, each.vram_bytes)[dimension]


def _reserved_bytes(device: DevicePeriod, here: Sequence[MigPeriod]) -> int:
    """The driver's own gives way to an instance that is larger than what it leaves."""
    if not device.mig_enabled:
        return device.vram_reserved_bytes
    return min(device.vram_reserved_bytes, max(0, device.vram_total_bytes - sum(each.vram_bytes for each in here)))


def _is_of_card(device: DevicePeriod, take: Grant | Hold) -> bool:
    return take.mig_uuid is None and (not device.mig_enabled or take.compute_units == device.compute_units)


def _real(
    device: DevicePeriod, whole: tuple[int, int], here: Sequence[MigPeriod], takes: Sequence[Grant | Hold], dim: int
) -> int:
    """What of the takes there is: of an instance no more than it has, of one that is not there nothing."""
    if not device.mig_enabled:
        return min(whole[dim], sum(_size(each, dim) for each in takes if each.mig_uuid is None))
    real = 0
    for instance in here:
        has = (instance.sm_count, instance.vram_bytes)[dim]
        real += min(has, sum(_size(each, dim) for each in takes if each.mig_uuid == instance.mig_uuid))
    if any(_is_of_card(device, each) for each in takes):
        real += min(whole[dim], sum(_size(each, dim) for each in takes if each.mig_uuid is None))
    return real


def _idle(
    device: DevicePeriod, free: Sequence[int], here: Sequence[MigPeriod], takes: Sequence[Grant | Hold]
) -> tuple[int, int]:
    of_card = any(_is_of_card(device, each) for each in takes)
    if device.share_min_milli is not None:
        assert device.share_min_vram_bytes is not None
        one_more = 1_000 * free[0] >= device.share_min_milli * device.compute_units
        return (free[0], free[1]) if one_more and free[1] >= device.share_min_vram_bytes else (0, 0)
    if of_card:
        return 0, 0
    if not device.mig_enabled:
        return free[0], free[1]
    used = {each.mig_uuid for each in takes}
    unused = [each for each in here if each.mig_uuid not in used and each.origin != "foreign"]
    table = TABLES[device.model, device.vram_total_bytes // MIB]
    offered = tuple(profile for profile in table if profile.name in device.offered_profiles)
    most = _most(offered, tuple(sorted((each.profile, each.start_slice, each.slices) for each in here)))
    return (
        min(free[0], most[0] + sum(each.sm_count for each in unused)),
        min(free[1], most[1] + sum(each.vram_bytes for each in unused)),
    )


@cache
def _most(offered: tuple[Profile, ...], placed: tuple[tuple[str, int, int], ...]) -> tuple[int, int]:
    """The most SMs, and apart from them the most bytes, of all sets of instances that could still be made."""
    sms = size = 0
    for chosen in _sets(list(placements(offered, placed)), ()):
        sms = max(sms, sum(profile.sms for profile, _ in chosen))
        size = max(size, sum(profile.mib for profile, _ in chosen) * MIB)
    return sms, size


def _sets(candidates: list[Placed], chosen: tuple[Placed, ...]) -> Iterator[tuple[Placed, ...]]:
    yield chosen
    for number, each in enumerate(candidates):
        placed = [(profile.name, start, profile.slices) for profile, start in chosen]
        if fits(each, placed):
            yield from _sets(candidates[number + 1 :], (*chosen, each))
