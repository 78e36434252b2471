"""Which windows there are to rate: found once and kept as rows, due until they settle, and again when something that
they stand on is said later."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    Select,
    Table,
    and_,
    case,
    func,
    insert,
    or_,
    select,
    union_all,
    update,
)

from domain.clock import MICROSECONDS
from domain.grants import OPEN_END_US
from domain.period import HOUR_US, Period
from meter.ledger.ledger_store import NO_NODE
from store.access import Principal, Role
from store.database import Database, now_us, serialize
from store.tables.access import tenant_books
from store.tables.billing import charges, rates, windows
from store.tables.capacity import device_periods, device_states, grants, holds, mig_periods
from store.tables.closing import hour_digests

# A change is stamped before its transaction commits; one that took longer than this would be missed.
_COMMIT_US = 600 * MICROSECONDS
# Long enough to see a change again once it must have been committed.
_LOOK_BACK_US = 2 * _COMMIT_US

Place = tuple[str, int]
"""(node, start of a UTC hour in microseconds)."""


def find_windows(database: Database, principal: Principal) -> None:
    """Make a row for every hour that something was held or stood in, and mark settled ones that a change touches.

    Looks at what was written since it last found a window, and at what still goes on; the first time at
    everything. Changes nothing where nothing is new.
    """
    principal.require(Role.OPERATOR, Role.BILLING)
    with database.read() as connection:
        at_us = now_us(connection)
        mark_us = connection.execute(select(func.max(windows.c.found_us))).scalar_one()
        since_us = 0 if mark_us is None else mark_us - _LOOK_BACK_US
        touched = _touched(connection, since_us, at_us)
        known = _known(connection, touched)
        again = {place for place, changed_us in touched.items() if _is_late(known.get(place), changed_us, at_us)}
        again |= _repriced(connection, since_us, at_us)
        closed = _closed_hours(connection)
    # Closed is closed: what comes to light of such an hour later is for a correction.
    found = [place for place in touched if place not in known and place[1] not in closed]
    if not found and not again:
        return
    with database.write() as connection:
        serialize(connection, "windows found")
        # One that is closed meanwhile gets no window either.
        serialize(connection, "hours closed")
        known, closed = _known(connection, found), _closed_hours(connection)
        new = [place for place in found if place not in known and place[1] not in closed]
        if new:
            connection.execute(insert(windows), [_new_row(place, at_us) for place in new])
        for node, start_us in again:
            place = and_(windows.c.node == node, windows.c.start_us == start_us, windows.c.state == "settled")
            connection.execute(update(windows).where(place).values(rated_us=None))


def due_windows(connection: Connection, principal: Principal) -> list[Place]:
    """Windows that have not settled, or are to be rated again, by hour and node."""
    principal.require(Role.OPERATOR, Role.BILLING)
    query = (
        select(windows.c.node, windows.c.start_us)
        .where(or_(windows.c.state == "open", and_(windows.c.state == "settled", windows.c.rated_us.is_(None))))
        .order_by(windows.c.start_us, windows.c.node)
    )
    return [(row.node, row.start_us) for row in connection.execute(query)]


def least_recent_windows(connection: Connection, principal: Principal, limit: int) -> list[Place]:
    """Settled and closed windows that are not due, those looked at longest ago first."""
    principal.require(Role.OPERATOR, Role.BILLING)
    query = (
        select(windows.c.node, windows.c.start_us)
        .where(windows.c.state != "open", windows.c.rated_us.is_not(None))
        .order_by(windows.c.rated_us, windows.c.start_us, windows.c.node)
        .limit(limit)
    )
    return [(row.node, row.start_us) for row in connection.execute(query)]


def windows_of(connection: Connection, principal: Principal, period: Period) -> list[Place]:
    """Every window whose hour the period touches, by hour and node; one without an instant touches none."""
    principal.require(Role.OPERATOR, Role.BILLING)
    if period.start_us == period.end_us:
        return []
    query = (
        select(windows.c.node, windows.c.start_us)
        .where(windows.c.start_us < period.end_us, windows.c.start_us > period.start_us - HOUR_US)
        .order_by(windows.c.start_us, windows.c.node)
    )
    return [(row.node, row.start_us) for row in connection.execute(query)]


def _touched(connection: Connection, since_us: int, at_us: int) -> dict[Place, int]:
    """Every hour up to now that matters since then -> the latest change that touches it (0: it only goes on)."""
    # What has not changed can only have grown into new hours.
    growing_us = max(0, since_us - HOUR_US)
    touched: dict[Place, int] = {}
    for row in connection.execute(_intervals(since_us, growing_us)):
        changed = row.changed_us >= since_us
        from_us = row.start_us if changed else max(row.start_us, growing_us)
        until_us = min(at_us, OPEN_END_US if row.end_us is None else row.end_us)
        for hour in Period(from_us, max(from_us, until_us)).hours():
            place = (row.node, hour.start_us)
            touched[place] = max(touched.get(place, 0), row.changed_us if changed else 0)
    # A record that was replaced may have left an hour that it was charged for.
    charged = (
        select(charges.c.node, charges.c.window_start_us, func.max(grants.c.changed_us).label("changed_us"))
        .join(grants, grants.c.allocation == charges.c.allocation)
        .where(grants.c.changed_us >= since_us)
        .group_by(charges.c.node, charges.c.window_start_us)
    )
    for row in connection.execute(charged):
        place = (row.node, row.window_start_us)
        touched[place] = max(touched.get(place, 0), row.changed_us)
    return touched


def _intervals(since_us: int, growing_us: int) -> CompoundSelect[Any]:
    """node ('' for a grant without a device), start_us, end_us and changed_us of grants and cards that matter, and of
    what changed of a card's instances, holds and states while it stood on the node."""

    def of(table: Table, node: ColumnElement[str]) -> Select[Any]:
        columns = (node.label("node"), table.c.start_us, table.c.end_us, table.c.changed_us)
        matters = or_(table.c.changed_us >= since_us, table.c.end_us.is_(None), table.c.end_us > growing_us)
        return select(*columns).where(matters)

    def of_cards(table: Table) -> Select[Any]:
        said, stood = table.c, device_periods.c
        start_us = case((said.start_us > stood.start_us, said.start_us), else_=stood.start_us)
        said_end_us, stood_end_us = (func.coalesce(each.end_us, OPEN_END_US) for each in (said, stood))
        end_us = case((said_end_us < stood_end_us, said_end_us), else_=stood_end_us)
        columns = (device_periods.c.node, start_us.label("start_us"), end_us.label("end_us"), table.c.changed_us)
        same_card = device_periods.c.gpu_uuid == table.c.gpu_uuid
        return (
            select(*columns)
            .join_from(table, device_periods, same_card)
            .where(table.c.changed_us >= since_us, start_us <= end_us)
        )

    grant_node = case((grants.c.gpu_uuid.is_(None), NO_NODE), else_=grants.c.node)
    on_record = (of(grants, grant_node), of(device_periods, device_periods.c.node))
    return union_all(*on_record, *(of_cards(table) for table in (mig_periods, device_states, holds)))


