"""Random fleets: cards sold whole, in shares and by MIG instance, that change mode, move, and are taken too often."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from domain.clock import MICROSECONDS as US
from domain.grants import OPEN_END_US, Grant, GrantKind
from domain.period import Period
from domain.units import GIB, MIB
from meter.conservation.fleet import Fleet
from store.capacity import DevicePeriod, DeviceStatePeriod, Hold, MigPeriod
from tests.meter.capacity import make_card
from tests.meter.conservation_oracle import FULL_SMS, TABLES, placements
from tests.meter.facts import Row, make_grant
from tests.meter.hour import HOUR_S, START_US

SPAN_S = 30
NODES = ("n1", "n2")
_offsets = st.one_of(st.integers(0, SPAN_S).map(lambda second: second * US), st.integers(0, SPAN_S * US))
_uses = st.sampled_from(["granted", "held", "free"])


@dataclass
class World:
    """What there was of some cards, and the seconds in which each was lost."""

    devices: list[DevicePeriod] = field(default_factory=list)
    instances: list[MigPeriod] = field(default_factory=list)
    grants: list[Grant] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    states: list[DeviceStatePeriod] = field(default_factory=list)
    lost: dict[str, set[int]] = field(default_factory=dict)

    @property
    def fleet(self) -> Fleet:
        """All of it."""
        return Fleet(self.devices, self.instances, self.holds, self.states, self.grants)

    @property
    def rows(self) -> list[Row]:
        """What a collector said of each card in each second."""
        return [
            ("gpu_up", uuid, "", "", second, float(HOUR_S + second not in lost))
            for uuid, lost in self.lost.items()
            for second in range(SPAN_S)
        ]

    def take(self, uuid: str, mig_uuid: str | None, size: tuple[int, int], period: Period, use: str) -> None:
        """Grant or hold some of a card."""
        if use == "held":
            self.holds.append(Hold(uuid, mig_uuid, *size, period))
        elif use == "granted":
            kind = GrantKind.SHARE if mig_uuid is None else GrantKind.MIG
            how: dict[str, Any] = {"gpu_uuid": uuid, "mig_uuid": mig_uuid, "kind": kind, "node": NODES[0]}
            how |= {"compute_units": size[0], "vram_bytes": size[1]}
            when = {"start_us": period.start_us, "end_us": period.end_us}
            self.grants.append(make_grant(allocation=f"a{len(self.grants)}", **how, **when))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """One to three cards over `SPAN_S` seconds from the hour on."""
    world = World()
    for number in range(draw(st.integers(1, 3))):
        _add_card(draw, world, f"GPU-{number}")
    return world


def _add_card(draw: st.DrawFn, world: World, uuid: str) -> None:
    model, total_mib = draw(st.sampled_from(sorted(TABLES)))
    cuts = sorted(draw(st.lists(_offsets, min_size=1, max_size=3, unique=True)))
    edges = [-10 * US, *cuts, *([OPEN_END_US - START_US] if draw(st.booleans()) else [])]
    for start, end in pairwise(edges):
        if draw(st.integers(0, 9)) == 0:
            continue
        period = Period(START_US + start, START_US + end)
        device = make_card(
            gpu_uuid=uuid,
            node=draw(st.sampled_from([NODES[0], *NODES])),
            model=model,
            vram_total_bytes=total_mib * MIB,
            vram_reserved_bytes=draw(st.sampled_from([0, 479 * MIB, 669 * MIB + 1])),
            period=period,
        )
        how = draw(st.sampled_from(["whole", "shares", "mig", "mig"]))
        if how == "mig":
            _add_mig_device(draw, world, device)
        elif how == "shares":
            grain = draw(st.sampled_from([(100, GIB), (300, 6 * GIB), (1_000, 0)]))
            world.devices.append(replace(device, share_min_milli=grain[0], share_min_vram_bytes=grain[1]))
            quarter = (250, (device.vram_total_bytes - device.vram_reserved_bytes) // 4)
            for _ in range(4):
                _add_lane(draw, world, uuid, None, quarter, period)
        else:
            world.devices.append(device)
            whole = (1_000, device.vram_total_bytes - device.vram_reserved_bytes)
            _add_lane(draw, world, uuid, None, whole, period)
    _add_excess(draw, world, uuid)
    for start, end in pairwise(sorted(draw(st.lists(_offsets, max_size=4, unique=True)))):
        state = draw(st.sampled_from(["ok", "suspect", "draining", "failed"]))
        world.states.append(DeviceStatePeriod(uuid, state, "", Period(START_US + start, START_US + end)))
    world.lost[uuid] = {HOUR_S + each for each in draw(st.sets(st.integers(0, SPAN_S - 1), max_size=8))}


def _add_mig_device(draw: st.DrawFn, world: World, device: DevicePeriod) -> None:
    """In MIG mode, cut into instances once or twice, each time anew; a name may come back."""
    table = TABLES[device.model, device.vram_total_bytes // MIB]
    offered = draw(st.lists(st.sampled_from([profile.name for profile in table]), max_size=4, unique=True))
    mig: dict[str, Any] = {
        "compute_units": FULL_SMS[device.model],
        "mig_enabled": True,
        "offered_profiles": tuple(offered),
    }
    world.devices.append(replace(device, **mig))
    inside = device.period.intersect(Period(START_US, START_US + SPAN_S * US))
    if inside is None:
        return
    middle_us = draw(st.integers(inside.start_us, inside.end_us))
    for era in (Period(inside.start_us, middle_us), Period(middle_us, inside.end_us)):
        placed: list[tuple[str, int, int]] = []
        for number in range(draw(st.integers(0, 4))):
            candidates = list(placements(table, placed))
            if not candidates:
                break
            # The last is the largest: a card that is one instance takes of what the driver keeps.
            profile, start = draw(st.one_of(st.sampled_from(candidates), st.just(candidates[-1])))
            placed.append((profile.name, start, profile.slices))
            # What its hardware reports, which is not always what the table says.
            sms = profile.sms - draw(st.sampled_from([0, 0, 2]))
            origin = draw(st.sampled_from(["ours", "ours", "adopted", "foreign"]))
            mig_uuid = f"MIG-{device.gpu_uuid}-{number}"
            kind = (number, profile.name, start, profile.slices, sms, profile.mib * MIB, origin)
            world.instances.append(MigPeriod(mig_uuid, device.gpu_uuid, *kind, _part(draw, era)))
            _add_lane(draw, world, device.gpu_uuid, mig_uuid, (sms, profile.mib * MIB), world.instances[-1].period)


def _add_lane(
    draw: st.DrawFn, world: World, uuid: str, mig_uuid: str | None, size: tuple[int, int], within: Period
) -> None:
    """Takes end to start, so that one never shares a second with the next."""
    cuts = sorted(START_US + each for each in draw(st.lists(_offsets, max_size=4, unique=True)))
    for start_us, end_us in pairwise(cuts):
        if met := Period(start_us, end_us).intersect(within):
            world.take(uuid, mig_uuid, size, met, draw(_uses))


def _add_excess(draw: st.DrawFn, world: World, uuid: str) -> None:
    """What should never have been granted: twice, too much, on no instance, while there is no card."""
    targets: Sequence[str | None] = [None, "MIG-404", *(each.mig_uuid for each in world.instances)]
    for _ in range(draw(st.sampled_from([0, 1, 2]))):
        cuts = sorted(draw(st.lists(_offsets, min_size=2, max_size=2, unique=True)))
        size = (draw(st.sampled_from([0, 14, 98, 132, 1_000])), draw(st.sampled_from([0, 1, 9_856 * MIB, 90 * GIB])))
        period = Period(START_US + cuts[0], START_US + cuts[1])
        world.take(uuid, draw(st.sampled_from(targets)), size, period, draw(st.sampled_from(["granted", "held"])))


def _part(draw: st.DrawFn, era: Period) -> Period:
    """Mostly all of it."""
    if not era.seconds or draw(st.booleans()):
        return era
    start_us, end_us = sorted(draw(st.tuples(*[st.integers(era.start_us, era.end_us)] * 2)))
    return Period(start_us, end_us)
