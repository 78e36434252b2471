"""What each principal gets out of a ledger in which two tenants have the same of everything."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection

from domain.errors import AccessError
from domain.period import Period
from meter.bills.invoice_store import load_draft
from meter.ledger.ledger_store import Window, load_charges, save_window
from meter.prices.price_store import load_rates
from store.access import Principal, Role
from store.capacity import load_grants
from store.database import Database
from store.tenants import load_projects, load_tenants
from tests.meter.charges import make_charge
from tests.store.legal_rows import HOUR_US, put

ALL = Period(0, 2**62)


@pytest.fixture
def billed(two_tenants: Database, operator: Principal) -> Database:
    """Both tenants charged in one window, each by a rate of its own and one for everybody."""
    charge = make_charge(allocation="a-acme", rate_id="rate_acme", amount_nano=7)
    with two_tenants.write() as connection:
        put(connection, "price_books")
        for tenant in ("acme", "globex", None):
            of_gpus = {"dimension": "gpu", "unit": "GPU-hour", "basis": None}
            put(connection, "rates", rate_id=f"rate_{tenant}", tenant=tenant, project=None, **of_gpus)
        window = Window("n1", HOUR_US, "open", HOUR_US + 10_000_000, 0, None, 0, 0, 0, None)
        other = replace(charge, tenant="globex", allocation="a-globex", rate_id="rate_globex", amount_nano=9)
        save_window(connection, operator, window, [charge, other], None)
    return two_tenants


# What a query gives, as the tenants whose rows are among it.
QUERIES: dict[str, Callable[[Connection, Principal], set[str]]] = {
    "grants": lambda c, who: {grant.tenant for grant in load_grants(c, who, ALL)},
    "grants of cards": lambda c, who: {g.tenant for g in load_grants(c, who, ALL, gpu_uuids=["GPU-0", "GPU-1"])},
    "grants of a node": lambda c, who: {grant.tenant for grant in load_grants(c, who, ALL, node="n1")},
    "tenants": lambda c, who: {tenant.tenant for tenant in load_tenants(c, who)},
    "projects": lambda c, who: {tenant for tenant, _ in load_projects(c, who)},
    "charges": lambda c, who: {charge.tenant for charge in load_charges(c, who)},
    "charges of a day": lambda c, who: {charge.tenant for charge in load_charges(c, who, first_date="2026-03-01")},
    "own rates": lambda c, who: {
        rate.tenant
        for rate in load_rates(c, who, ["rate_acme", "rate_globex", "rate_None"]).values()
        if rate.tenant is not None
    },
}


@pytest.mark.parametrize("query", QUERIES)
def test_a_tenant_gets_its_own_rows_only_and_staff_gets_all(billed: Database, query: str) -> None:
    with billed.read() as connection:
        seen: dict[Any, set[str]] = {
            who: QUERIES[query](connection, Principal("p", role, tenant=tenant))
            for who, role, tenant in [
                ("acme", Role.TENANT, "acme"),
                ("globex", Role.TENANT, "globex"),
                ("initech", Role.TENANT, "initech"),
                ("billing", Role.BILLING, None),
                ("operator", Role.OPERATOR, None),
            ]
        }
    both = {"acme", "globex"}
    assert seen == {"acme": {"acme"}, "globex": {"globex"}, "initech": set(), "billing": both, "operator": both}


@pytest.mark.parametrize("query", QUERIES)
def test_a_node_gets_nothing(billed: Database, query: str) -> None:
    with billed.read() as connection, pytest.raises(AccessError):
        QUERIES[query](connection, Principal("p", Role.NODE, node="n1"))


def test_naming_another_tenant_does_not_help(billed: Database, acme: Principal) -> None:
    with billed.read() as connection:
        assert load_charges(connection, acme, tenant="globex") == []
        assert load_grants(connection, acme, ALL, tenant="globex") == []


def test_an_invoice_holds_one_tenants_charges(billed: Database, acme: Principal, operator: Principal) -> None:
    with billed.read() as connection:
        for who in (acme, operator):
            draft = load_draft(connection, who, "acme", "2026-03-01", "2026-03-31")
            assert [line.amount_nano for line in draft.lines] == [7]


def test_a_rate_for_everybody_is_seen_by_every_tenant(billed: Database, acme: Principal) -> None:
    with billed.read() as connection:
        assert set(load_rates(connection, acme, ["rate_None", "rate_globex"])) == {"rate_None"}
