"""Price books in the database: append-only, so that no bill is repriced behind a tenant's back."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import insert, select

from domain.clock import MICROSECONDS, FrozenClock
from domain.errors import ConflictError, GputabError, InputError, NotFoundError
from domain.money import Quote
from domain.prices import GapPolicy, GapRules, PriceBook, Rate, VramBasis
from meter.prices.price_store import load_book, load_books, load_named_book, load_rates
from meter.windows.passes import rate_period
from store.access import Principal
from store.database import Database
from store.tables.access import audit, tenants
from store.tables.billing import rates
from tests.meter.fixture_types import At, Everything, MakeGrant, MakeRate, MakeRater, PutGrants, Recorded, UseOf
from tests.meter.hour import HOUR_S, instant_us, stretch


def _rate(
    name: str = "rate_1",
    price: str = "2.20",
    start_s: int = HOUR_S,
    end_s: int | None = None,
    *,
    tenant: str | None = None,
    sku: str = "*",
    dimension: str = "gpu",
) -> Rate:
    basis = VramBasis.MAX if dimension == "vram" else None
    unit = "GiB-hour" if dimension == "vram" else "GPU-hour"
    end_us = None if end_s is None else end_s * MICROSECONDS
    return Rate(name, dimension, sku, tenant, None, Quote(Decimal(price), unit), basis, start_s * MICROSECONDS, end_us)


def _book(*rates_: Rate, **changes: Any) -> PriceBook:
    return replace(PriceBook("partner", "CNY", GapRules(), rates_), **changes)


@pytest.fixture
def load(ledger: Database, operator: Principal) -> Callable[..., tuple[int, int]]:
    def loaded(book: PriceBook) -> tuple[int, int]:
        with ledger.write() as connection:
            return load_book(connection, operator, book, now_us=5)

    return loaded


@pytest.fixture
def show(ledger: Database, operator: Principal) -> Callable[[], PriceBook]:
    def shown() -> PriceBook:
        with ledger.read() as connection:
            return load_named_book(connection, operator, "partner")

    return shown


def test_a_book_comes_back_as_it_was_loaded(load: Callable[..., Any], show: Callable[[], PriceBook]) -> None:
    """Prices to the last digit as they were quoted."""
    book = _book(
        _rate("rate_1", "2.20", HOUR_S, HOUR_S + 60),
        _rate("rate_2", "1E+2", HOUR_S + 60, tenant="acme"),
        _rate("rate_3", "0.000000000001", HOUR_S + 60, dimension="vram"),
        gaps=GapRules(7, GapPolicy.ON_RECORD, GapPolicy.FREE, GapPolicy.ON_RECORD),
    )
    assert load(book) == (3, 0)
    assert show() == book
    assert [str(each.quote.price) for each in show().rates] == ["2.20", "1E+2", "1E-12"]


def test_loading_again_changes_nothing(ledger: Database, load: Callable[..., Any], everything: Everything) -> None:
    book = _book(_rate(), _rate("rate_2", dimension="vram"))
    load(book)
    before = everything()
    assert load(book) == (0, 0)
    assert load(replace(book, rates=book.rates[::-1])) == (0, 0)
    assert everything() == before


def test_new_rates_are_added_and_open_ones_ended(load: Callable[..., Any], show: Callable[[], PriceBook]) -> None:
    load(_book(_rate()))
    changed = _book(_rate(end_s=HOUR_S + 100), _rate("rate_2", "3", HOUR_S + 100), _rate("rate_3", dimension="vram"))
    assert load(changed) == (2, 1)
    assert sorted(show().rates, key=lambda each: each.rate_id) == list(changed.rates)


def test_a_rate_says_when_it_was_last_written(ledger: Database, operator: Principal) -> None:
    """So that hours that were rated before that are rated again; a rate that stays as it is keeps its time."""

    def load_at(now_us: int, *rates_: Rate) -> dict[str, int]:
        with ledger.write() as connection:
            load_book(connection, operator, _book(*rates_), now_us=now_us)
            found = connection.execute(select(rates.c.rate_id, rates.c.changed_us).where(rates.c.book == "partner"))
            return {row.rate_id: row.changed_us for row in found}

    kept, vram = _rate("rate_1", tenant="acme"), _rate("rate_2", dimension="vram")
    assert load_at(5, kept, vram) == {"rate_1": 5, "rate_2": 5}
    assert load_at(6, kept, vram) == {"rate_1": 5, "rate_2": 5}
    ended = replace(vram, end_us=(HOUR_S + 60) * MICROSECONDS)
    assert load_at(7, kept, ended, _rate("rate_3")) == {"rate_1": 5, "rate_2": 7, "rate_3": 7}


def test_a_rate_that_is_left_out_stays(load: Callable[..., Any], show: Callable[[], PriceBook]) -> None:
    """A book is append-only: what it once said ends by a `to`, and not by being deleted from a file."""
    load(_book(_rate(), _rate("rate_2", dimension="vram")))
    assert load(_book(_rate())) == (0, 0)
    assert len(show().rates) == 2


def test_a_rate_that_was_loaded_by_mistake_can_be_withdrawn(
    load: Callable[..., Any], show: Callable[[], PriceBook]
) -> None:
    """Nothing was charged by it: it ends where it began, and the right one begins there."""
    load(_book(_rate("rate_9", "22.0")))
    assert load(_book(_rate("rate_9", "22.0", end_s=HOUR_S), _rate("rate_1", "2.20"))) == (1, 1)
    period = stretch(0, 60)
    ((_, in_force),) = show().pieces("gpu", "rtx4090-24g", "acme", "p", period)
    assert in_force is not None
    assert in_force.rate_id == "rate_1"


@pytest.mark.parametrize(
    ("changed", "error", "problem"),
    [
        (
            _book(_rate(), currency="USD"),
            ConflictError,
            "cannot change the book 'partner', currency from 'CNY' to 'USD': load it under another name",
        ),
        (
            _book(_rate(), gaps=GapRules(9, GapPolicy.ON_RECORD)),
            ConflictError,
            "cannot change the book 'partner', bridge_seconds from 3 to 9, host_unreachable from 'free' to 'on_record'",
        ),
        (_book(_rate(), _rate("rate_2", "3")), InputError, "cannot use two rates for 'gpu' of '\\*'"),
        (_book(_rate("rate_2", "3", HOUR_S + 60)), InputError, "cannot use two rates for 'gpu'"),
        (_book(_rate("rate_2", "3", HOUR_S - 60)), InputError, "cannot use two rates for 'gpu'"),
        (_book(_rate("rate_2", tenant="nobody")), NotFoundError, "cannot price for the tenant 'nobody'"),
        (
            _book(replace(_rate("rate_2", tenant="acme"), project="r")),
            NotFoundError,
            "cannot price for the project 'r' of 'acme': there is none of that name; run `gputab tenant project`",
        ),
        (
            _book(_rate("rate_2", "3", dimension="vram"), _rate("rate_3", "4", dimension="vram")),
            InputError,
            "cannot use two rates for 'vram'",
        ),
    ],
)
def test_a_book_that_contradicts_what_is_loaded_is_refused_whole(
    load: Callable[..., Any], everything: Everything, changed: PriceBook, error: type[GputabError], problem: str
) -> None:
    load(_book(_rate()))
    before = everything()
    with pytest.raises(error, match=f"^{problem}") as refused:
        load(changed)
    assert "\n" not in str(refused.value)
    assert everything() == before


def test_an_end_is_for_ever(load: Callable[..., Any], show: Callable[[], PriceBook]) -> None:
    load(_book(_rate(end_s=HOUR_S + 100)))
    for end_s in (HOUR_S + 50, HOUR_S + 200, None):
        with pytest.raises(ConflictError, match=r"^cannot move the end of the rate 2.20 per GPU-hour from .*10:01:40Z"):
            load(_book(_rate(end_s=end_s)))
    assert show().rates[0].end_us == (HOUR_S + 100) * MICROSECONDS


@pytest.mark.parametrize(("end", "is_refused"), [(-1, True), (3_599, True), (3_600, False), (9_000, False)])
def test_d50_a_rate_is_not_ended_under_the_charges_that_stand_on_it(
    ledger: Database,
    operator: Principal,
    make_rater: MakeRater,
    put_grants: PutGrants,
    make_grant: MakeGrant,
    make_rate: MakeRate,
    recorded: Recorded,
    use_of: UseOf,
    at: At,
    end: int,
    is_refused: bool,
) -> None:
    """What was billed in an hour keeps its price; the end may be the next hour's beginning (Koku 6020)."""
    put_grants(make_grant(0, 600))
    rater = make_rater(recorded(use_of(range(3_600)), 3_700))
    list(rate_period(ledger, operator, rater, stretch(0, 60), FrozenClock(at(4_000)), pytest.fail))
    with ledger.write() as connection:
        book = load_named_book(connection, operator, "retail")
        ended = replace(book, rates=tuple(replace(each, end_us=instant_us(end)) for each in book.rates))
        if is_refused:
            with pytest.raises(ConflictError, match=r"^cannot end the rate .* before 2026-03-01T11:00:00Z"):
                load_book(connection, operator, ended, now_us=5)
        else:
            assert load_book(connection, operator, ended, now_us=5) == (0, 2)


