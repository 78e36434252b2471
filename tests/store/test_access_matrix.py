"""Every query function asks who is asking, and a tenant sees only itself."""

import importlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from domain.errors import AccessError, ConflictError, NotFoundError
from domain.period import HOUR_US, Period
from domain.prices import GapRules, PriceBook
from meter.bills import freshness_store, invoice_store, spend_store
from meter.ledger import (
    closing_store,
    corrections_store,
    daily_store,
    late_store,
    leases_store,
    ledger_store,
    unclosed_store,
)
from meter.ledger.leases_store import Lease
from meter.ledger.ledger_store import FrozenEvidence, Window
from meter.prices import price_store
from meter.windows import backlog_store, record_store
from store import access, capacity, tenants
from store.access import Principal, Role
from store.database import Database
from tests.store.legal_rows import put_two_tenants

ROOT = Path(__file__).parents[2]
ALL = Period(0, 2**62)
NOW_US = 1_772_359_200_000_000
HOUR = Period(NOW_US, NOW_US + HOUR_US)
STAFF = {Role.OPERATOR, Role.BILLING}
EVERYBODY = {*STAFF, Role.TENANT}

WINDOW = Window("n1", NOW_US, "open", NOW_US, 0, None, None, None, 0, None)
FROZEN = FrozenEvidence(1, "n1.r1.parquet", "d", 1, 0, 0, None)
BOOK = PriceBook("retail", "CNY", GapRules(), ())

# Function -> (who may call it, further arguments). Whatever is not here makes the first test below fail.
MATRIX: dict[Callable[..., Any], tuple[set[Role], dict[str, Any]]] = {
    access.create_token: ({Role.OPERATOR}, {"role": Role.OPERATOR, "now_us": NOW_US, "expires_us": NOW_US + 1}),
    access.revoke_token: ({Role.OPERATOR}, {"token_id": "tok_1", "now_us": NOW_US}),
    access.list_tokens: ({Role.OPERATOR}, {}),
    tenants.create_tenant: (STAFF, {"tenant": "initech", "zone": "UTC", "currency": "CNY", "now_us": NOW_US}),
    tenants.create_project: (STAFF, {"tenant": "acme", "project": "q", "now_us": NOW_US}),
    tenants.assign_book: (STAFF, {"tenant": "acme", "book": "retail", "start_us": NOW_US, "now_us": NOW_US}),
    tenants.load_tenant: (EVERYBODY, {"tenant": "acme"}),
    tenants.load_tenants: (EVERYBODY, {}),
    tenants.load_projects: (EVERYBODY, {}),
    capacity.load_grants: (EVERYBODY, {"period": ALL}),
    capacity.load_device_periods: (STAFF, {"period": ALL}),
    capacity.load_mig_periods: (STAFF, {"period": ALL, "gpu_uuids": ["GPU-0"]}),
    capacity.load_holds: (STAFF, {"period": ALL, "gpu_uuids": ["GPU-0"]}),
    capacity.load_device_states: (STAFF, {"period": ALL, "gpu_uuids": ["GPU-0"]}),
    capacity.load_contacts: (STAFF, {"period": ALL, "node": "n1"}),
    capacity.known_skus: (STAFF, {}),
    ledger_store.load_window: (STAFF, {"node": "n1", "start_us": NOW_US}),
    ledger_store.load_windows: (STAFF, {}),
    ledger_store.newest_rated: (STAFF, {"node": "n1"}),
    ledger_store.load_frozen: (STAFF, {"window": WINDOW}),
    ledger_store.save_window: (STAFF, {"window": WINDOW, "its_charges": [], "frozen": None}),
    ledger_store.load_charges: (EVERYBODY, {}),
    ledger_store.rated_nodes: (STAFF, {}),
    ledger_store.inventory_us: (STAFF, {"node": "n1"}),
    unclosed_store.load_unclosed: (STAFF, {}),
    unclosed_store.load_skewed: (STAFF, {"above_us": 0}),
    ledger_store.load_revisions: (STAFF, {"window": WINDOW}),
    ledger_store.save_closed: (STAFF, {"node": "n1", "start_us": NOW_US, "frozen": FROZEN}),
    ledger_store.find_charge: (EVERYBODY, {"charge_id": "ch_1"}),
    ledger_store.charge_ids: (STAFF, {"window": WINDOW}),
    daily_store.move_days: (STAFF, {}),
    daily_store.load_day: (STAFF, {"billing_date": "2026-03-01"}),
    daily_store.charged_days: (STAFF, {}),
    leases_store.take_lease: (STAFF, {"node": "n1", "start_us": NOW_US}),
    leases_store.end_lease: (STAFF, {"lease": Lease("n1", NOW_US, "h")}),
    leases_store.give_up_lease: (STAFF, {"lease": Lease("n1", NOW_US, "h")}),
    late_store.save_late: (STAFF, {"node": "n1", "start_us": NOW_US, "seconds": 0, "read_us": NOW_US}),
    late_store.late_seconds: (STAFF, {}),
    closing_store.unclosed_hours: (STAFF, {"until_us": NOW_US}),
    closing_store.close_hour: (STAFF, {"start_us": NOW_US}),
    closing_store.closed_windows: (STAFF, {"start_us": NOW_US, "its_windows": []}),
    closing_store.load_chain: (STAFF, {}),
    closing_store.is_closed: (STAFF, {"start_us": NOW_US}),
    corrections_store.save_correction: (
        STAFF,
        {"node": "", "start_us": 0, "revision": 1, "evidence_digest": "d", "reason": "r", "adjusted": []},
    ),
    corrections_store.load_corrections: (STAFF, {}),
    corrections_store.load_adjustments: (EVERYBODY, {}),
    corrections_store.closed_windows_of: (STAFF, {"allocations": ["a-acme"]}),
    corrections_store.count_corrections: (STAFF, {}),
    backlog_store.due_windows: (STAFF, {}),
    backlog_store.least_recent_windows: (STAFF, {"limit": 1}),
    backlog_store.windows_of: (STAFF, {"period": ALL}),
    record_store.read_record: (STAFF, {"node": "n1", "hour": HOUR}),
    price_store.load_book: (STAFF, {"book": BOOK, "now_us": NOW_US}),
    price_store.load_books: (STAFF, {}),
    price_store.load_named_book: (STAFF, {"book": "retail"}),
    price_store.load_rates: (EVERYBODY, {"rate_ids": ["rate_1"]}),
    invoice_store.load_draft: (
        EVERYBODY,
        {"tenant": "acme", "first_date": "2026-03-01", "last_date": "2026-03-31"},
    ),
    spend_store.spend_by_day: (EVERYBODY, {"first_date": "2026-03-01", "last_date": "2026-03-31"}),
    spend_store.charged_dates: (EVERYBODY, {}),
    freshness_store.load_freshness: (EVERYBODY, {"first_date": "2026-03-01", "last_date": "2026-03-31"}),
}
# authenticate makes the principal, record writes down what one did, now_us reads a clock, serialize waits for a turn,
# differing_parts looks at tables and at no row.
ASKS_NOBODY = {"authenticate", "record", "now_us", "serialize", "differing_parts"}
NEED_SOMETHING = {
    access.revoke_token,
    tenants.assign_book,
    price_store.load_named_book,
    ledger_store.find_charge,
    leases_store.end_lease,
    corrections_store.save_correction,
}
PRINCIPALS = {
    Role.OPERATOR: Principal("p", Role.OPERATOR),
    Role.BILLING: Principal("p", Role.BILLING),
    Role.TENANT: Principal("p", Role.TENANT, tenant="acme"),
    Role.NODE: Principal("p", Role.NODE, node="n1"),
}


