"""The stock of this instant: every card in service, with what is granted and held of it now.

Busy is always summed from the open grants and holds themselves. A counter beside them could go wrong, and would
stay wrong.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from sqlalchemy import ColumnElement, Connection, Table, or_, select

from allocator.first_fit import Slot, choose
from allocator.node_store import reachable_nodes
from allocator.offering import Product, refuse_impossible
from allocator.request import AllocationRequest
from allocator.stock import Card, StockInstance
from domain.capacity import DeviceState, Take
from domain.grants import OPEN_END_US
from domain.period import Period
from store.access import Principal, Role
from store.capacity import load_device_periods
from store.database import now_us, serialize
from store.tables.capacity import device_periods, device_states, grants, holds, mig_periods

# Placement looks at every card, whoever asks: what it sees stays here.
_PLACEMENT = Principal("placement", Role.OPERATOR)


def serialize_capacity(connection: Connection) -> None:
    """Make every other change of what is granted, or can be, wait until this transaction ends; to be called first."""
    serialize(connection, "capacity")


def list_cards(connection: Connection, principal: Principal) -> list[Card]:
    """Every card with what is free of it now, in (node, index) order; for operators."""
    principal.require(Role.OPERATOR)
    return _load_cards(connection, now_us(connection))


def place(connection: Connection, principal: Principal, request: AllocationRequest, now_us: int) -> list[Slot]:
    """Where the request goes, in a transaction that has called `serialize_capacity`.

    Raises InputError where none ever could, CapacityError with a reason for every node where none can now. What
    an operator wrote of a card is in it for operators only.
    """
    principal.require_tenant(request.tenant)
    cards = _load_cards(connection, now_us)
    refuse_impossible(request, cards, _products(connection))
    if principal.role is not Role.OPERATOR:
        cards = [replace(card, state_reason="") for card in cards]
    return choose(request, cards)


def still_held(table: Table, now_us: int) -> ColumnElement[bool]:
    """The condition that a grant or hold has not ended."""
    return or_(table.c.end_us.is_(None), table.c.end_us > now_us)


def _load_cards(connection: Connection, now_us: int) -> list[Card]:
    """Every card in an open period that has begun, whoever holds it: a node's clock may be a little ahead.

    A grant that a record says ends later, or begins later, takes its part already: what is granted now has no end
    yet.
    """
    periods = load_device_periods(connection, _PLACEMENT, Period(now_us, OPEN_END_US))
    instances = _instances(connection)
    homes = {each.mig_uuid: gpu_uuid for gpu_uuid, its_own in instances.items() for each in its_own}
    takes = _takes(connection, now_us, {each.gpu_uuid: each.compute_units for each in periods}, homes)
    states = _states(connection)
    reachable = reachable_nodes(connection, _PLACEMENT, now_us)
    cards = []
    for each in periods:
        if each.period.end_us != OPEN_END_US or each.period.start_us > now_us:
            continue
        state, state_reason = states.get(each.gpu_uuid, (DeviceState.OK, ""))
        cards.append(
            Card(
                gpu_uuid=each.gpu_uuid,
                node=each.node,
                device_index=each.device_index,
                model=each.model,
                sku=each.sku,
                compute_units=each.compute_units,
                vram_usable_bytes=each.usable_vram_bytes,
                mig_enabled=each.mig_enabled,
                share_grain=each.share_grain,
                state=state,
                state_reason=state_reason,
                is_silent=each.node not in reachable,
                takes=takes.get(each.gpu_uuid, ()),
                instances=instances.get(each.gpu_uuid, ()),
            )
        )
    return sorted(cards, key=lambda card: (card.node, card.device_index, card.gpu_uuid))


def _products(connection: Connection) -> set[Product]:
    """What every card is, or has been."""
    query = select(device_periods.c.model, device_periods.c.sku).distinct()
    return {Product(row.model, row.sku) for row in connection.execute(query)}


def _takes(
    connection: Connection, now_us: int, compute_units: Mapping[str, int], homes: Mapping[str, str]
) -> dict[str, list[Take]]:
    """What is taken of each card, in the compute units that the card is of by now, by UUID in `compute_units`.

    A grant from before the card's MIG mode was switched counts in other units; it then takes its part, rounded up.
    `homes` are the cards of the MIG instances there are: a record that has one on another card takes it all the same.
    """
    takes: dict[str, list[Take]] = defaultdict(list)
    for row in connection.execute(select(grants).where(grants.c.gpu_uuid.is_not(None), still_held(grants, now_us))):
        card_units = compute_units.get(row.gpu_uuid, row.compute_units_total)
        units = -(-row.compute_units * card_units // row.compute_units_total)
        takes[row.gpu_uuid].append(Take(units, row.vram_bytes, row.mig_uuid))
        home = homes.get(row.mig_uuid, row.gpu_uuid)
        if home != row.gpu_uuid:
            takes[home].append(Take(0, 0, row.mig_uuid))
    for row in connection.execute(select(holds).where(still_held(holds, now_us))):
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
