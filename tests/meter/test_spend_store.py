"""Spend out of the ledger: the database's sums are Python's, whatever their size, and nobody sees another's."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import groupby

import pytest

from domain.errors import AccessError
from domain.period import HOUR_US
from meter.bills.invoice_store import load_draft
from meter.bills.spend import SpendRow
from meter.bills.spend_store import charged_dates, spend_by_day
from meter.ledger.ledger_store import Window, load_charges, save_window
from meter.rating.charges import Charge
from store.access import Principal, Role
from store.database import Database
from store.tenants import create_project, create_tenant
from tests.meter.charges import make_charge
from tests.meter.fixture_types import MakeRate
from tests.meter.hour import START_US

Fill = Callable[..., None]
Spend = Callable[..., list[SpendRow]]
ACME = Principal("tok_a", Role.TENANT, tenant="acme")
GLOBEX = Principal("tok_g", Role.TENANT, tenant="globex")


@pytest.fixture
def fill(ledger: Database, operator: Principal) -> Fill:
    """Puts charges into the ledger, which also holds the tenant globex, each window of them settled."""
    with ledger.write() as connection:
        create_tenant(connection, operator, tenant="globex", zone="UTC", currency="USD", now_us=0)
        create_project(connection, operator, tenant="globex", project="p", now_us=0)

    def filled(*charges: Charge) -> None:
        with ledger.write() as connection:
            for start_us, its_charges in groupby(charges, lambda each: each.window_start_us):
                window = Window("n1", start_us, "settled", start_us + HOUR_US, 1, "d", 0, 0, 0, 1)
                save_window(connection, operator, window, its_charges, None)

    return filled


@pytest.fixture
def spend(ledger: Database, operator: Principal) -> Spend:
    """What somebody sees of March; the operator, unless it is said who."""

    def seen(
        who: Principal = operator, first: str = "2026-03-01", last: str = "2026-03-31", tenant: str | None = None
    ) -> list[SpendRow]:
        with ledger.read() as connection:
            return spend_by_day(connection, who, first, last, tenant=tenant)

    return seen


@pytest.fixture
def rate_id(make_rate: MakeRate) -> str:
    """A rate of the ledger's book."""
    return make_rate().rate_id


@pytest.fixture
def march(rate_id: str) -> list[Charge]:
    """Three days of both tenants, some on known devices, some without a price."""
    charges = []
    for hour in range(72):
        start_us = START_US + hour * HOUR_US
        for number, tenant in enumerate(("acme", "globex")):
            for dimension in ("gpu", "vram"):
                is_known = hour % 7 != 0 and (tenant, dimension) != ("globex", "vram")
                is_priced = hour % 11 != 0 or dimension == "vram"
                charges.append(
                    make_charge(
                        window_start_us=start_us,
                        allocation=f"a-{tenant}",
                        tenant=tenant,
                        currency=("CNY", "USD")[number],
                        dimension=dimension,
                        billing_date=f"2026-03-0{1 + (hour + 10) // 24}",
                        covered_seconds=10 - hour % 3 if is_known else None,
                        rate_id=rate_id if is_priced else None,
                        amount_nano=123_456_789_012 * (hour + 1) + number if is_priced else 0,
                    )
                )
    return charges


def _added_up(charges: Iterable[Charge]) -> dict[tuple[str, str, str, str | None], list[int | None]]:
    """By day, tenant, dimension and rate: charges, granted, covered and coverable seconds, and the exact amount."""
    groups: dict[tuple[str, str, str, str | None], list[Charge]] = defaultdict(list)
    for each in charges:
        groups[each.billing_date, each.tenant, each.dimension, each.rate_id].append(each)
    found: dict[tuple[str, str, str, str | None], list[int | None]] = {}
    for key, group in groups.items():
        known = [each for each in group if each.covered_seconds is not None]
        found[key] = [
            len(group),
            sum(each.granted_seconds for each in group),
            sum(each.covered_seconds or 0 for each in known) if known else None,
            sum(each.granted_seconds for each in known),
            sum(each.amount_nano for each in group),
        ]
    return found


