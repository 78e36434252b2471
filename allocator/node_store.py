"""Nodes: that they exist, and when they were heard from."""

from sqlalchemy import Connection, insert, select, update

from domain.clock import MICROSECONDS
from domain.errors import AccessError
from domain.inventory import CONTACT_SECONDS
from domain.slugs import check_name
from store.access import Principal, Role
from store.database import now_us, serialize
from store.tables.capacity import node_contacts, nodes

_CONTACT_US = CONTACT_SECONDS * MICROSECONDS


def enter_node(connection: Connection, principal: Principal, node: str) -> int | None:
    """Make the node known; the instant of the last inventory held of it, or None. For the node itself.

    Other reports of the node wait until this transaction ends.
    """
    principal.require(Role.NODE)
    if principal.node != node:
        raise AccessError(
            f"cannot report for the node {node!r} with the token of {principal.node!r}: use its own", authenticated=True
        )
    check_name("node", node)
    serialize(connection, f"node {node}")
    row = connection.execute(select(nodes.c.inventory_us).where(nodes.c.node == node)).one_or_none()
    if row is None:
        connection.execute(insert(nodes).values(node=node, created_us=now_us(connection)))
        return None
    return None if row.inventory_us is None else int(row.inventory_us)


def record_heartbeat(connection: Connection, principal: Principal, node: str) -> int:
    """Note that the node lives, and return the database's clock, so that the node can measure its skew.

    Heartbeats at most `CONTACT_SECONDS` apart are one stretch of contact.
    """
    enter_node(connection, principal, node)
    heard_us = now_us(connection)
    last = connection.execute(
        select(node_contacts).where(node_contacts.c.node == node).order_by(node_contacts.c.start_us.desc()).limit(1)
    ).one_or_none()
    if last is None or heard_us - last.end_us > _CONTACT_US:
        connection.execute(insert(node_contacts).values(node=node, start_us=heard_us, end_us=heard_us))
    elif heard_us > last.end_us:
        stretch = update(node_contacts).where(node_contacts.c.node == node, node_contacts.c.start_us == last.start_us)
        connection.execute(stretch.values(end_us=heard_us))
    return heard_us


def reachable_nodes(connection: Connection, principal: Principal, now_us: int) -> set[str]:
    """Nodes heard from in the last `CONTACT_SECONDS`: where the meter bills nothing, nothing new goes either."""
    principal.require(Role.OPERATOR, Role.NODE)
    query = select(node_contacts.c.node).where(node_contacts.c.end_us >= now_us - _CONTACT_US)
    return set(connection.execute(query).scalars())
