"""What must not change a ledger: order, repetition, lateness, cuts of grants and prices, and the hour of the year.

The same is asked of rating alone in test_rating_properties.py; here everything goes through the database, the windows
and their evidence, over the seam of two hours.
"""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, update

from domain.grants import Grant, GrantKind
from domain.money import NANO, UNITS
from domain.period import HOUR_US
from domain.prices import GapRules, PriceBook, Rate, VramBasis
from domain.units import GIB
from meter.ledger.ledger_store import Window, load_windows
from meter.prices.price_store import load_book
from meter.rating.charges import Charge
from meter.windows.windows import Outcome
from store.access import Principal
from store.database import Database
from store.tables import billing, capacity
from tests.meter.facts import Row, make_grant, make_rate
from tests.meter.fixture_types import MakeRater, Recorded
from tests.meter.hour import START_US, instant_us
from tests.meter.ledgers import add_grants, add_heartbeats, charges_of, forget_bills

# The seconds in which something happens lie around the seam of the two hours.
SEAM_S = 3_600
SPAN_S = 40
US = 1_000_000
# After both hours are complete with their context, and their grace is over.
DONE_S = 7_300
PRICES = (make_rate("gpu", "2.49"), make_rate("vram", "0.0307", "GiB-hour", basis=VramBasis.MAX))

