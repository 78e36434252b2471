"""A price that is said late makes the hours due in which it is in force, and none that are closed."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import select, update

from domain.clock import FrozenClock
from domain.period import HOUR_US
from domain.prices import GapRules, PriceBook, Rate
from meter.prices.price_store import load_book, load_named_book
from store.access import Principal
from store.database import Database
from store.tables.billing import windows
from store.tenants import assign_book, create_project, create_tenant
from tests.meter.backlogs import Backlog
from tests.meter.charges import gpu_charges
from tests.meter.fixture_types import At, MakeGrant, MakeRate, PutGrants
from tests.meter.hour import START_US
from tests.meter.ledgers import charges_of, end_cards


@pytest.fixture
def price(ledger: Database, operator: Principal, database_clock: FrozenClock) -> Callable[..., None]:
    """Loads rates into the book `retail`, now."""

    def load(*rates: Rate) -> None:
        with ledger.write() as connection:
            book = PriceBook("retail", "CNY", GapRules(), rates)
            load_book(connection, operator, book, now_us=database_clock.now_us())

    return load


@pytest.mark.usefixtures("two_hours")
def test_a_rate_that_is_said_late_reprices_the_hours_from_its_own_on(
    ledger: Database, backlog: Backlog, price: Callable[..., None], make_rate: MakeRate
) -> None:
    """From the middle of the second hour on the tenant has a price of its own; the first hour is left alone."""
    price(make_rate(price="1.10", tenant="acme", start=5_400))
    assert backlog.due() == [(1, "n1"), (2, "n1"), (3, "n1")]
    backlog.settle(4 * 3_600 + 90_000)
    assert backlog.due() == []
    assert sorted((each.granted_seconds, each.amount_nano) for each in gpu_charges(charges_of(ledger))) == [
        (1_800, 550_000_000),
        (1_800, 1_100_000_000),
        (3_600, 2_200_000_000),
    ]


@pytest.mark.usefixtures("two_hours")
def test_a_rate_that_begins_tomorrow_makes_nothing_due(
    price: Callable[..., None], make_rate: MakeRate, backlog: Backlog
) -> None:
    price(make_rate(price="1.10", tenant="acme", start=4 * 3_600 + 86_400))
    assert backlog.due() == []


@pytest.mark.usefixtures("two_hours")
def test_an_end_of_a_rate_that_is_said_late_reprices(
    ledger: Database, operator: Principal, backlog: Backlog, database_clock: FrozenClock
) -> None:
    """What comes after it is unpriced, where something is held there by the time it is rated."""
    with ledger.write() as connection:
        book = load_named_book(connection, operator, "retail")
        ended = replace(book, rates=tuple(replace(each, end_us=START_US + 2 * HOUR_US) for each in book.rates))
        load_book(connection, operator, ended, now_us=database_clock.now_us())
    assert {hour for hour, _ in backlog.due()} >= {2, 3}
    backlog.settle(4 * 3_600 + 90_000)
    assert backlog.due() == []


def test_a_book_that_is_assigned_late_prices_what_was_unpriced(
    ledger: Database, operator: Principal, backlog: Backlog, put_grants: PutGrants, make_grant: MakeGrant, at: At
) -> None:
    with ledger.write() as connection:
        create_tenant(connection, operator, tenant="globex", zone="UTC", currency="CNY", now_us=0)
        create_project(connection, operator, tenant="globex", project="p", now_us=0)
    put_grants(make_grant(0, 7_200, tenant="globex"))
    end_cards(ledger, 7_200)
    backlog.settle(7_300)

    def unpriced() -> list[int]:
        with ledger.read() as connection:
            return list(connection.execute(select(windows.c.unpriced_seconds).order_by(windows.c.start_us)).scalars())

    assert unpriced() == [7_200, 7_200]
    start_us, now_us = START_US + HOUR_US, at(50_000)
    with ledger.write() as connection:
        assign_book(connection, operator, tenant="globex", book="retail", start_us=start_us, now_us=now_us)
    assert backlog.due() == [(1, "n1")]
    backlog.settle(50_100)
    assert backlog.due() == []
    assert unpriced() == [7_200, 0]


@pytest.mark.usefixtures("two_hours")
def test_a_closed_window_is_never_due_again(
    ledger: Database,
    put_grants: PutGrants,
    make_grant: MakeGrant,
    price: Callable[..., None],
    make_rate: MakeRate,
    backlog: Backlog,
) -> None:
    """What is late then is for a correction."""
    with ledger.write() as connection:
        connection.execute(update(windows).where(windows.c.start_us == START_US).values(state="closed"))
        before = connection.execute(select(windows).where(windows.c.state == "closed")).all()
    put_grants(make_grant(0, 7_200, allocation="late", gpu_uuid="GPU-2"))
    price(make_rate(price="1.10", tenant="acme"))
    assert (0, "n1") not in backlog.due()
    assert (1, "n1") in backlog.due()
    with ledger.read() as connection:
        assert connection.execute(select(windows).where(windows.c.state == "closed")).all() == before
