"""What rating must come to, found by looking at one second at a time and counting in `Fraction`.

It shares no code with what it checks: presence, gap classes, prices, days and rounding are found anew, by search
instead of by intervals.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from domain.clock import MICROSECONDS
from domain.grants import Grant, GrantKind
from domain.prices import GapPolicy, GapRules, PriceBook, Rate, VramBasis
from domain.series import COLLECTOR_LATENESS
from domain.units import GIB
from tests.meter.facts import Row
from tests.meter.hour import HOUR_S

SPAN_S = 90  # the seconds that random worlds play in; the rest of the hour is empty
HOUR_OFFSET_S = 8 * 3_600
# Of the hour from 18:00Z on, so that Kathmandu's midnight (18:15Z) is 45 s into the span.
BASE_S = HOUR_OFFSET_S + 15 * 60 - 45
CONTACT_S = 10
# Who recorded an allocation and its name there -> the owner that it is by that name.
SOURCES: dict[tuple[str, str | None], str | None] = {
    ("service", None): None,
    ("slurm", "17"): "slurm:17",
    ("csv", "slurm:17"): "slurm:17",
    ("pod", "slurm:17"): "slurm:17",
    ("csv", "17"): None,
    ("csv", "alloc:a1"): None,
}


@dataclass(frozen=True)
class World:
    """What happened: seconds and instants count from the beginning of the span."""

    # Device -> second -> "lost", "up" (sampled, but its memory was not read), or bytes used.
    devices: dict[tuple[str, str], dict[int, Any]]
    # Whether the node proves who uses what; else all of it is "unattributed".
    proves_owners: bool
    grants: list[dict[str, Any]]
    heard: list[tuple[int, int]]
    # Seconds in which the collector ticked, whatever the cards said.
    ticks: frozenset[int]
    zone: str
    # From microsecond on: the book in force, by its name.
    assigned: list[tuple[int, str]]
    # Book -> gap rules, and rates as keyword arguments of `make_rate`.
    gaps: dict[str, GapRules]
    rates: dict[str, list[dict[str, Any]]]


def samples_of(world: World) -> list[Row]:
    """What a collector would have sent."""
    tick = COLLECTOR_LATENESS.name
    rows: list[Row] = [(tick, "", "", "", BASE_S + offset, 0.001) for offset in world.ticks]
    for (gpu, mig), seconds in world.devices.items():
        for offset, what in seconds.items():
            second = BASE_S + offset
            rows.append(("gpu_up", gpu, mig, "", second, 0 if what == "lost" else 1))
            if isinstance(what, int):
                rows.append(("gpu_memory_used_bytes", gpu, mig, "", second, what))
                used = _of_owners(world, offset, what)
                rows += [("gpu_owner_memory_bytes", gpu, mig, name, second, value) for name, value in used.items()]
    return rows


def _of_owners(world: World, second: int, what: int) -> dict[str, int]:
    """About half of what the device uses is of each owner that is proved in the second; some come and go."""
    if not world.proves_owners:
        return {"unattributed": what}
    owners = ("alloc:a0", "alloc:a1", "slurm:17", "slurm:99")
    return {name: what // 2 + number for number, name in enumerate(owners) if (second + number) % (number + 2)}


def oracle(world: World, grants: list[Grant], books: dict[str, PriceBook]) -> dict[Any, tuple[int | None, ...]]:
    """Figures by (allocation, ordinal, dimension, rate, billing date): six counts of seconds, quantity and money."""
    totals: dict[Any, dict[str, int]] = {}
    made_by: dict[Any, tuple[Grant, Rate | None]] = {}
    for grant in grants:
        last = SPAN_S + 5 if grant.end_us is not None else HOUR_OFFSET_S + 3_600 - BASE_S
        for second in range(HOUR_OFFSET_S - BASE_S, last):
            instant_us = (HOUR_S + BASE_S + second) * MICROSECONDS
            if not grant.start_us <= instant_us < (grant.end_us or 2**62):
                continue
            names = [book for at_us, book in world.assigned if (HOUR_S + BASE_S) * MICROSECONDS + at_us <= instant_us]
            book = books[names[-1]] if names else PriceBook("", "CNY", GapRules(), ())
            local = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=HOUR_S + BASE_S + second)
            day = local.astimezone(ZoneInfo(world.zone)).date().isoformat()
            gap, used = _gap(world, grant, second, book.gaps), _used(world, grants, grant, second)
            for dimension in ("gpu", "vram", "vram_overuse", "vram_burst"):
                rate_ = _in_force(book, dimension, grant, instant_us)
                if rate_ is None and dimension not in ("gpu", "vram"):
                    continue
                key = (grant.allocation, grant.ordinal, dimension, rate_.rate_id if rate_ else None, day)
                made_by[key] = (grant, rate_)
                names_of = ("granted", "measured", "bridged", "on_record", "free", "covered", "quantity")
                total = totals.setdefault(key, dict.fromkeys(names_of, 0))
                total["granted"] += 1
                total[gap] += 1
                total["covered"] += gap == "measured" if dimension == "gpu" else used is not None
                total["quantity"] += _quantity(grant, dimension, rate_, gap, used or 0)
    return {
        key: (
            *list(total.values())[:5],
            total["covered"] if made_by[key][0].gpu_uuid else None,
            total["quantity"],
            _money(*made_by[key], total["quantity"]),
        )
        for key, total in totals.items()
    }


def _reading(world: World, gpu: str, mig: str, second: int) -> Any:
    """What is known of a device in a second; a lost card takes its instances with it."""
    if world.devices.get((gpu, ""), {}).get(second) == "lost":
        return "lost" if mig == "" or (gpu, mig) in world.devices else "hole"
    return world.devices.get((gpu, mig), {}).get(second, "hole")


def _presence(world: World, gpu: str, mig: str, second: int) -> str:
    # A device that nobody ever spoke of shares what is known of the node.
    if world.devices.get((gpu, mig)):
        what = _reading(world, gpu, mig, second)
        if what != "hole":
            return "lost" if what == "lost" else "sampled"
    if second in world.ticks or any(second in readings for readings in world.devices.values()):
        return "absent"
    # A heartbeat, a tick and a sample, of whatever device and of one that is lost, are signs of life for ten seconds.
    if any(first <= second < last + CONTACT_S for first, last in world.heard):
        return "collector_down"
    signs = world.ticks.union(*world.devices.values())
    if any(second - before in signs for before in range(1, CONTACT_S)):
        return "collector_down"
    return "host_unreachable"


def _gap(world: World, grant: Grant, second: int, rules: GapRules) -> str:
    if grant.gpu_uuid is None:
        return "on_record"
    device = (grant.gpu_uuid, grant.mig_uuid or "")
    presence = _presence(world, *device, second)
    if presence == "sampled":
        return "measured"
    if presence == "lost":
        return "free"
    ends = []
    for step in (-1, 1):
        at = second
        while -60 < at < SPAN_S + 60 and _presence(world, *device, at) not in ("sampled", "lost"):
            at += step
        ends.append(at)
    if [_presence(world, *device, at) for at in ends] == ["sampled"] * 2 and ends[1] - ends[
        0
    ] - 1 <= rules.bridge_seconds:
        return "bridged"
    policies = {"collector_down": rules.collector_down, "host_unreachable": rules.host_unreachable}
    return policies.get(presence, GapPolicy.FREE).value


def _used(world: World, grants: list[Grant], grant: Grant, second: int) -> int | None:
    """Bytes of the grant in a second; None where they were not read."""
    if grant.gpu_uuid is None:
        return None
    what = _reading(world, grant.gpu_uuid, grant.mig_uuid or "", second)
    if not isinstance(what, int):
        return None
    if not _is_part(grant):
        return what
    told = _of_owners(world, second, what)
    if not any(name != "unattributed" for name in told):
        return None
    return sum(_part(grants, grant, second, name, told[name]) for name in _names(grant) if name in told)


def _is_part(grant: Grant) -> bool:
    return grant.kind is GrantKind.SHARE or (grant.kind is GrantKind.MIG and grant.mig_uuid is None)


def _names(grant: Grant) -> set[str]:
    names = {f"alloc:{grant.allocation}", SOURCES[grant.source, grant.source_id]}
    return {name for name in names if name is not None}


def _part(grants: list[Grant], grant: Grant, second: int, name: str, value: int) -> int:
    """What the grant has of an owner's bytes, of which each that names it then has as much as its VRAM is of theirs."""
    instant_us = (HOUR_S + BASE_S + second) * MICROSECONDS
    sharing = [
        each
        for each in grants
        if _is_part(each)
        and (each.gpu_uuid, name in _names(each)) == (grant.gpu_uuid, True)
        and each.start_us <= instant_us < (each.end_us or 2**62)
    ]
    sharing.sort(key=lambda each: (each.allocation, each.ordinal))
    edge = Fraction(0)
    for each in sharing:
        before, edge = edge, edge + Fraction(max(each.vram_bytes, 1), sum(max(one.vram_bytes, 1) for one in sharing))
        if each is grant:
            return int(value * edge) - int(value * before)
    raise AssertionError(grant)