def _known(connection: Connection, places: Iterable[Place]) -> dict[Place, Any]:
    """The rows of those places that there are."""
    starts = sorted({start_us for _, start_us in places})
    if not starts:
        return {}
    query = select(windows).where(windows.c.start_us.between(starts[0], starts[-1]))
    return {(row.node, row.start_us): row for row in connection.execute(query)}


def _closed_hours(connection: Connection) -> set[int]:
    """Where they begin."""
    return set(connection.execute(select(hour_digests.c.start_us)).scalars())


def _is_late(row: Any, changed_us: int, at_us: int) -> bool:
    """Whether the settled window may have been rated without that change."""
    if row is None or row.state != "settled" or row.rated_us is None:
        return False
    return bool(row.rated_us < _unseen_until_us(changed_us, at_us))


def _unseen_until_us(changed_us: int, at_us: int) -> int:
    """Who read before that instant may not have seen the change: it is looked at when it shows and, for those who read
    while it was on its way, once more when it must have been committed."""
    committed_us = changed_us + _COMMIT_US
    return committed_us if committed_us <= at_us else changed_us


def _repriced(connection: Connection, since_us: int, at_us: int) -> set[Place]:
    """Settled windows that were rated before a rate or an assignment of a book that may concern them was said."""
    found: set[Place] = set()
    for table in (rates, tenant_books):
        for change in connection.execute(select(table).where(table.c.changed_us >= since_us)):
            query = select(windows.c.node, windows.c.start_us).where(
                windows.c.state == "settled",
                windows.c.rated_us < _unseen_until_us(change.changed_us, at_us),
                windows.c.start_us > change.start_us - HOUR_US,
            )
            found |= {(row.node, row.start_us) for row in connection.execute(query)}
    return found


def _new_row(place: Place, found_us: int) -> dict[str, Any]:
    node, start_us = place
    return {
        "node": node,
        "start_us": start_us,
        "state": "open",
        "rated_until_us": start_us,
        "revision": 0,
        "unpriced_seconds": 0,
        "found_us": found_us,
    }
