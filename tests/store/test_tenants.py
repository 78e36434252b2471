"""Tenants, projects and which book a tenant is rated by."""

from threading import Thread
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import select

from domain.errors import ConflictError, GputabError, InputError, NotFoundError
from domain.tenants import Tenant
from store.access import Principal
from store.database import Database
from store.tables.access import audit, tenant_books, tenants
from store.tenants import assign_book, create_project, create_tenant, load_projects, load_tenant, load_tenants
from tests.store.legal_rows import HOUR_US as NOW_US
from tests.store.legal_rows import put


@pytest.fixture
def with_books(two_tenants: Database) -> Database:
    """Two books in CNY and one in USD."""
    with two_tenants.write() as connection:
        for book, currency in (("retail", "CNY"), ("partner", "CNY"), ("export", "USD")):
            put(connection, "price_books", book=book, currency=currency)
    return two_tenants


def test_a_tenant_comes_back_as_it_was_made(database: Database, operator: Principal) -> None:
    with database.write() as connection:
        create_tenant(connection, operator, tenant="acme", zone="Asia/Shanghai", currency="CNY", now_us=NOW_US)
        assert load_tenant(connection, operator, "acme") == Tenant("acme", ZoneInfo("Asia/Shanghai"), "CNY", ())
        assert [(row.action, row.subject) for row in connection.execute(select(audit))] == [("create tenant", "acme")]


@pytest.mark.parametrize(
    ("tenant", "zone", "currency", "problem"),
    [
        ("Acme", "UTC", "CNY", "cannot use 'Acme' as a tenant"),
        ("acme", "Mars/Olympus", "CNY", "cannot find the time zone 'Mars/Olympus'"),
        ("acme", "UTC", "cny", "cannot use 'cny' as a currency: write its ISO 4217 code"),
        ("acme", "UTC", "", "cannot use '' as a currency"),
        ("acme", "UTC", "ÄÖÜ", "cannot use 'ÄÖÜ' as a currency"),
        ("acme", "UTC", "C1Y", "cannot use 'C1Y' as a currency"),
    ],
)
def test_a_tenant_that_cannot_be_billed_is_not_made(
    database: Database, operator: Principal, tenant: str, zone: str, currency: str, problem: str
) -> None:
    with database.write() as connection:
        with pytest.raises(InputError, match=f"^{problem}"):
            create_tenant(connection, operator, tenant=tenant, zone=zone, currency=currency, now_us=NOW_US)
        assert connection.execute(select(tenants)).all() == []


def test_a_name_is_taken_once(two_tenants: Database, operator: Principal) -> None:
    with two_tenants.write() as connection, pytest.raises(ConflictError, match=r"^cannot create the tenant 'acme'"):
        create_tenant(connection, operator, tenant="acme", zone="Asia/Tokyo", currency="JPY", now_us=NOW_US)


def test_making_a_project_again_changes_nothing(two_tenants: Database, operator: Principal) -> None:
    with two_tenants.write() as connection:
        for _ in range(2):
            create_project(connection, operator, tenant="acme", project="vision", now_us=NOW_US)
        assert load_projects(connection, operator) == {("acme", "p"), ("acme", "vision"), ("globex", "p")}
        assert len(connection.execute(select(audit)).all()) == 1


@pytest.mark.parametrize(
    ("tenant", "project", "error"), [("nobody", "vision", NotFoundError), ("acme", "Vision!", InputError)]
)
def test_a_project_needs_its_tenant_and_a_name(
    two_tenants: Database, operator: Principal, tenant: str, project: str, error: type[GputabError]
) -> None:
    with two_tenants.write() as connection, pytest.raises(error, match=r"^cannot "):
        create_project(connection, operator, tenant=tenant, project=project, now_us=NOW_US)


def test_a_tenant_is_rated_by_one_book_after_the_other(with_books: Database, operator: Principal) -> None:
    with with_books.write() as connection:
        for book, start_us in (("retail", 10), ("partner", 20), ("retail", 30)):
            assign_book(connection, operator, tenant="acme", book=book, start_us=start_us, now_us=NOW_US)
        found = {each.tenant: each.books for each in load_tenants(connection, operator)}
    assert found == {"acme": ((10, "retail"), (20, "partner"), (30, "retail")), "globex": ()}


def test_an_assignment_says_when_it_was_said(with_books: Database, operator: Principal) -> None:
    """Which is not when it begins: hours that were rated before that are rated again."""
    with with_books.write() as connection:
        assign_book(connection, operator, tenant="acme", book="retail", start_us=10, now_us=NOW_US)
        assign_book(connection, operator, tenant="acme", book="partner", start_us=20, now_us=NOW_US + 5)
        # What is there already was said before.
        assign_book(connection, operator, tenant="acme", book="partner", start_us=20, now_us=NOW_US + 9)
        rows = connection.execute(select(tenant_books).order_by(tenant_books.c.start_us)).all()
    assert [(row.start_us, row.changed_us) for row in rows] == [(10, NOW_US), (20, NOW_US + 5)]


def test_assigning_the_same_again_changes_nothing(with_books: Database, operator: Principal) -> None:
    with with_books.write() as connection:
        for _ in range(2):
            assign_book(connection, operator, tenant="acme", book="retail", start_us=10, now_us=NOW_US)
        assert load_tenant(connection, operator, "acme").books == ((10, "retail"),)


@pytest.mark.parametrize(
    ("tenant", "book", "start_us", "error", "problem"),
    [
        ("nobody", "retail", 50, NotFoundError, "cannot find the tenant 'nobody': see `gputab tenant list`"),
        ("acme", "nothing", 50, NotFoundError, "cannot find the price book 'nothing': load it"),
        ("acme", "export", 50, InputError, "cannot rate the tenant 'acme' in CNY by the book 'export' in USD"),
        ("acme", "partner", 10, ConflictError, "cannot assign the book 'partner' to 'acme' before the last assignment"),
        ("acme", "partner", 5, ConflictError, "cannot assign the book"),
        ("acme", "retail", 5, ConflictError, "cannot assign the book"),
    ],
)
def test_the_past_is_not_assigned_anew(
    with_books: Database,
    operator: Principal,
    tenant: str,
    book: str,
    start_us: int,
    error: type[GputabError],
    problem: str,
) -> None:
    with with_books.write() as connection:
        assign_book(connection, operator, tenant="acme", book="retail", start_us=10, now_us=NOW_US)
        with pytest.raises(error, match=f"^{problem}"):
            assign_book(connection, operator, tenant=tenant, book=book, start_us=start_us, now_us=NOW_US)
        assert load_tenant(connection, operator, "acme").books == ((10, "retail"),)


def test_the_past_is_not_assigned_anew_by_two_at_once(with_books: Database, operator: Principal) -> None:
    """The second has begun before the first is written down."""
    refused: list[ConflictError] = []

    def assign_earlier() -> None:
        with with_books.write() as connection:
            try:
                assign_book(connection, operator, tenant="acme", book="partner", start_us=10, now_us=NOW_US)
            except ConflictError as error:
                refused.append(error)

    second = Thread(target=assign_earlier)
    with with_books.write() as connection:
        assign_book(connection, operator, tenant="acme", book="retail", start_us=20, now_us=NOW_US)
        second.start()
        second.join(timeout=0.2)
    second.join()
    assert len(refused) == 1
    with with_books.read() as connection:
        assert load_tenant(connection, operator, "acme").books == ((20, "retail"),)