def _in_force(book: PriceBook, dimension: str, grant: Grant, at_us: int) -> Rate | None:
    """The first that is found in the order tenant and project, tenant, all; of each SKU with profile, SKU, any."""
    card = grant.sku.partition("/")[0]
    for tenant, project in ((grant.tenant, grant.project), (grant.tenant, None), (None, None)):
        for sku in (grant.sku, card, "*") if "/" in grant.sku else (card, "*"):
            for each in book.rates:
                is_that = (each.dimension, each.sku, each.tenant, each.project) == (dimension, sku, tenant, project)
                if is_that and each.start_us <= at_us and (each.end_us is None or at_us < each.end_us):
                    return each
    return None


def _quantity(grant: Grant, dimension: str, rate_: Rate | None, gap: str, used: int) -> int:
    overuse = max(0, used - grant.vram_bytes)
    if dimension == "gpu":
        return 0 if gap == "free" else grant.compute_units
    if dimension == "vram_overuse":
        return overuse
    if dimension == "vram_burst":
        return used
    basis = (rate_.basis if rate_ else None) or VramBasis.MAX
    granted = 0 if gap == "free" else grant.vram_bytes
    return {VramBasis.GRANTED: granted, VramBasis.USED: used, VramBasis.MAX: granted + overuse}[basis]


def _money(grant: Grant, rate_: Rate | None, quantity: int) -> int:
    if rate_ is None:
        return 0
    per = {"hour": 3_600, "second": 1}[rate_.quote.unit.partition("-")[2]]
    unit = per * (grant.compute_units_total if rate_.quote.unit.startswith("GPU") else GIB)
    exact = Fraction(str(rate_.quote.price)) * quantity * 10**9 / unit
    floor = exact.numerator // exact.denominator
    rest = exact - floor
    return floor + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and floor % 2 == 1))