def test_books_do_not_mix(ledger: Database, load: Callable[..., Any], operator: Principal) -> None:
    load(_book(_rate()))
    with ledger.read() as connection:
        books = load_books(connection, operator)
    assert set(books) == {"partner", "retail"}
    assert [each.rate_id for each in books["partner"].rates] == ["rate_1"]
    assert len(books["retail"].rates) == 2


def test_a_book_that_is_not_there_is_named_with_those_that_are(ledger: Database, operator: Principal) -> None:
    with (
        ledger.read() as connection,
        pytest.raises(NotFoundError, match=r"'nothing': loaded are retail; run `gputab prices load`$"),
    ):
        load_named_book(connection, operator, "nothing")


def test_rates_are_found_by_id(ledger: Database, load: Callable[..., Any], operator: Principal) -> None:
    load(_book(_rate(), _rate("rate_2", dimension="vram")))
    with ledger.read() as connection:
        found = load_rates(connection, operator, {"rate_2", "rate_404"})
        assert load_rates(connection, operator, set()) == {}
    assert list(found) == ["rate_2"]


def test_loading_is_on_record(ledger: Database, load: Callable[..., Any]) -> None:
    load(_book(_rate()))
    load(_book(_rate()))
    with ledger.read() as connection:
        rows = connection.execute(select(audit).where(audit.c.at_us == 5)).all()
    assert [(row.principal, row.action, row.subject) for row in rows] == [
        ("local", "load prices", "partner +1 ended 0")
    ]


def test_what_a_sheet_says_cannot_become_sql(ledger: Database, load: Callable[..., Any]) -> None:
    """Values are bound, so a quote in a name is a quote in a name (Lago 6121)."""
    with ledger.write() as connection:
        name = "x'); DROP TABLE rates; --"
        connection.execute(insert(tenants).values(tenant=name, billing_zone="UTC", currency="CNY", created_us=0))
    load(_book(_rate(tenant=name)))
    with ledger.read() as connection:
        assert connection.execute(select(rates.c.tenant).where(rates.c.rate_id == "rate_1")).scalar_one() == name
