"""Rating against an oracle that looks at one second at a time and counts in `Fraction`."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.grants import Grant, GrantKind
from domain.period import Period
from domain.prices import GapPolicy, GapRules, PriceBook, Rate, VramBasis
from domain.tenants import Tenant
from meter.evidence import make_evidence
from meter.rating import rate

US = 1_000_000
GIB = 2**30
SPAN_S = 90  # the seconds that random worlds play in; the rest of the hour is empty
CONTACT_S = 10

_seconds = st.integers(0, SPAN_S)
_micros = st.integers(0, SPAN_S * US)


@st.composite
def _worlds(draw: st.DrawFn) -> dict[str, Any]:
    """Presence, use, grants and prices of two cards on one node."""
    cards = {
        card: {
            # Each second: sampled with that many bytes, lost, or no sample at all.
            second: draw(st.sampled_from(["lost", "hole", "hole", 0, GIB, 3 * GIB, 7 * GIB]))
            for second in range(draw(_seconds))
        }
        for card in ("GPU-1", "GPU-2")
    }
    grants = [
        {
            "allocation": f"a{number}",
            "gpu_uuid": draw(st.sampled_from(["GPU-1", "GPU-2", None])),
            "kind": draw(st.sampled_from([GrantKind.WHOLE, GrantKind.SHARE])),
            "milli": draw(st.integers(1, 1_000)),
            "vram_bytes": draw(st.sampled_from([GIB, 2 * GIB, 24 * GIB])),
            "edges": sorted((draw(_micros), draw(_micros))),
        }
        for number in range(draw(st.integers(1, 4)))
    ]
    cut = draw(_micros)
    prices = {
        "cut_us": cut,
        "gpu": (draw(st.sampled_from(["2.49", "0.000001", "0"])), draw(st.sampled_from(["3", "1.333333333"]))),
        "has_second": draw(st.booleans()),
        "vram": draw(st.sampled_from(["0.03", "0.0007"])),
        "basis": draw(st.sampled_from(list(VramBasis))),
    }
    gaps = GapRules(
        bridge_seconds=draw(st.integers(0, 5)),
        host_unreachable=draw(st.sampled_from(list(GapPolicy))),
        collector_down=draw(st.sampled_from(list(GapPolicy))),
    )
    heard = [sorted((draw(_seconds), draw(_seconds))) for _ in range(draw(st.integers(0, 2)))]
    return {"cards": cards, "grants": grants, "prices": prices, "gaps": gaps, "heard": heard}


@given(world=_worlds())
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rating_equals_an_oracle_in_fractions(
    world: dict[str, Any],
    hour_s: int,
    make_grant: Callable[..., Grant],
    make_rate: Callable[..., Rate],
    make_book: Callable[..., dict[str, PriceBook]],
    make_samples: Callable[..., pl.DataFrame],
    tenants: dict[str, Tenant],
) -> None:
    """Seconds, quantities and money of random grants, gaps and prices are what counting by hand gives."""
    grants = [
        make_grant(
            each["edges"][0] / US,
            each["edges"][1] / US,
            allocation=each["allocation"],
            gpu_uuid=each["gpu_uuid"],
            kind=each["kind"],
            compute_units=1_000 if each["kind"] is GrantKind.WHOLE else each["milli"],
            vram_bytes=each["vram_bytes"],
        )
        for each in world["grants"]
    ]
    prices = world["prices"]
    first = make_rate("gpu", prices["gpu"][0], start=0, end=prices["cut_us"] / US)
    rates = [first, make_rate("vram", prices["vram"], "GiB-hour", basis=prices["basis"])]
    if prices["has_second"]:
        rates.append(make_rate("gpu", prices["gpu"][1], start=prices["cut_us"] / US))
    books = make_book(*rates, gaps=world["gaps"])
    hour = Period(hour_s * US, (hour_s + 3_600) * US)
    contacts = [Period((hour_s + start) * US, (hour_s + end) * US) for start, end in world["heard"]]
    samples = make_samples(_samples_of(world["cards"], world["grants"]))
    evidence = make_evidence("n1", hour, samples, contacts, [])
    of_devices = rate(evidence, [g for g in grants if not g.is_record_only], tenants, books)
    of_records = rate(evidence, [g for g in grants if g.is_record_only], tenants, books)

    oracle = _oracle(world, grants, rates, hour_s)
    found = {
        (c.allocation, c.dimension, c.rate_id): (
            c.granted_seconds,
            c.measured_seconds,
            c.bridged_seconds,
            c.on_record_seconds,
            c.free_seconds,
            c.quantity,
            c.amount_nano,
        )
        for c in (*of_devices, *of_records)
    }
    assert found == oracle


def _samples_of(cards: dict[str, Any], grants: list[Any]) -> list[tuple[str, str, str, str, int, float]]:
    rows: list[tuple[str, str, str, str, int, float]] = []
    for card, seconds in cards.items():
        for second, what in seconds.items():
            if what == "lost":
                rows.append(("gpu_up", card, "", "", second, 0))
            elif what != "hole":
                rows.append(("gpu_up", card, "", "", second, 1))
                rows.append(("gpu_memory_used_bytes", card, "", "", second, what))
                # Every share on the card uses half of what the card does.
                rows += [
                    ("gpu_owner_memory_bytes", card, "", f"alloc:{each['allocation']}", second, what // 2)
                    for each in grants
                    if each["gpu_uuid"] == card
                ]
    return rows


def _presence(world: dict[str, Any], card: str, second: int) -> str:
    what = world["cards"][card].get(second, "hole")
    if what == "lost":
        return "lost"
    if what != "hole":
        return "sampled"
    if any(each.get(second, "hole") != "hole" for each in world["cards"].values()):
        return "absent"
    if any(start <= second < end + CONTACT_S for start, end in world["heard"]):
        return "collector_down"
    return "host_unreachable"


def _gap(world: dict[str, Any], card: str, second: int) -> str:
    presence = _presence(world, card, second)
    if presence == "sampled":
        return "measured"
    if presence != "lost":
        before, after = second, second
        while before >= 0 and _presence(world, card, before) not in ("sampled", "lost"):
            before -= 1
        while after < SPAN_S and _presence(world, card, after) not in ("sampled", "lost"):
            after += 1
        bounded = before >= 0 and after < SPAN_S
        if (
            bounded
            and _presence(world, card, before) == "sampled" == _presence(world, card, after)
            and after - before - 1 <= world["gaps"].bridge_seconds
        ):
            return "bridged"
    policy = {
        "collector_down": world["gaps"].collector_down,
        "host_unreachable": world["gaps"].host_unreachable,
    }.get(presence, GapPolicy.FREE)
    return policy.value


def _oracle(world: dict[str, Any], grants: list[Grant], rates: list[Rate], hour_s: int) -> dict[Any, Any]:
    totals: dict[Any, dict[str, int]] = {}
    by_key: dict[Any, tuple[Grant, Rate | None]] = {}
    for grant in grants:
        for second in range(SPAN_S + 1):
            instant_us = (hour_s + second) * US
            if not grant.start_us <= instant_us < (grant.end_us or 0):
                continue
            card = grant.gpu_uuid
            gap = "on_record" if card is None else _gap(world, card, second)
            what = world["cards"][card].get(second, "hole") if card else "hole"
            used = None if what in ("hole", "lost") else what if grant.kind is GrantKind.WHOLE else what // 2
            for dimension in ("gpu", "vram"):
                in_force = [
                    each
                    for each in rates
                    if each.dimension == dimension
                    and each.start_us <= instant_us
                    and (each.end_us is None or instant_us < each.end_us)
                ]
                rate_ = in_force[0] if in_force else None
                key = (grant.allocation, dimension, rate_.rate_id if rate_ else None)
                by_key[key] = (grant, rate_)
                total = totals.setdefault(
                    key, dict.fromkeys(("granted", "measured", "bridged", "on_record", "free", "quantity"), 0)
                )
                total["granted"] += 1
                total[gap] += 1
                total["quantity"] += _quantity(grant, dimension, rate_, gap, used)
    return {key: (*total.values(), _money(*by_key[key], total["quantity"])) for key, total in totals.items()}


def _quantity(grant: Grant, dimension: str, rate_: Rate | None, gap: str, used: int | None) -> int:
    if dimension == "gpu":
        return 0 if gap == "free" else grant.compute_units
    basis = rate_.basis if rate_ else VramBasis.MAX
    granted = 0 if gap == "free" else grant.vram_bytes
    if basis is VramBasis.GRANTED:
        return granted
    if basis is VramBasis.USED:
        return used or 0
    return granted + max(0, (used or 0) - grant.vram_bytes)


def _money(grant: Grant, rate_: Rate | None, quantity: int) -> int:
    if rate_ is None:
        return 0
    unit = {"GPU-hour": 3_600 * grant.compute_units_total, "GiB-hour": 3_600 * GIB}[rate_.quote.unit]
    exact = Fraction(str(rate_.quote.price)) * quantity * 10**9 / unit
    floor = exact.numerator // exact.denominator
    rest = exact - floor
    return floor + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and floor % 2 == 1))
