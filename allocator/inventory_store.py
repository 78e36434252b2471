"""Taking a node's report of its hardware into the ledger: periods begin and end where what it says changes."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from allocator.device_store import end_open, is_given_up, miss_card, replace_open, return_card
from allocator.inventory import CardFacts, InstanceFacts, card_facts, check_inventory, instance_facts
from allocator.node_store import enter_node
from allocator.stock_store import serialize_capacity
from domain.capacity import ShareGrain
from domain.clock import MICROSECONDS
from domain.errors import ConflictError
from domain.inventory import Device, Inventory
from domain.period import format_instant
from domain.skus import SkuTable
from store.access import Principal
from store.database import now_us
from store.tables.capacity import device_periods, mig_periods, nodes

_CARD_COLUMNS = tuple(each.name for each in fields(CardFacts))
_INSTANCE_COLUMNS = tuple(each.name for each in fields(InstanceFacts))


@dataclass(frozen=True, slots=True)
class InventoryOutcome:
    """What became of a report.

    `is_taken` is false where a report at least as new was held already; nothing was changed then. `held_us` is
    the instant of the report that counts now.
    """

    is_taken: bool
    held_us: int


def take_inventory(
    connection: Connection,
    principal: Principal,
    node: str,
    inventory: Inventory,
    *,
    skus: SkuTable,
    share_grain: ShareGrain | None,
) -> InventoryOutcome:
    """Bring the ledger to what the node saw at `observed_s`, for the node itself.

    A card the report lacks keeps its period, since its capacity is lost and not unsold, and is failed until it is
    reported again. Raises InputError for a report that cannot be true, ConflictError for a card that another
    node has; nothing of the report is then kept.
    """
    serialize_capacity(connection)
    held_us = enter_node(connection, principal, node)
    check_inventory(inventory, now_us(connection))
    at_us = inventory.observed_s * MICROSECONDS
    if held_us is not None and at_us <= held_us:
        return InventoryOutcome(is_taken=False, held_us=held_us)
    devices = {device.uuid: device for device in inventory.devices}
    known = _open_cards(connection, node, devices)
    for device in devices.values():
        facts = card_facts(device, skus, share_grain)
        _take_card(connection, principal, node, device.uuid, facts, known.get(device.uuid), at_us)
    _take_instances(connection, devices, at_us)
    for gpu_uuid, row in known.items():
        if row.node == node and gpu_uuid not in devices:
            miss_card(connection, principal, gpu_uuid, at_us)
    connection.execute(update(nodes).where(nodes.c.node == node).values(inventory_us=at_us))
    return InventoryOutcome(is_taken=True, held_us=at_us)


def _open_cards(connection: Connection, node: str, devices: Iterable[str]) -> dict[str, Row[Any]]:
    """The open periods of the node's cards, and of reported ones that are another's, by UUID."""
    query = (
        select(device_periods)
        .where(
            device_periods.c.end_us.is_(None),
            (device_periods.c.node == node) | device_periods.c.gpu_uuid.in_(list(devices)),
        )
        .order_by(device_periods.c.device_index, device_periods.c.gpu_uuid)
    )
    return {row.gpu_uuid: row for row in connection.execute(query)}


def _take_card(
    connection: Connection,
    principal: Principal,
    node: str,
    gpu_uuid: str,
    facts: CardFacts,
    row: Row[Any] | None,
    at_us: int,
) -> None:
    values = {"node": node, **asdict(facts)}
    if row is None:
        begun = {"gpu_uuid": gpu_uuid, "start_us": at_us, **values}
        connection.execute(insert(device_periods).values(**begun, changed_us=now_us(connection)))
        return
    if row.node != node:
        _refuse_anothers(connection, principal, node, row, at_us)
    if row.node != node or CardFacts(*(getattr(row, name) for name in _CARD_COLUMNS)) != facts:
        replace_open(connection, device_periods, row, values, at_us)
    return_card(connection, principal, gpu_uuid, at_us)


def _refuse_anothers(connection: Connection, principal: Principal, node: str, row: Row[Any], at_us: int) -> None:
    """A card moves only from a node that reports without it, or that is not heard from: no node can take one."""
    if at_us <= row.start_us or not is_given_up(connection, principal, row.gpu_uuid, row.node):
        raise ConflictError(
            f"cannot take the inventory: the card {row.gpu_uuid!r} is on {row.node!r} since "
            f"{format_instant(row.start_us)}; let that node report without it before {node!r} reports it"
        )


def _take_instances(connection: Connection, devices: Mapping[str, Device], at_us: int) -> None:
    reported = {uuid: facts for device in devices.values() for uuid, facts in instance_facts(device).items()}
    query = select(mig_periods).where(
        mig_periods.c.end_us.is_(None),
        mig_periods.c.gpu_uuid.in_(list(devices)) | mig_periods.c.mig_uuid.in_(list(reported)),
    )
    rows = {row.mig_uuid: row for row in connection.execute(query)}
    for mig_uuid, row in rows.items():
        if row.gpu_uuid not in devices:
            raise ConflictError(
                f"cannot take the inventory: MIG instance {mig_uuid!r} is on the card {row.gpu_uuid!r} of another "
                "node; report what the driver says"
            )
        if mig_uuid not in reported:
            end_open(connection, mig_periods, row, at_us)
    for mig_uuid, facts in reported.items():
        _take_instance(connection, mig_uuid, facts, rows.get(mig_uuid), at_us)


def _take_instance(
    connection: Connection, mig_uuid: str, facts: InstanceFacts, row: Row[Any] | None, at_us: int
) -> None:
    if row is None:
        begun = {"mig_uuid": mig_uuid, "origin": "foreign", "start_us": at_us, **asdict(facts)}
        connection.execute(insert(mig_periods).values(**begun, changed_us=now_us(connection)))
        return
    before = InstanceFacts(*(getattr(row, name) for name in _INSTANCE_COLUMNS))
    if before == facts:
        return
    # The UUID follows from where the instance is, so another one made in its place can bear it again.
    origin = row.origin if before.is_same_cut(facts) else "foreign"
    replace_open(connection, mig_periods, row, {"origin": origin, **asdict(facts)}, at_us)
