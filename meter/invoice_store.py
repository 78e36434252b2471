"""A tenant's draft invoice out of the ledger."""

from sqlalchemy import Connection, select

from meter.invoices import Invoice, draft_invoice
from meter.ledger_store import Window, load_charges
from meter.price_store import load_rates
from store.access import Principal
from store.tables.billing import charges, windows
from store.tenants import load_tenant


def load_draft(connection: Connection, principal: Principal, tenant: str, first_date: str, last_date: str) -> Invoice:
    """The draft over billing dates (YYYY-MM-DD), both included; NotFoundError for a tenant that is not seen."""
    who = load_tenant(connection, principal, tenant)
    its_charges = load_charges(connection, principal, tenant=tenant, first_date=first_date, last_date=last_date)
    # A tenant learns of the windows it held something in, and of no other.
    its_windows = (
        select(windows)
        .join(charges, (charges.c.node == windows.c.node) & (charges.c.window_start_us == windows.c.start_us))
        .where(principal.sees(charges.c.tenant), charges.c.tenant == tenant)
        .where(charges.c.billing_date.between(first_date, last_date))
        .distinct()
    )
    found = [Window(**row) for row in connection.execute(its_windows).mappings()]
    rates = load_rates(connection, principal, {each.rate_id for each in its_charges if each.rate_id})
    return draft_invoice(
        who, first_date, last_date, its_charges, rates, {(each.node, each.start_us): each for each in found}
    )