_property = settings(
    max_examples=max(1, settings().max_examples * 5 // 100),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
_instants = st.integers((SEAM_S - 2 * SPAN_S) * US, (SEAM_S + 2 * SPAN_S) * US)


@dataclass(frozen=True)
class World:
    """Samples, heartbeats and grants, as offsets into the first hour; `hours` is by how many all of it is later."""

    rows: Sequence[Row]
    heard: Sequence[tuple[int, int]]
    grants: Sequence[Grant]
    hours: int = 0

    def later(self, hours: int) -> "World":
        by_s, by_us = hours * 3_600, hours * HOUR_US
        return World(
            [(*key, second + by_s, value) for *key, second, value in self.rows],  # type: ignore[misc] # a row again
            [(start + by_s, end + by_s) for start, end in self.heard],
            [replace(each, start_us=each.start_us + by_us, end_us=(each.end_us or 0) + by_us) for each in self.grants],
            hours,
        )


@st.composite
def _worlds(draw: st.DrawFn) -> World:
    rows: list[Row] = []
    for gpu in ("GPU-1", "GPU-2"):
        for second, what in enumerate(draw(st.text("x0.ff", max_size=2 * SPAN_S)), start=SEAM_S - SPAN_S):
            if what != ".":
                rows.append(("gpu_up", gpu, "", "", second, float(what != "0")))
            if what in "xf":
                used = {"x": 2, "f": 30}[what] * GIB
                rows.append(("gpu_memory_used_bytes", gpu, "", "", second, float(used)))
                rows += [("gpu_owner_memory_bytes", gpu, "", f"alloc:a{n}", second, used / 2) for n in range(2)]
    beats = st.tuples(*[st.integers(SEAM_S - SPAN_S, SEAM_S + SPAN_S)] * 2).map(sorted)
    heard = draw(st.lists(beats, max_size=2, unique_by=lambda beat: beat[0]))
    grants = []
    for number in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from([GrantKind.WHOLE, GrantKind.SHARE]))
        start_us, end_us = sorted((draw(_instants), draw(_instants)))
        grants.append(
            make_grant(
                allocation=f"a{number}",
                gpu_uuid=draw(st.sampled_from(["GPU-1", "GPU-2"])),
                kind=kind,
                compute_units=1_000 if kind is GrantKind.WHOLE else draw(st.integers(1, 999)),
                vram_bytes=draw(st.integers(0, 24 * GIB)),
                start_us=START_US + start_us,
                end_us=START_US + end_us,
            )
        )
    return World(rows, [(start, end) for start, end in heard], grants)


@dataclass(frozen=True)
class Books:
    """A ledger in which one world after the other is rated, as if there had been none before it."""

    ledger: Database
    make_rater: MakeRater
    recorded: Recorded

    def begin(self, world: World, prices: Iterable[Rate] = PRICES) -> None:
        forget_bills(self.ledger)
        with self.ledger.write() as connection:
            for table in (capacity.grants, capacity.allocations, capacity.node_contacts, billing.rates):
                connection.execute(delete(table))
            connection.execute(update(capacity.nodes).values(inventory_us=instant_us((world.hours + 2) * 3_600)))
            book = PriceBook("retail", "CNY", GapRules(), tuple(prices))
            load_book(connection, Principal.local_operator(), book, now_us=0)
        add_grants(self.ledger, world.grants, 0)
        for start, end in world.heard:
            add_heartbeats(self.ledger, start, end)

    def rate(self, world: World, rows: Iterable[Row] | None = None, *, until: int = DONE_S) -> list[Outcome]:
        """A pass over both hours of the world, of its samples or of these, so many seconds after it began."""
        first_s = world.hours * 3_600
        seen = self.recorded(world.rows if rows is None else rows, first_s + until)
        rater = self.make_rater(seen)
        hours = (START_US + hour * HOUR_US for hour in (world.hours, world.hours + 1))
        return [rater.rate_window("n1", hour_us, instant_us(first_s + until)).outcome for hour_us in hours]

    def of(self, world: World, prices: Iterable[Rate] = PRICES) -> list[Charge]:
        """The charges of a world that is rated once, when all of it is over."""
        self.begin(world, prices)
        assert self.rate(world) == [Outcome.SETTLED] * 2
        return charges_of(self.ledger)

    def windows(self) -> list[Window]:
        """All windows, but for when they were rated and how often they were frozen anew."""
        with self.ledger.read() as connection:
            found = load_windows(connection, Principal.local_operator())
        return [replace(each, rated_us=None, revision=0) for each in found]


@pytest.fixture
def books(ledger: Database, make_rater: MakeRater, recorded: Recorded) -> Books:
    return Books(ledger, make_rater, recorded)


def _quantities(charges: Iterable[Charge]) -> Counter[tuple[Any, ...]]:
    """Seconds by class, covered seconds and quantities, by hour, allocation, dimension and day."""
    sums: Counter[tuple[Any, ...]] = Counter()
    for each in charges:
        key = (each.window_start_us, each.allocation, each.dimension, each.billing_date)
        for name in ("granted", "measured", "bridged", "on_record", "free", "covered"):
            sums[(*key, name)] += getattr(each, f"{name}_seconds")
        sums[(*key, "quantity")] += each.quantity
    return +sums


def _exact(charges: Iterable[Charge], prices: Iterable[Rate]) -> Fraction:
    """Money in nano-units before any rounding."""
    quotes = {each.rate_id: each.quote for each in prices}
    parts = [(each, quotes[each.rate_id or ""]) for each in charges]
    return sum(
        (
            Fraction(quote.price) * each.quantity * NANO / (UNITS[quote.unit][1] * each.quantity_whole)
            for each, quote in parts
        ),
        Fraction(0),
    )


def _assert_same_money(
    parts: list[Charge], whole: list[Charge], prices: Iterable[Rate], part_prices: Iterable[Rate]
) -> None:
    """Quantities and fraction money are equal; stored amounts differ by half a nano-unit a charge at most."""
    assert _quantities(parts) == _quantities(whole)
    assert _exact(parts, part_prices) == _exact(whole, prices)
    for charges, its_prices in ((parts, part_prices), (whole, prices)):
        stored = sum(each.amount_nano for each in charges)
        assert abs(stored - _exact(charges, its_prices)) <= Fraction(len(charges), 2)


@given(world=_worlds(), seed=st.integers(0, 2**32))
@_property
def test_order_and_repetition_change_no_byte_of_the_ledger(books: Books, world: World, seed: int) -> None:
    """Samples sent twice and in any order, heartbeats, grants and rates recorded in any order, and a re-run."""
    first = books.of(world)
    windows = books.windows()
    shuffle = random.Random(seed).shuffle
    rows, heard, grants, prices = [*world.rows] * 2, [*world.heard], [*world.grants], [*PRICES]
    for each in (rows, heard, grants, prices):
        shuffle(each)
    assert books.of(replace(world, rows=rows, heard=heard, grants=grants), prices) == first
    assert books.windows() == windows
    assert books.rate(world) == [Outcome.SETTLED] * 2
    assert charges_of(books.ledger) == first
    assert books.windows() == windows


@given(world=_worlds(), seed=st.integers(0, 2**32), untils=st.lists(st.integers(1, 7_500), max_size=3).map(sorted))
@_property
def test_what_comes_in_pieces_ends_where_all_at_once_does(
    books: Books, world: World, seed: int, untils: list[int]
) -> None:
    """Passes while the hours fill, and after them with ever more of the samples: late data change when, never what."""
    first = books.of(world)
    windows = books.windows()
    rows = [*world.rows]
    random.Random(seed).shuffle(rows)
    books.begin(world)
    for until in untils:
        books.rate(world, rows[: len(rows) // 3], until=until)
    for some in (len(rows) // 3, len(rows) // 2, len(rows)):
        assert books.rate(world, rows[:some]) == [Outcome.SETTLED] * 2
    assert charges_of(books.ledger) == first
    assert books.windows() == windows


@given(world=_worlds(), hours=st.integers(1, 9_000))
@_property
def test_a_ledger_is_the_same_in_any_hour_of_the_year(books: Books, world: World, hours: int) -> None:
    """Shifted by whole hours everything is the same but the window and the date."""
    first = books.of(world)
    moved = books.of(world.later(hours))
    back = [replace(each, window_start_us=each.window_start_us - hours * HOUR_US) for each in moved]
    assert _without_date(back) == _without_date(first)


def _without_date(charges: Iterable[Charge]) -> list[Charge]:
    undated = [replace(each, billing_date="") for each in charges]
    return sorted(undated, key=lambda each: (each.window_start_us, each.allocation, each.ordinal, each.dimension))


@given(world=_worlds(), cuts_us=st.lists(_instants, min_size=1, max_size=3, unique=True).map(sorted))
@_property
def test_a_rate_that_is_cut_at_its_own_price_costs_the_same(books: Books, world: World, cuts_us: list[int]) -> None:
    whole = books.of(world)
    borders = [None, *(cut / US for cut in cuts_us), None]
    pieces = [
        make_rate(each.dimension, str(each.quote.price), each.quote.unit, basis=each.basis, start=start, end=end)
        for each in PRICES
        for start, end in pairwise(borders)
    ]
    _assert_same_money(books.of(world, pieces), whole, PRICES, pieces)


@given(world=_worlds(), cuts_us=st.lists(_instants, min_size=1, max_size=3, unique=True).map(sorted))
@_property
def test_grants_that_are_cut_end_to_start_cost_what_the_whole_ones_do(
    books: Books, world: World, cuts_us: list[int]
) -> None:
    """A change of nothing, whether it was recorded as one grant or as several; conservation sees no difference."""
    whole = books.of(world)
    left = [(each.residual_compute, each.residual_vram) for each in books.windows()]
    parts = []
    for grant in world.grants:
        inside = [START_US + cut for cut in cuts_us if grant.start_us < START_US + cut < (grant.end_us or 0)]
        borders = [grant.start_us, *inside, grant.end_us or 0]
        parts += [
            replace(grant, ordinal=number, start_us=start_us, end_us=end_us)
            for number, (start_us, end_us) in enumerate(pairwise(borders))
        ]
    _assert_same_money(books.of(replace(world, grants=parts)), whole, PRICES, PRICES)
    assert [(each.residual_compute, each.residual_vram) for each in books.windows()] == left
