"""Rating against an oracle that looks at one second at a time and counts in `Fraction`."""

from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.clock import MICROSECONDS as US
from domain.grants import GrantKind
from domain.prices import GapPolicy, GapRules, PriceBook, Rate, VramBasis
from domain.tenants import Tenant
from domain.units import GIB
from meter.evidence.evidence import make_evidence
from meter.rating.charges import Charge
from meter.rating.rating import rate
from tests.meter.facts import make_grant, make_rate, make_samples
from tests.meter.hour import instant_us, stretch
from tests.meter.rating_oracle import BASE_S, HOUR_OFFSET_S, SOURCES, SPAN_S, World, oracle, samples_of

DEVICES = [("GPU-1", ""), ("GPU-2", ""), ("GPU-2", "MIG-1"), ("GPU-2", "MIG-2")]
SKUS = {GrantKind.WHOLE: "h100-80g", GrantKind.SHARE: "rtx4090-24g", GrantKind.MIG: "h100-80g/1g.10gb"}
_seconds = st.integers(0, SPAN_S)
# Of one large range Hypothesis mostly takes the first second.
_micros = st.tuples(_seconds, st.integers(0, US - 1)).map(lambda at: at[0] * US + at[1])
_policies = st.sampled_from(list(GapPolicy))


@st.composite
def _grants(draw: st.DrawFn, number: int) -> dict[str, Any]:
    # Mostly shares of one card, so that owners are shared, too.
    kind = draw(st.sampled_from([GrantKind.SHARE, GrantKind.SHARE, GrantKind.WHOLE, GrantKind.MIG]))
    cards = ["GPU-1", "GPU-1", "GPU-1", "GPU-2", "GPU-404", None]
    device = draw(st.sampled_from(cards if kind is not GrantKind.MIG else ["GPU-2", "GPU-2", None]))
    mig = draw(st.sampled_from(["MIG-1", "MIG-2", None])) if kind is GrantKind.MIG and device else None
    total = 132 if kind is GrantKind.MIG else 1_000
    start, end = sorted((draw(_micros), draw(_micros)))
    source, source_id = draw(st.sampled_from(list(SOURCES)))
    return {
        "allocation": f"a{number // 2}",
        "ordinal": number,
        "source": source,
        "source_id": source_id,
        "project": draw(st.sampled_from(["p", "q"])),
        "gpu_uuid": device,
        "mig_uuid": mig,
        "kind": kind,
        "sku": SKUS[kind],
        "compute_units_total": total,
        "compute_units": total if kind is GrantKind.WHOLE else draw(st.integers(1, total)),
        "vram_bytes": draw(st.sampled_from([0, GIB, 2 * GIB, 24 * GIB])),
        "start": (BASE_S * US + start) / US,
        "end": None if draw(st.integers(0, 5)) == 0 else (BASE_S * US + end) / US,
    }


