"""What came after a window was closed: counted, and used by a correction only."""

from sqlalchemy import Connection, and_, delete, func, insert, select, update

from store.access import Principal, Role
from store.database import serialize
from store.tables.billing import windows
from store.tables.closing import late_samples


def save_late(
    connection: Connection, principal: Principal, node: str, start_us: int, seconds: int, read_us: int
) -> None:
    """Of that many device-seconds of the closed window the store had samples at `read_us`, and its evidence has not."""
    principal.require(Role.OPERATOR, Role.BILLING)
    serialize(connection, f"window {node} {start_us}")
    connection.execute(delete(late_samples).where(late_samples.c.node == node, late_samples.c.start_us == start_us))
    if seconds:
        connection.execute(insert(late_samples).values(node=node, start_us=start_us, seconds=seconds))
    place = and_(windows.c.node == node, windows.c.start_us == start_us)
    connection.execute(update(windows).where(place).values(rated_us=read_us))


def late_seconds(connection: Connection, principal: Principal) -> dict[str, int]:
    """By node, of how many device-seconds samples came after the close; nodes without any are left out."""
    principal.require(Role.OPERATOR, Role.BILLING)
    query = select(late_samples.c.node, func.sum(late_samples.c.seconds)).group_by(late_samples.c.node)
    return {node: int(seconds) for node, seconds in connection.execute(query)}
