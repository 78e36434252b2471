"""Reading the stock: every card in service, with what is granted and held of it now.

Busy is always summed from the open grants and holds themselves. A counter beside them could go wrong, and would
stay wrong.
"""

from collections import defaultdict
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Table, func, or_, select, union_all

from allocator.stock import Card, StockInstance
from domain.capacity import DeviceState, ShareGrain, Take
from domain.clock import MICROSECONDS
from store.tables.capacity import device_periods, device_states, grants, holds, mig_periods, node_contacts

# After this long without a heartbeat a host counts as unreachable: the meter stops billing it, so nothing new
# goes there either.
SILENCE_US = 10 * MICROSECONDS


def lock_cards(connection: Connection) -> None:
    """Make every other choice of cards wait until this transaction ends.

    Rows are locked in the one order in which everybody asks for them, so no two wait for each other. SQLite
    needs none of it: its write transactions run one at a time.
    """
    query = select(device_periods.c.device_period_id).where(device_periods.c.end_us.is_(None))
    connection.execute(query.order_by(*_CARD_ORDER).with_for_update()).all()


def load_cards(connection: Connection, now_us: int) -> list[Card]:
    """Every card in an open period, whoever holds it, in (node, index) order.

    For placement, which must see it all; doors go through allocator/device_store.py. A grant that a record says
    ends later, or begins later, takes its part already: what is granted now has no end yet.
    """
    takes = _takes(connection, now_us)
    instances = _instances(connection)
    states = _states(connection)
    heard = _last_heartbeats(connection)
    rows = connection.execute(select(device_periods).where(device_periods.c.end_us.is_(None)).order_by(*_CARD_ORDER))
    cards = []
    for row in rows:
        state, state_reason = states.get(row.gpu_uuid, (DeviceState.OK, ""))
        cards.append(
            Card(
                gpu_uuid=row.gpu_uuid,
                node=row.node,
                device_index=row.device_index,
                model=row.model,
                sku=row.sku,
                compute_units=row.compute_units,
                vram_usable_bytes=row.vram_total_bytes - (0 if row.mig_enabled else row.vram_reserved_bytes),
                mig_enabled=row.mig_enabled,
                share_grain=_grain(row),
                state=state,
                state_reason=state_reason,
                is_silent=heard.get(row.node, 0) < now_us - SILENCE_US,
                takes=takes.get(row.gpu_uuid, ()),
                instances=instances.get(row.gpu_uuid, ()),
            )
        )
    return cards


def still_held(table: Table, now_us: int) -> ColumnElement[bool]:
    """The condition that a grant or hold has not ended."""
    return or_(table.c.end_us.is_(None), table.c.end_us > now_us)


_CARD_ORDER = (device_periods.c.node, device_periods.c.device_index, device_periods.c.gpu_uuid)


def _takes(connection: Connection, now_us: int) -> dict[str, list[Take]]:
    columns = ("gpu_uuid", "mig_uuid", "compute_units", "vram_bytes")
    query = union_all(
        *(
            select(*(table.c[name] for name in columns)).where(table.c.gpu_uuid.is_not(None), still_held(table, now_us))
            for table in (grants, holds)
        )
    )
    takes: dict[str, list[Take]] = defaultdict(list)
    for row in connection.execute(query):
        takes[row.gpu_uuid].append(Take(row.compute_units, row.vram_bytes, row.mig_uuid))
    return takes


def _instances(connection: Connection) -> dict[str, list[StockInstance]]:
    query = select(mig_periods).where(mig_periods.c.end_us.is_(None)).order_by(mig_periods.c.start_slice)
    instances: dict[str, list[StockInstance]] = defaultdict(list)
    for row in connection.execute(query):
        instances[row.gpu_uuid].append(
            StockInstance(
                mig_uuid=row.mig_uuid,
                profile=row.profile,
                start_slice=row.start_slice,
                sm_count=row.sm_count,
                vram_bytes=row.vram_bytes,
                is_foreign=row.origin == "foreign",
            )
        )
    return instances


def _states(connection: Connection) -> dict[str, tuple[DeviceState, str]]:
    rows = connection.execute(select(device_states).where(device_states.c.end_us.is_(None)))
    return {row.gpu_uuid: (DeviceState(row.state), row.reason) for row in rows}


def _last_heartbeats(connection: Connection) -> dict[str, int]:
    query = select(node_contacts.c.node, func.max(node_contacts.c.end_us).label("heard_us"))
    return {row.node: row.heard_us for row in connection.execute(query.group_by(node_contacts.c.node))}


def _grain(row: Row[Any]) -> ShareGrain | None:
    if row.share_min_milli is None:
        return None
    return ShareGrain(row.share_min_milli, row.share_min_vram_bytes)
