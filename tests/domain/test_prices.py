"""Which rate is in force: the most specific one, second by second, and no two that contradict each other."""

from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.errors import InputError
from domain.money import Quote
from domain.period import Period
from domain.prices import GapRules, PriceBook, Rate, check_overlaps

US = 1_000_000


def _rate(
    sku: str = "*",
    tenant: str | None = None,
    project: str | None = None,
    start_s: int = 0,
    end_s: int | None = None,
    *,
    dimension: str = "gpu",
    price: str = "1",
) -> Rate:
    name = "|".join(map(str, (dimension, sku, tenant, project, start_s, price)))
    end_us = None if end_s is None else end_s * US
    return Rate(name, dimension, sku, tenant, project, Quote(Decimal(price), "GPU-hour"), None, start_s * US, end_us)


def _book(*rates: Rate) -> PriceBook:
    return PriceBook("retail", "CNY", GapRules(), rates)


def _pieces(book: PriceBook, period: Period, sku: str = "a100-80g/1g.10gb") -> list[tuple[int, int, Rate | None]]:
    found = book.pieces("gpu", sku, "acme", "vision", period)
    return [(piece.start_us // US, piece.end_us // US, rate) for piece, rate in found]


# Most specific first, the order that domain/prices.py promises.
LADDER = [
    _rate("a100-80g/1g.10gb", "acme", "vision"),
    _rate("a100-80g", "acme", "vision"),
    _rate("*", "acme", "vision"),
    _rate("a100-80g/1g.10gb", "acme"),
    _rate("a100-80g", "acme"),
    _rate("*", "acme"),
    _rate("a100-80g/1g.10gb"),
    _rate("a100-80g"),
    _rate("*"),
]


@pytest.mark.parametrize("first", range(len(LADDER)))
def test_the_most_specific_rate_wins_whatever_the_order(first: int) -> None:
    """Tenant with project, tenant, SKU with profile, SKU, any; who comes before what."""
    rates = LADDER[first:]
    for order in (rates, rates[::-1]):
        assert _pieces(_book(*order), Period(0, US)) == [(0, 1, LADDER[first])]


@pytest.mark.parametrize(
    "rate",
    [
        _rate("a100-40g"),
        _rate("a100-80g/2g.20gb"),
        _rate("a100"),
        _rate("*", "globex"),
        _rate("*", "acme", "speech"),
        _rate("*", dimension="vram"),
    ],
)
def test_a_rate_for_something_else_does_not_apply(rate: Rate) -> None:
    assert _pieces(_book(rate), Period(0, US)) == [(0, 1, None)]


def test_a_rate_of_a_profile_does_not_price_the_whole_card() -> None:
    assert _pieces(_book(_rate("a100-80g/1g.10gb")), Period(0, US), sku="a100-80g") == [(0, 1, None)]


def test_a_price_of_zero_is_a_price() -> None:
    free = _rate(price="0")
    assert _pieces(_book(free), Period(0, US)) == [(0, 1, free)]


def test_a_special_price_interrupts_the_general_one() -> None:
    general, special = _rate("*"), _rate("*", "acme", start_s=10, end_s=20)
    assert _pieces(_book(general, special), Period(0, 30 * US)) == [
        (0, 10, general),
        (10, 20, special),
        (20, 30, general),
    ]


@st.composite
def _books(draw: st.DrawFn) -> PriceBook:
    rates: list[Rate] = []
    for scope in draw(st.lists(st.sampled_from(LADDER), unique_by=lambda rate: rate.rate_id, max_size=5)):
        cuts = sorted(draw(st.lists(st.integers(-5, 40), min_size=2, max_size=6, unique=True)))
        for index, (start, end) in enumerate(pairwise(cuts)):
            if draw(st.booleans()):
                last = index == len(cuts) - 2 and draw(st.booleans())
                rates.append(_rate(scope.sku, scope.tenant, scope.project, start, None if last else end))
    return _book(*draw(st.permutations(rates)))


@given(_books(), st.integers(0, 40), st.integers(1, 40))
@settings(deadline=None)
def test_pieces_are_what_each_second_says(book: PriceBook, start_s: int, length_s: int) -> None:
    """Against a search by hand, second by second; in order, without gap or overlap, and as few as possible."""
    pieces = _pieces(book, Period(start_s * US, (start_s + length_s) * US))
    by_second = [rate for first, after, rate in pieces for _ in range(first, after)]
    assert by_second == [_by_hand(book, second) for second in range(start_s, start_s + length_s)]
    assert [first for first, _, _ in pieces][1:] == [after for _, after, _ in pieces][:-1]
    assert all(left[2] is not right[2] for left, right in pairwise(pieces))
    check_overlaps(book.rates)


def _by_hand(book: PriceBook, second_s: int) -> Rate | None:
    for scope in LADDER:
        for rate in book.rates:
            is_that = (rate.sku, rate.tenant, rate.project) == (scope.sku, scope.tenant, scope.project)
            is_on = rate.start_us <= second_s * US and (rate.end_us is None or second_s * US < rate.end_us)
            if is_that and is_on:
                return rate
    return None


def test_an_empty_period_has_no_pieces() -> None:
    assert _pieces(_book(_rate()), Period(US, US)) == []


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (_rate(), _rate(price="2")),
        (_rate(), _rate(start_s=5, price="2")),
        (_rate(end_s=10), _rate(start_s=9, end_s=20)),
        (_rate(end_s=100), _rate(start_s=10, end_s=20)),
        (_rate("a100-80g", "acme", "vision"), _rate("a100-80g", "acme", "vision", start_s=7)),
    ],
)
def test_two_rates_of_one_scope_at_one_time_are_refused(earlier: Rate, later: Rate) -> None:
    for order in ([earlier, later], [later, earlier]):
        with pytest.raises(InputError, match=r"cannot use two rates for 'gpu' of .* end the first with `to`"):
            check_overlaps(order)


def test_the_contradiction_names_scope_instant_and_prices() -> None:
    with pytest.raises(InputError) as refused:
        check_overlaps([_rate("*", "acme", "vision"), _rate("*", "acme", "vision", 3_600, price="2.50")])
    assert str(refused.value) == (
        "cannot use two rates for 'gpu' of '*', tenant 'acme', project 'vision' at 1970-01-01T01:00:00Z: 1 and 2.50; "
        "end the first with `to`"
    )


def test_rates_that_follow_each_other_or_differ_in_scope_do_not_contradict() -> None:
    check_overlaps([*LADDER, *(_rate(dimension=name) for name in ("vram", "vram_overuse"))])
    check_overlaps([_rate(start_s=10), _rate(end_s=10)])


@pytest.mark.parametrize("order", [1, -1])
def test_a_rate_that_was_ended_at_its_own_start_contradicts_nothing(order: int) -> None:
    """So a rate that was loaded by mistake can be withdrawn, and the right one begin at the same instant."""
    withdrawn, right = _rate(start_s=10, end_s=10), _rate(start_s=10, price="2")
    check_overlaps([withdrawn, right][::order])
    check_overlaps([_rate(end_s=100), withdrawn][::order])
    assert _pieces(_book(withdrawn, right), Period(0, 20 * US)) == [(0, 10, None), (10, 20, right)]