@st.composite
def _rates(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rates of which no two of one scope meet: one cut divides the time of each scope."""
    found: list[dict[str, Any]] = []
    cut = (BASE_S * US + draw(_micros)) / US
    spans: list[list[tuple[float | None, float | None]]] = [
        [(None, None)],
        [(None, cut)],
        [(cut, None)],
        [(None, cut), (cut, None)],
    ]
    scopes = [
        (dimension, sku, tenant, project)
        for dimension in ("gpu", "vram", "vram_overuse", "vram_burst")
        for sku in ("*", "h100-80g", "h100-80g/1g.10gb")
        for tenant, project in ((None, None), ("acme", None), ("acme", "q"))
    ]
    for dimension, sku, tenant, project in draw(st.lists(st.sampled_from(scopes), unique=True, max_size=7)):
        unit = draw(st.sampled_from(["GPU-hour", "GPU-second"] if dimension == "gpu" else ["GiB-hour", "GiB-second"]))
        scope = {"dimension": dimension, "sku": sku, "tenant": tenant, "project": project, "unit": unit}
        for start, end in draw(st.sampled_from(spans)):
            basis = draw(st.sampled_from(list(VramBasis))) if dimension == "vram" else None
            price = draw(st.sampled_from(["2.49", "0.000001", "0", "1.333333333", "0.03", "277"]))
            found.append({**scope, "price": price, "basis": basis, "start": start, "end": end})
    return found


@st.composite
def _worlds(draw: st.DrawFn) -> World:
    readings = st.sampled_from(["lost", "up", "hole", "hole", 0, GIB, 3 * GIB, 7 * GIB])
    devices = {
        device: {second: what for second in range(draw(_seconds)) if (what := draw(readings)) != "hole"}
        for device in DEVICES
    }
    always: tuple[int, str] = (-(10**9), "first")
    assigned = [(draw(_micros), draw(st.sampled_from(["first", "second"])))] if draw(st.booleans()) else []
    return World(
        devices=devices,
        proves_owners=draw(st.integers(0, 3)) > 0,
        grants=[draw(_grants(number)) for number in range(draw(st.integers(1, 4)))],
        heard=[tuple(sorted((draw(_seconds), draw(_seconds)))) for _ in range(draw(st.integers(0, 2)))],  # type: ignore[misc] # a pair, sorted, is a pair
        ticks=draw(st.frozensets(_seconds, max_size=10)),
        zone=draw(st.sampled_from(["UTC", "Asia/Kathmandu"])),
        assigned=[always, *assigned] if draw(st.booleans()) else assigned,
        gaps={
            book: GapRules(draw(st.integers(0, 5)), draw(_policies), draw(_policies)) for book in ("first", "second")
        },
        rates={book: draw(_rates()) for book in ("first", "second")},
    )


@st.composite
def _crowded(draw: st.DrawFn) -> World:
    """A card of which nothing but shares is granted, many of them to whom one owner is theirs at the same time."""
    used = st.sampled_from([GIB, 3 * GIB + 1, 7 * GIB + 2])
    grants = []
    for number in range(draw(st.integers(2, 5))):
        grant = draw(_grants(number))
        share = {"gpu_uuid": "GPU-1", "mig_uuid": None, "kind": GrantKind.SHARE, "compute_units_total": 1_000}
        grants.append({**grant, **share, "compute_units": 100})
    rates = [{"dimension": "vram", "price": "0.03", "unit": "GiB-hour", "basis": VramBasis.USED}]
    return World(
        devices={("GPU-1", ""): {second: draw(used) for second in range(0, SPAN_S, 7)}},
        proves_owners=True,
        grants=grants,
        heard=[],
        ticks=frozenset(),
        zone="UTC",
        assigned=[(-(10**9), "first")],
        gaps={"first": GapRules()},
        rates={"first": [*rates, {"dimension": "vram_overuse", "price": "1", "unit": "GiB-hour"}]},
    )


@given(world=_worlds())
@settings(max_examples=settings().max_examples * 80 // 100, deadline=None)
def test_rating_equals_an_oracle_in_fractions(world: World) -> None:
    """Seconds, quantities, dates and money of random grants, gaps, books and prices are what counting by hand gives."""
    _check(world)


@given(world=_crowded())
@settings(max_examples=settings().max_examples * 30 // 100, deadline=None)
def test_grants_that_share_an_owner_are_charged_as_the_oracle_says(world: World) -> None:
    """Whoever recorded them and by whatever name, and however they come and go beside each other."""
    _check(world)


def _check(world: World) -> None:
    grants = [make_grant(each["start"], each["end"], **_without(each, "start", "end")) for each in world.grants]
    books = {
        book: PriceBook(book, "CNY", world.gaps[book], tuple(_rate(book, each) for each in rates))
        for book, rates in world.rates.items()
    }
    assigned = tuple((instant_us(BASE_S) + at_us, book) for at_us, book in world.assigned)
    tenants = {"acme": Tenant("acme", ZoneInfo(world.zone), "CNY", assigned)}
    window = stretch(HOUR_OFFSET_S, HOUR_OFFSET_S + 3_600)
    contacts = [stretch(BASE_S + first, BASE_S + last) for first, last in world.heard]
    evidence = make_evidence("n1", window, make_samples(samples_of(world)), contacts, [])

    charges = rate(evidence, grants, tenants, books)
    by_key = {(c.allocation, c.ordinal, c.dimension, c.rate_id, c.billing_date): _figures(c) for c in charges}
    assert len(by_key) == len(charges)
    assert by_key == oracle(world, grants, books)


def _without(values: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


def _rate(book: str, words: dict[str, Any]) -> Rate:
    made = make_rate(words["dimension"], words["price"], words["unit"], **_without(words, "dimension", "price", "unit"))
    # The end is no part of a rate's name, the book is.
    return Rate(f"{book}|{made.rate_id}", *[getattr(made, name) for name in list(Rate.__dataclass_fields__)[1:]])


def _figures(charge: Charge) -> tuple[int | None, ...]:
    return (
        charge.granted_seconds,
        charge.measured_seconds,
        charge.bridged_seconds,
        charge.on_record_seconds,
        charge.free_seconds,
        charge.covered_seconds,
        charge.quantity,
        charge.amount_nano,
    )
