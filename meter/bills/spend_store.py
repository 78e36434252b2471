"""What tenants spent, day by day, out of the ledger; the database adds up."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Select, case, func, select

from domain.money import NANO
from meter.bills.spend import SpendRow, with_payables
from store.access import Principal
from store.tables.access import tenants
from store.tables.billing import charges

_KEY = (
    charges.c.billing_date,
    charges.c.tenant,
    charges.c.project,
    charges.c.sku,
    charges.c.dimension,
    charges.c.rate_id,
    charges.c.quantity_whole,
    charges.c.currency,
)


def spend_by_day(
    connection: Connection, principal: Principal, first_date: str, last_date: str, *, tenant: str | None = None
) -> list[SpendRow]:
    """What the tenants that the principal may see, or one of them, spent from `first_date` to `last_date`.

    Dates are billing dates, YYYY-MM-DD, both included. By date, then tenant, project, SKU and dimension.
    """
    amount = charges.c.amount_nano
    sums = (
        func.count().label("charges"),
        func.sum(charges.c.granted_seconds).label("granted_seconds"),
        # SQL leaves null out of a sum, and makes the sum of nothing else null.
        func.sum(charges.c.covered_seconds).label("covered_seconds"),
        func.sum(case((charges.c.covered_seconds.is_not(None), charges.c.granted_seconds), else_=0)).label("coverable"),
        # A sum of some ten large amounts is beyond 64 bits, which SQLite refuses: wholes and billionths apart are not.
        func.sum(amount // NANO).label("wholes"),
        func.sum(amount % NANO).label("nanos"),
    )
    query = (
        select(*_KEY, *sums)
        .where(
            charges.c.tenant.in_(_seen(principal, tenant)),
            charges.c.billing_date >= first_date,
            charges.c.billing_date <= last_date,
        )
        .group_by(*_KEY)
    )
    rows = [_row(row) for row in connection.execute(query).mappings()]
    # Databases order null each in their own way.
    return with_payables(sorted(rows, key=lambda row: tuple(str(value or "") for value in _key(row))))


def charged_dates(connection: Connection, principal: Principal, *, tenant: str | None = None) -> tuple[str, str] | None:
    """The first and last billing date with a charge of a tenant that the principal may see; None: there is none."""
    # Asked of each tenant, the index answers; asked of all, every charge would be read.
    seen = _seen(principal, tenant).subquery()
    first, last = (
        select(extreme(charges.c.billing_date)).where(charges.c.tenant == seen.c.tenant).scalar_subquery()
        for extreme in (func.min, func.max)
    )
    found = connection.execute(select(first, last).select_from(seen)).all()
    dates = [date for row in found for date in row if date is not None]
    return (min(dates), max(dates)) if dates else None


def _seen(principal: Principal, tenant: str | None) -> Select[Any]:
    """The tenants that the principal may see; the one named, if it is among them."""
    query = select(tenants.c.tenant).where(principal.sees(tenants.c.tenant))
    return query if tenant is None else query.where(tenants.c.tenant == tenant)


def _key(row: SpendRow) -> Iterable[Any]:
    return (getattr(row, column.name) for column in _KEY)


def _row(row: Any) -> SpendRow:
    # PostgreSQL's sums of BIGINT are NUMERIC.
    return SpendRow(
        **{column.name: row[column] for column in _KEY},
        charges=int(row["charges"]),
        granted_seconds=int(row["granted_seconds"]),
        covered_seconds=None if row["covered_seconds"] is None else int(row["covered_seconds"]),
        coverable_seconds=int(row["coverable"]),
        amount_nano=int(row["wholes"]) * NANO + int(row["nanos"]),
    )