def _query_functions() -> Iterator[Callable[..., Any]]:
    """Every public function of store/ and of the meter's stores that is handed a connection."""
    files = [*ROOT.glob("store/*.py"), *ROOT.glob("meter/**/*store.py")]
    for file in sorted(files):
        module = importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
        for name, function in inspect.getmembers(module, inspect.isfunction):
            takes = {each.annotation for each in inspect.signature(function).parameters.values()}
            if function.__module__ == module.__name__ and not name.startswith("_") and Connection in takes:
                yield function


def test_every_query_function_takes_a_principal_first_and_is_in_the_matrix() -> None:
    found = {function for function in _query_functions() if function.__name__ not in ASKS_NOBODY}
    for function in found:
        first, second, *_ = inspect.signature(function).parameters.values()
        assert (first.annotation, second.annotation) == (Connection, Principal), function.__qualname__
    assert found == set(MATRIX)
    assert len(found) > 25


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("function", MATRIX, ids=lambda function: function.__name__)
def test_a_role_may_do_what_the_matrix_says_and_nothing_else(
    connection: Connection, function: Callable[..., Any], role: Role
) -> None:
    """A role that may not is turned away as such, or is told that there is no such thing, before anything is read."""
    allowed, arguments = MATRIX[function]
    put_two_tenants(connection)
    if role not in allowed:
        with pytest.raises((AccessError, NotFoundError)) as refused:
            function(connection, PRINCIPALS[role], **arguments)
        assert "retail" not in str(refused.value)
        assert "tok_1" not in str(refused.value)
        if isinstance(refused.value, AccessError):
            assert refused.value.authenticated
        return
    try:
        function(connection, PRINCIPALS[role], **arguments)
    except (NotFoundError, ConflictError, IntegrityError):
        # Of an empty ledger: whoever is let in may still ask for what is not there.
        assert function in NEED_SOMETHING


@pytest.mark.parametrize("asked", ["globex", "nobody"])
def test_a_tenant_cannot_tell_another_from_one_that_is_not_there(
    two_tenants: Database, acme: Principal, asked: str
) -> None:
    """The two answers differ in nothing but the name that was asked for."""
    with two_tenants.read() as connection:
        for function in (tenants.load_tenant, invoice_store.load_draft):
            arguments = {**MATRIX[function][1], "tenant": asked}
            with pytest.raises(NotFoundError) as refused:
                function(connection, acme, **arguments)
            assert str(refused.value) == f"cannot find the tenant {asked!r}: check the name and the token"


def test_a_tenant_without_a_name_sees_nothing(two_tenants: Database) -> None:
    """A principal that was put together wrongly fails closed."""
    nobody = Principal("p", Role.TENANT)
    with two_tenants.read() as connection:
        assert tenants.load_tenants(connection, nobody) == []
        assert capacity.load_grants(connection, nobody, ALL) == []
        assert ledger_store.load_charges(connection, nobody) == []


def test_a_role_that_is_refused_learns_which_one_is_needed() -> None:
    with pytest.raises(AccessError, match=r"^cannot do this with a node token: use one of role operator or billing$"):
        PRINCIPALS[Role.NODE].require(Role.OPERATOR, Role.BILLING)
