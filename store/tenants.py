"""Tenants, their projects, and the price book each is rated by."""

from sqlalchemy import Connection, insert, select

from domain.errors import ConflictError, InputError, NotFoundError
from domain.money import check_currency
from domain.period import billing_zone
from domain.slugs import check_slug
from domain.tenants import Tenant
from store.access import Principal, Role, record
from store.database import serialize
from store.tables.access import projects, tenant_books, tenants
from store.tables.billing import price_books


def create_tenant(
    connection: Connection, principal: Principal, *, tenant: str, zone: str, currency: str, now_us: int
) -> None:
    """Add a tenant; its name, billing zone and currency are for ever."""
    principal.require(Role.OPERATOR, Role.BILLING)
    check_slug("tenant", tenant)
    billing_zone(zone)
    check_currency(currency)
    if connection.execute(select(tenants.c.tenant).where(tenants.c.tenant == tenant)).one_or_none():
        raise ConflictError(
            f"cannot create the tenant {tenant!r}: there is one of that name; choose another, or add to it by "
            "`gputab tenant project`"
        )
    connection.execute(insert(tenants).values(tenant=tenant, billing_zone=zone, currency=currency, created_us=now_us))
    record(connection, principal, "create tenant", tenant, now_us)


def create_project(connection: Connection, principal: Principal, *, tenant: str, project: str, now_us: int) -> None:
    """Add a project to a tenant that there is; creating one that is there changes nothing."""
    principal.require(Role.OPERATOR, Role.BILLING)
    check_slug("project", project)
    if connection.execute(select(tenants.c.tenant).where(tenants.c.tenant == tenant)).one_or_none() is None:
        raise NotFoundError(f"cannot find the tenant {tenant!r}: see `gputab tenant list`")
    known = select(projects.c.project).where(projects.c.tenant == tenant, projects.c.project == project)
    if connection.execute(known).one_or_none() is None:
        connection.execute(insert(projects).values(tenant=tenant, project=project, created_us=now_us))
        record(connection, principal, "create project", f"{tenant}/{project}", now_us)


def assign_book(
    connection: Connection, principal: Principal, *, tenant: str, book: str, start_us: int, now_us: int
) -> None:
    """Rate the tenant by `book` from `start_us` on; the book must be in the tenant's currency."""
    principal.require(Role.OPERATOR, Role.BILLING)
    # Of two that are said at once the second must see the first, whichever begins earlier.
    serialize(connection, f"books of {tenant}")
    who = load_tenant(connection, principal, tenant)
    currency = connection.execute(select(price_books.c.currency).where(price_books.c.book == book)).scalar_one_or_none()
    if currency is None:
        raise NotFoundError(f"cannot find the price book {book!r}: load it with `gputab prices load`")
    if currency != who.currency:
        raise InputError(
            f"cannot rate the tenant {tenant!r} in {who.currency} by the book {book!r} in {currency}: use a book in "
            f"{who.currency}"
        )
    if who.books and who.books[-1] == (start_us, book):
        return
    if who.books and start_us <= who.books[-1][0]:
        raise ConflictError(
            f"cannot assign the book {book!r} to {tenant!r} before the last assignment, to {who.books[-1][1]!r}: "
            "choose a later start"
        )
    connection.execute(insert(tenant_books).values(tenant=tenant, book=book, start_us=start_us, changed_us=now_us))
    record(connection, principal, "assign book", f"{tenant} {book}", now_us)


def load_tenant(connection: Connection, principal: Principal, tenant: str) -> Tenant:
    """One tenant; NotFoundError where there is none or the principal may not see it."""
    principal.require_tenant(tenant)
    found = [each for each in load_tenants(connection, principal) if each.tenant == tenant]
    if not found:
        raise NotFoundError(f"cannot find the tenant {tenant!r}: see `gputab tenant list`")
    return found[0]


def load_tenants(connection: Connection, principal: Principal) -> list[Tenant]:
    """Every tenant the principal may see, by name."""
    books: dict[str, list[tuple[int, str]]] = {}
    for row in connection.execute(select(tenant_books).order_by(tenant_books.c.start_us)):
        books.setdefault(row.tenant, []).append((row.start_us, row.book))
    rows = connection.execute(select(tenants).where(principal.sees(tenants.c.tenant)).order_by(tenants.c.tenant))
    return [
        Tenant(row.tenant, billing_zone(row.billing_zone), row.currency, tuple(books.get(row.tenant, ())))
        for row in rows
    ]


def load_projects(connection: Connection, principal: Principal) -> set[tuple[str, str]]:
    """Every (tenant, project) the principal may see."""
    rows = connection.execute(select(projects.c.tenant, projects.c.project).where(principal.sees(projects.c.tenant)))
    return {(row.tenant, row.project) for row in rows}
