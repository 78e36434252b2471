"""How far the charges of some billing dates can be relied on, out of the windows that they come from."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from sqlalchemy import ColumnElement, Connection, and_, case, func, or_, select

from domain.period import HOUR_US, Period
from meter.bills.days import days_period
from meter.ledger.ledger_store import NO_NODE
from store.access import Principal
from store.database import now_us
from store.tables.billing import charges, windows
from store.tables.capacity import allocations, grants
from store.tenants import load_tenants

# The node in whose windows a grant is.
_NODE = case((grants.c.gpu_uuid.is_(None), NO_NODE), else_=grants.c.node)


@dataclass(frozen=True, slots=True)
class Freshness:
    """Of the windows in which tenants held something on the dates asked for, up to now.

    `open_windows` have not settled, or have not been looked at by the meter. What was held before `settled_until_us`
    is in settled windows, and before `rated_until_us` it is charged for; None: nothing is.
    """

    settled_until_us: int | None
    rated_until_us: int | None
    open_windows: int


def load_freshness(
    connection: Connection, principal: Principal, first_date: str, last_date: str, *, tenant: str | None = None
) -> Freshness:
    """Of the tenants that the principal may see, or of one of them, each with the days of its own zone.

    Dates are YYYY-MM-DD, both included; InputError for days that reach beyond the calendar.
    """
    by_zone: dict[ZoneInfo, list[str]] = defaultdict(list)
    for each in load_tenants(connection, principal):
        if tenant in (None, each.tenant):
            by_zone[each.zone].append(each.tenant)
    names = [name for its_names in by_zone.values() for name in its_names]
    settled_until_us, charged_until_us = _charged(connection, names, first_date, last_date)
    unsettled: dict[tuple[str, int], int] = {}
    at_us = now_us(connection)
    for zone, its_names in by_zone.items():
        period = days_period(first_date, last_date, zone)
        unsettled |= _unsettled(connection, its_names, period) | _unseen(connection, its_names, period, at_us)
    first_open_us = min((start_us for _, start_us in unsettled), default=None)
    if first_open_us is None:
        return Freshness(settled_until_us, charged_until_us, 0)
    return Freshness(
        settled_until_us=None if settled_until_us is None else min(settled_until_us, first_open_us),
        rated_until_us=None if charged_until_us is None else min(unsettled.values()),
        open_windows=len(unsettled),
    )


def _charged(
    connection: Connection, tenants: Iterable[str], first_date: str, last_date: str
) -> tuple[int | None, int | None]:
    """Where the last settled window ends that the tenants were charged in, and where the last one is rated to."""
    settled_end_us = case((windows.c.state != "open", windows.c.start_us + HOUR_US))
    query = (
        select(func.max(settled_end_us), func.max(windows.c.rated_until_us))
        .join_from(
            charges, windows, and_(windows.c.node == charges.c.node, windows.c.start_us == charges.c.window_start_us)
        )
        .where(charges.c.tenant.in_(tenants), charges.c.billing_date >= first_date, charges.c.billing_date <= last_date)
    )
    settled_until_us, rated_until_us = connection.execute(query).one()
    return settled_until_us, rated_until_us


def _unsettled(connection: Connection, tenants: Iterable[str], period: Period) -> dict[tuple[str, int], int]:
    """Open windows in which one of the tenants held something inside the period -> the instant they are rated to."""
    held = (
        select(grants.c.ordinal)
        .join(allocations, allocations.c.allocation == grants.c.allocation)
        .where(
            allocations.c.tenant.in_(tenants),
            windows.c.node == _NODE,
            # Three intervals have an instant in common when each two of them have; the third two are below.
            _meets(windows.c.start_us, windows.c.start_us + HOUR_US),
            _meets(period.start_us, period.end_us),
            or_(grants.c.end_us.is_(None), grants.c.end_us > grants.c.start_us),
        )
        .exists()
    )
    query = select(windows.c.node, windows.c.start_us, windows.c.rated_until_us).where(
        windows.c.state == "open",
        windows.c.start_us > period.start_us - HOUR_US,
        windows.c.start_us < period.end_us,
        held,
    )
    return {(row.node, row.start_us): row.rated_until_us for row in connection.execute(query)}


def _unseen(connection: Connection, tenants: Iterable[str], period: Period, at_us: int) -> dict[tuple[str, int], int]:
    """Hours inside the period that one of the tenants held something in and that are no windows yet, rated to nothing.

    Those after the last window of their node: a meter that runs has all before it.
    """
    last_us = select(func.max(windows.c.start_us)).where(windows.c.node == _NODE).scalar_subquery()
    seen_until_us = func.coalesce(last_us + HOUR_US, 0)
    query = (
        select(_NODE.label("node"), grants.c.start_us, grants.c.end_us, seen_until_us.label("seen_until_us"))
        .join(allocations, allocations.c.allocation == grants.c.allocation)
        .where(
            allocations.c.tenant.in_(tenants),
            _meets(period.start_us, min(period.end_us, at_us)),
            or_(grants.c.end_us.is_(None), grants.c.end_us > seen_until_us),
        )
    )
    unseen: dict[tuple[str, int], int] = {}
    for row in connection.execute(query):
        start_us = max(row.start_us, row.seen_until_us, period.start_us)
        end_us = min(at_us if row.end_us is None else row.end_us, at_us, period.end_us)
        if start_us < end_us:
            unseen |= {(row.node, hour.start_us): hour.start_us for hour in Period(start_us, end_us).hours()}
    return unseen


def _meets(start_us: ColumnElement[int] | int, end_us: ColumnElement[int] | int) -> ColumnElement[bool]:
    return and_(grants.c.start_us < end_us, or_(grants.c.end_us.is_(None), grants.c.end_us > start_us))
