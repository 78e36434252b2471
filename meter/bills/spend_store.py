"""What tenants spent, day by day, out of the sums that the ledger keeps."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, func, select

from domain.money import NANO
from meter.bills.spend import SpendRow, with_payables
from store.access import Principal
from store.tables.access import tenants
from store.tables.billing import daily_charges

_KEY = ("billing_date", "tenant", "project", "sku", "dimension", "rate_id", "quantity_whole", "currency")


def spend_by_day(
    connection: Connection, principal: Principal, first_date: str, last_date: str, *, tenant: str | None = None
) -> list[SpendRow]:
    """What the tenants that the principal may see, or one of them, spent from `first_date` to `last_date`.

    Dates are billing dates, YYYY-MM-DD, both included. By date, then tenant, project, SKU and dimension.
    """
    query = select(daily_charges).where(
        daily_charges.c.tenant.in_(_seen(principal, tenant)),
        daily_charges.c.billing_date >= first_date,
        daily_charges.c.billing_date <= last_date,
    )
    rows = [_row(row) for row in connection.execute(query).mappings()]
    # Databases order null each in their own way.
    return with_payables(sorted(rows, key=lambda row: tuple(str(value or "") for value in _key(row))))


def charged_dates(connection: Connection, principal: Principal, *, tenant: str | None = None) -> tuple[str, str] | None:
    """The first and last billing date with a charge of a tenant that the principal may see; None: there is none."""
    # Asked of each tenant, the index answers; asked of all, every row would be read.
    seen = _seen(principal, tenant).subquery()
    first, last = (
        select(extreme(daily_charges.c.billing_date)).where(daily_charges.c.tenant == seen.c.tenant).scalar_subquery()
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
    return (getattr(row, name) for name in _KEY)


def _row(row: RowMapping) -> SpendRow:
    coverable = row["coverable_seconds"]
    return SpendRow(
        **{name: row[name] for name in _KEY if name != "rate_id"},
        rate_id=row["rate_id"] or None,
        charges=row["charges"],
        granted_seconds=row["granted_seconds"],
        covered_seconds=row["covered_seconds"] if coverable else None,
        coverable_seconds=coverable,
        amount_nano=row["amount_wholes"] * NANO + row["amount_nanos"],
    )