def test_the_sums_are_those_of_the_charges(fill: Fill, spend: Spend, march: list[Charge]) -> None:
    fill(*march)
    rows = spend()
    sums = {
        (row.billing_date, row.tenant, row.dimension, row.rate_id): [
            row.charges,
            row.granted_seconds,
            row.covered_seconds,
            row.coverable_seconds,
            row.amount_nano,
        ]
        for row in rows
    }
    assert sums == _added_up(march)
    assert len(rows) == len(sums)
    assert {type(number) for values in sums.values() for number in values} == {int, type(None)}
    assert [row.billing_date for row in rows] == sorted(row.billing_date for row in rows)


def test_a_sum_may_be_beyond_64_bits(fill: Fill, spend: Spend, rate_id: str) -> None:
    """A dozen of the largest amounts that a charge can have: SQLite's own sum of them is an error."""
    largest = 2**63 - 1
    charge = make_charge(rate_id=rate_id, amount_nano=largest)
    fill(*(replace(charge, window_start_us=START_US + hour * HOUR_US) for hour in range(12)))
    (row,) = spend()
    assert row.amount_nano == 12 * largest


@pytest.mark.usefixtures("ledger")
def test_a_ledger_without_charges_gives_nothing(ledger: Database, operator: Principal, spend: Spend) -> None:
    assert spend() == []
    with ledger.read() as connection:
        assert charged_dates(connection, operator) is None


def test_both_dates_are_included(fill: Fill, spend: Spend, march: list[Charge]) -> None:
    fill(*march)
    assert {row.billing_date for row in spend(first="2026-03-02", last="2026-03-03")} == {"2026-03-02", "2026-03-03"}
    assert {row.billing_date for row in spend(first="2026-03-02", last="2026-03-02")} == {"2026-03-02"}
    assert spend(first="2026-03-05") == []


def test_a_tenant_sees_its_own_spend_and_staff_all_or_one(
    ledger: Database, fill: Fill, spend: Spend, march: list[Charge], operator: Principal
) -> None:
    fill(*march)
    assert {row.tenant for row in spend(ACME)} == {"acme"}
    assert {row.tenant for row in spend(GLOBEX)} == {"globex"}
    assert spend(ACME, tenant="globex") == []
    assert {row.tenant for row in spend()} == {"acme", "globex"}
    assert spend(tenant="globex") == spend(GLOBEX) == [row for row in spend() if row.tenant == "globex"]
    assert spend(tenant="nobody") == []
    with ledger.read() as connection, pytest.raises(AccessError):
        spend_by_day(connection, Principal("n", Role.NODE, node="n1"), "2026-03-01", "2026-03-31")


@pytest.mark.parametrize("days", [("2026-03-01", "2026-03-31"), ("2026-03-02", "2026-03-02")])
@pytest.mark.parametrize("tenant", ["acme", "globex"])
def test_what_is_payable_adds_up_to_the_draft_invoice(
    ledger: Database,
    fill: Fill,
    spend: Spend,
    march: list[Charge],
    operator: Principal,
    tenant: str,
    days: tuple[str, str],
) -> None:
    """Also where the operator asks for all tenants at once, and line by line."""
    fill(*march)
    with ledger.read() as connection:
        draft = load_draft(connection, operator, tenant, *days)
    rows = [row for row in spend(first=days[0], last=days[1]) if row.tenant == tenant]
    assert sum(row.payable_nano for row in rows) == draft.total_nano > 0
    for line in draft.lines:
        rate = line.rate.rate_id if line.rate else None
        its_days = [row for row in rows if (row.dimension, row.rate_id) == (line.dimension, rate)]
        assert sum(row.payable_nano for row in its_days) == line.payable_nano


def test_the_dates_with_charges_are_those_that_one_may_see(
    ledger: Database, fill: Fill, operator: Principal, march: list[Charge]
) -> None:
    early = make_charge(
        window_start_us=START_US - 100 * HOUR_US, billing_date="2026-02-25", tenant="globex", currency="USD"
    )
    fill(early, *march)
    with ledger.read() as connection:
        assert charged_dates(connection, operator) == ("2026-02-25", "2026-03-04")
        assert charged_dates(connection, operator, tenant="acme") == ("2026-03-01", "2026-03-04")
        assert charged_dates(connection, ACME) == ("2026-03-01", "2026-03-04")
        assert charged_dates(connection, ACME, tenant="globex") is None
        assert len(load_charges(connection, operator)) == len(march) + 1
