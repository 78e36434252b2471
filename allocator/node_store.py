"""Nodes: that they exist, and when they were heard from."""

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.exc import IntegrityError

from allocator.stock_store import SILENCE_US
from domain.errors import AccessError
from domain.slugs import check_name
from store.access import Principal, Role
from store.database import now_us
from store.tables.capacity import node_contacts, nodes


def require_node(principal: Principal, node: str) -> None:
    """Raise AccessError unless the principal is that node itself."""
    principal.require(Role.NODE)
    if principal.node != node:
        raise AccessError(
            f"cannot report for the node {node!r} with the token of {principal.node!r}: use its own", authenticated=True
        )


def lock_node(connection: Connection, node: str) -> int | None:
    """Make the node known and other reports of it wait; the instant of the last inventory held of it, or None."""
    check_name("node", node)
    query = select(nodes.c.inventory_us).where(nodes.c.node == node).with_for_update()
    row = connection.execute(query).one_or_none()
    if row is None:
        try:
            with connection.begin_nested():
                connection.execute(insert(nodes).values(node=node, created_us=now_us(connection)))
        except IntegrityError:
            # Its first heartbeat and its first inventory may come at the same time; the other one was first.
            pass
        row = connection.execute(query).one()
    return None if row.inventory_us is None else int(row.inventory_us)


def record_heartbeat(connection: Connection, principal: Principal, node: str) -> int:
    """Note that the node lives, and return the database's clock, so that the node can measure its skew.

    Heartbeats at most 10 s apart are one stretch of contact.
    """
    require_node(principal, node)
    lock_node(connection, node)
    heard_us = now_us(connection)
    last = connection.execute(
        select(node_contacts).where(node_contacts.c.node == node).order_by(node_contacts.c.start_us.desc()).limit(1)
    ).one_or_none()
    if last is None or heard_us - last.end_us > SILENCE_US:
        connection.execute(insert(node_contacts).values(node=node, start_us=heard_us, end_us=heard_us))
    elif heard_us > last.end_us:
        stretch = update(node_contacts).where(node_contacts.c.node == node, node_contacts.c.start_us == last.start_us)
        connection.execute(stretch.values(end_us=heard_us))
    return heard_us
