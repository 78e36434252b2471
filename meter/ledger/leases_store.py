"""Which meter is at work on a window: one at a time, and one that was overtaken writes nothing."""

import secrets
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select

from domain.clock import MICROSECONDS
from domain.errors import ConflictError
from domain.period import format_instant
from store.access import Principal, Role
from store.database import now_us, serialize
from store.tables.billing import window_leases

LEASE_S = 20
"""How long a meter that is gone without a word keeps others from a window, by the database's clock."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write the window; `holder` tells it from every other lease of it."""

    node: str
    start_us: int
    holder: str


def take_lease(connection: Connection, principal: Principal, node: str, start_us: int) -> Lease | None:
    """The lease of the window; None while another holds it."""
    principal.require(Role.OPERATOR, Role.BILLING)
    serialize(connection, f"window {node} {start_us}")
    place = (window_leases.c.node == node) & (window_leases.c.start_us == start_us)
    until_us = connection.execute(select(window_leases.c.until_us).where(place)).scalar_one_or_none()
    at_us = now_us(connection)
    if until_us is not None and until_us > at_us:
        return None
    lease = Lease(node, start_us, secrets.token_hex(8))
    connection.execute(delete(window_leases).where(place))
    connection.execute(
        insert(window_leases).values(
            node=node, start_us=start_us, holder=lease.holder, until_us=at_us + LEASE_S * MICROSECONDS
        )
    )
    return lease


def end_lease(connection: Connection, principal: Principal, lease: Lease) -> None:
    """Give the lease back, in the transaction that writes what was done under it.

    ConflictError where another meter has taken the window over meanwhile, so that nothing is written.
    """
    if not give_up_lease(connection, principal, lease):
        raise ConflictError(
            f"cannot rate the window {lease.node!r} {format_instant(lease.start_us)!r}: it took more than {LEASE_S} s "
            "and another meter has taken it over; run again"
        )


def give_up_lease(connection: Connection, principal: Principal, lease: Lease) -> bool:
    """Give the lease back if it is still held; whether it was."""
    principal.require(Role.OPERATOR, Role.BILLING)
    serialize(connection, f"window {lease.node} {lease.start_us}")
    gone = connection.execute(
        delete(window_leases).where(
            window_leases.c.node == lease.node,
            window_leases.c.start_us == lease.start_us,
            window_leases.c.holder == lease.holder,
        )
    )
    return gone.rowcount == 1
