"""What must not change a bill: how time is cut, in what order things come, and where in the year it happens."""

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.grants import GrantKind
from domain.money import NANO, UNITS
from domain.prices import GapRules, PriceBook, VramBasis
from domain.tenants import Tenant
from meter.rating.charges import Charge
from meter.rating.rating import rate
from tests.meter.fixture_types import MakeBook, MakeGrant, MakeRate, Observe

Rows = list[tuple[str, str, str, str, int, float]]
US = 1_000_000
HOUR_US = 3_600 * US
GIB = 2**30
SPAN_S = 60

_property = settings(
    max_examples=settings().max_examples * 40 // 100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
_patterns = st.text("x0.ff", min_size=0, max_size=SPAN_S)
_edges = st.tuples(st.integers(0, SPAN_S * US), st.integers(0, SPAN_S * US)).map(sorted)


@st.composite
def _worlds(draw: st.DrawFn) -> tuple[Rows, list[tuple[float, float]], list[dict[str, Any]]]:
    """Rows of samples, heartbeats, and grants as keyword arguments of `make_grant`."""
    rows: Rows = []
    for gpu in ("GPU-1", "GPU-2"):
        for second, what in enumerate(draw(_patterns)):
            if what != ".":
                rows.append(("gpu_up", gpu, "", "", second, float(what != "0")))
            if what in "xf":
                used = {"x": 2, "f": 30}[what] * GIB
                rows.append(("gpu_memory_used_bytes", gpu, "", "", second, used))
                rows += [("gpu_owner_memory_bytes", gpu, "", f"alloc:a{n}", second, used / 2) for n in range(3)]
    heard = [
        (float(start), float(end))
        for start, end in draw(st.lists(st.tuples(*[st.integers(0, 60)] * 2), max_size=2))
        if start <= end
    ]
    grants = []
    for number in range(draw(st.integers(1, 3))):
        start, end = draw(_edges)
        grants.append(
            {
                "allocation": f"a{number}",
                "gpu_uuid": draw(st.sampled_from(["GPU-1", "GPU-2", "GPU-3"])),
                "kind": (kind := draw(st.sampled_from([GrantKind.WHOLE, GrantKind.SHARE]))),
                "compute_units": 1_000 if kind is GrantKind.WHOLE else draw(st.integers(1, 999)),
                "start": start / US,
                "end": end / US,
            }
        )
    return rows, heard, grants


@pytest.fixture
def priced(make_rate: MakeRate, make_book: MakeBook) -> dict[str, PriceBook]:
    """A book with every dimension, at prices without an exact value per second."""
    return make_book(
        make_rate("gpu", "2.49"),
        make_rate("vram", "0.0307", "GiB-hour", basis=VramBasis.GRANTED),
        make_rate("vram_overuse", "0.1", "GiB-hour"),
        gaps=GapRules(bridge_seconds=4),
    )


def _quantities(charges: Iterable[Charge]) -> Counter[tuple[Any, ...]]:
    """Seconds, coverage and quantities by grant, dimension, rate and day, over any number of windows."""
    sums: Counter[tuple[Any, ...]] = Counter()
    for each in charges:
        key = (each.allocation, each.dimension, each.rate_id, each.billing_date)
        for name in ("granted", "measured", "bridged", "on_record", "free", "covered"):
            sums[(*key, name)] += getattr(each, f"{name}_seconds")
        sums[(*key, "quantity")] += each.quantity
    return +sums


def _exact(charges: Iterable[Charge], books: dict[str, PriceBook]) -> Fraction:
    """Money as a fraction, before any rounding."""
    rates = {each.rate_id: each for book in books.values() for each in book.rates}
    total = Fraction(0)
    for each in charges:
        if each.rate_id:
            quote = rates[each.rate_id].quote
            total += Fraction(quote.price) * each.quantity / (UNITS[quote.unit][1] * each.quantity_whole)
    return total


@given(world=_worlds(), cuts=st.lists(st.integers(1, SPAN_S - 1), max_size=4, unique=True))
@_property
def test_cutting_the_window_changes_no_quantity_and_no_exact_amount(
    observe: Observe,
    make_grant: MakeGrant,
    priced: dict[str, PriceBook],
    tenants: dict[str, Tenant],
    world: Any,
    cuts: list[int],
) -> None:
    """Quantities and fraction money hold exactly; stored amounts differ by half a nano a charge."""
    rows, heard, words = world
    grants = [make_grant(**each) for each in words]
    whole = rate(observe(rows, end=SPAN_S, heard=heard), grants, tenants, priced)
    borders = [0, *sorted(cuts), SPAN_S]
    parts = [
        charge
        for start, end in pairwise(borders)
        for charge in rate(observe(rows, start=start, end=end, heard=heard), grants, tenants, priced)
    ]
    assert _quantities(parts) == _quantities(whole)
    assert _exact(parts, priced) == _exact(whole, priced)
    stored = sum(each.amount_nano for each in parts) - sum(each.amount_nano for each in whole)
    assert abs(stored) <= Fraction(len(parts) + len(whole), 2)
    assert abs(sum(each.amount_nano for each in parts) - _exact(whole, priced) * NANO) <= Fraction(len(parts), 2)


@given(world=_worlds(), seed=st.integers())
@_property
def test_order_and_duplicates_change_no_charge(
    observe: Observe,
    make_grant: MakeGrant,
    priced: dict[str, PriceBook],
    tenants: dict[str, Tenant],
    world: Any,
    seed: int,
) -> None:
    """Samples sent twice and in any order, grants in any order, rates in any order."""
    rows, heard, words = world
    grants = [make_grant(**each) for each in words]
    first = rate(observe(rows, end=SPAN_S, heard=heard), grants, tenants, priced)
    shuffle = random.Random(seed).shuffle
    again, others, rates = [*rows, *rows], list(grants), list(priced["retail"].rates)
    for each in (again, others, rates):
        shuffle(each)
    books = {"retail": replace(priced["retail"], rates=tuple(rates))}
    assert rate(observe(again, end=SPAN_S, heard=heard[::-1]), others, tenants, books) == first


@given(world=_worlds(), hours=st.integers(-14, 500))
@_property
def test_a_bill_does_not_depend_on_the_hour_of_the_year(
    observe: Observe,
    make_grant: MakeGrant,
    priced: dict[str, PriceBook],
    tenants: dict[str, Tenant],
    world: Any,
    hours: int,
) -> None:
    """Shifted by whole hours everything is the same but the window and the date."""
    rows, heard, words = world
    by = hours * 3_600
    moved_rows = [(*key, second + by, value) for *key, second, value in rows]
    moved_words = [{**each, "start": each["start"] + by, "end": each["end"] + by} for each in words]
    first = rate(observe(rows, end=SPAN_S, heard=heard), [make_grant(**each) for each in words], tenants, priced)
    moved = rate(
        observe(moved_rows, start=by, end=by + SPAN_S, heard=[(a + by, b + by) for a, b in heard]),
        [make_grant(**each) for each in moved_words],
        tenants,
        priced,
    )
    back = [replace(each, window_start_us=each.window_start_us - hours * HOUR_US, billing_date="") for each in moved]
    assert back == [replace(each, billing_date="") for each in first]


@given(world=_worlds(), cut=st.integers(0, SPAN_S * US))
@_property
def test_cutting_a_rate_at_the_same_price_costs_the_same(
    observe: Observe,
    make_grant: MakeGrant,
    make_rate: MakeRate,
    make_book: MakeBook,
    tenants: dict[str, Tenant],
    world: Any,
    cut: int,
) -> None:
    rows, heard, words = world
    grants, evidence = [make_grant(**each) for each in words], observe(rows, end=SPAN_S, heard=heard)
    one = make_book(make_rate("gpu", "2.49"))
    two = make_book(make_rate("gpu", "2.49", end=cut / US), make_rate("gpu", "2.49", start=cut / US))
    whole, parts = rate(evidence, grants, tenants, one), rate(evidence, grants, tenants, two)
    assert _exact(parts, two) == _exact(whole, one)
    without_rate = [replace(each, rate_id=None) for each in parts if each.dimension == "gpu"]
    assert _quantities(without_rate) == _quantities(replace(e, rate_id=None) for e in whole if e.dimension == "gpu")


@given(world=_worlds(), at=st.floats(0, 1))
@_property
def test_a_grant_cut_end_to_start_costs_what_the_whole_one_does(
    observe: Observe,
    make_grant: MakeGrant,
    priced: dict[str, PriceBook],
    tenants: dict[str, Tenant],
    world: Any,
    at: float,
) -> None:
    """A change of nothing: neighbours share no second and lose none."""
    rows, heard, words = world
    evidence = observe(rows, end=SPAN_S, heard=heard)
    grants = [make_grant(**each) for each in words]
    halves = []
    for grant in grants:
        middle_us = grant.start_us + round(at * ((grant.end_us or 0) - grant.start_us))
        halves += [replace(grant, end_us=middle_us), replace(grant, ordinal=1, start_us=middle_us)]
    whole, parts = rate(evidence, grants, tenants, priced), rate(evidence, halves, tenants, priced)
    assert _quantities(parts) == _quantities(whole)
    assert _exact(parts, priced) == _exact(whole, priced)


@given(world=_worlds(), milli=st.lists(st.integers(1, 200), min_size=1, max_size=4))
@_property
def test_shares_of_a_card_cost_together_what_their_sum_would(
    observe: Observe,
    make_grant: MakeGrant,
    make_rate: MakeRate,
    make_book: MakeBook,
    tenants: dict[str, Tenant],
    world: Any,
    milli: list[int],
) -> None:
    rows, heard, words = world
    evidence, books = observe(rows, end=SPAN_S, heard=heard), make_book(make_rate("gpu", "2.49"))
    of_card = {**words[0], "kind": GrantKind.SHARE, "allocation": "a0"}
    one = [make_grant(**{**of_card, "compute_units": sum(milli)})]
    many = [make_grant(**{**of_card, "compute_units": part, "ordinal": n}) for n, part in enumerate(milli)]
    assert _exact(rate(evidence, many, tenants, books), books) == _exact(rate(evidence, one, tenants, books), books)


@given(world=_worlds())
@_property
def test_the_classes_of_a_charge_sum_and_coverage_stays_within(
    observe: Observe, make_grant: MakeGrant, priced: dict[str, PriceBook], tenants: dict[str, Tenant], world: Any
) -> None:
    """What the ledger's CHECK constraints ask of every row, and that every granted second is in some row."""
    rows, heard, words = world
    grants = [make_grant(**each) for each in words]
    charges = rate(observe(rows, end=SPAN_S, heard=heard), grants, tenants, priced)
    for each in charges:
        parts = each.measured_seconds + each.bridged_seconds + each.on_record_seconds + each.free_seconds
        assert each.granted_seconds == parts > 0
        assert each.covered_seconds is not None
        assert 0 <= each.covered_seconds <= each.measured_seconds
        assert each.quantity >= 0
        assert each.amount_nano >= 0
    for dimension in ("gpu", "vram"):
        rated = sum(each.granted_seconds for each in charges if each.dimension == dimension)
        assert rated == sum(grant.period.seconds for grant in grants)
