"""A tenant's draft invoice out of the ledger."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, select

from domain.period import HOUR_US, Period
from meter.bills.days import days_period
from meter.bills.invoices import Invoice, draft_invoice
from meter.ledger.corrections_store import load_adjustments
from meter.ledger.ledger_store import NO_NODE, Window, load_charges, read_window
from meter.prices.price_store import load_rates
from store.access import Principal
from store.capacity import load_grants
from store.tables.billing import windows
from store.tenants import load_tenant


def load_draft(connection: Connection, principal: Principal, tenant: str, first_date: str, last_date: str) -> Invoice:
    """The draft over billing dates (YYYY-MM-DD), both included; NotFoundError for a tenant that is not seen.

    InputError for days that reach beyond the calendar.
    """
    who = load_tenant(connection, principal, tenant)
    asked: Any = {"tenant": tenant, "first_date": first_date, "last_date": last_date}
    its_charges = [
        *load_charges(connection, principal, **asked),
        *load_adjustments(connection, principal, **asked),
    ]
    rates = load_rates(connection, principal, {each.rate_id for each in its_charges if each.rate_id})
    held = _held_windows(connection, principal, tenant, days_period(first_date, last_date, who.zone))
    return draft_invoice(who, first_date, last_date, its_charges, rates, held)


def _held_windows(
    connection: Connection, principal: Principal, tenant: str, period: Period
) -> Mapping[tuple[str, int], Window | None]:
    """The windows in which the tenant held something, and of which alone it may learn; None if never rated."""
    held = {
        (NO_NODE if grant.is_record_only else grant.node, hour.start_us)
        for grant in load_grants(connection, principal, period, tenant=tenant)
        if (part := grant.period.intersect(period))
        for hour in part.hours()
    }
    query = select(windows).where(
        windows.c.node.in_({node for node, _ in held}),
        windows.c.start_us > period.start_us - HOUR_US,
        windows.c.start_us < period.end_us,
    )
    rated = {(row["node"], row["start_us"]): read_window(row) for row in connection.execute(query).mappings()}
    return {key: rated.get(key) for key in held}
