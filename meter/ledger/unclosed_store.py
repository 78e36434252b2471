"""What stands in the way of closing, or is flagged: capacity that does not add up, use without a price, clocks."""

from dataclasses import dataclass

from sqlalchemy import Connection, Float, and_, case, cast, func, or_, select

from store.access import Principal, Role
from store.tables.billing import evidence, windows


@dataclass(frozen=True, slots=True)
class Unclosed:
    """What stands in the way of closing a node's rated windows, summed over those that are not closed.

    `unknown_windows` are those whose capacity is not known; residuals are of the others.
    """

    residual_compute: float
    residual_vram: float
    unknown_windows: int
    unpriced_seconds: int

    @property
    def is_blocked(self) -> bool:
        """Whether anything does."""
        return bool(self.residual_compute or self.residual_vram or self.unknown_windows or self.unpriced_seconds)


def load_unclosed(connection: Connection, principal: Principal) -> dict[str, Unclosed]:
    """By node, of every node that has a rated window which is not closed."""
    principal.require(Role.OPERATOR, Role.BILLING)
    is_unknown = or_(windows.c.residual_compute.is_(None), windows.c.residual_vram.is_(None))
    # As floats: a sum of integers may be beyond 64 bits, which SQLite refuses.
    query = (
        select(
            windows.c.node,
            func.sum(cast(func.coalesce(windows.c.residual_compute, 0), Float)),
            func.sum(cast(func.coalesce(windows.c.residual_vram, 0), Float)),
            func.sum(case((is_unknown, 1), else_=0)),
            func.sum(windows.c.unpriced_seconds),
        )
        .where(windows.c.state != "closed", windows.c.rated_until_us > windows.c.start_us)
        .group_by(windows.c.node)
    )
    found = [tuple(row) for row in connection.execute(query)]
    return {
        node: Unclosed(compute, vram, int(unknown), int(unpriced)) for node, compute, vram, unknown, unpriced in found
    }


def load_skewed(connection: Connection, principal: Principal, above_us: int) -> dict[str, int]:
    """By node, how many settled or closed windows its clock was more than that wrong in; nodes without are left out."""
    principal.require(Role.OPERATOR, Role.BILLING)
    newest = evidence.c.revision == windows.c.revision
    query = (
        select(evidence.c.node, func.count())
        .join(windows, and_(windows.c.node == evidence.c.node, windows.c.start_us == evidence.c.start_us, newest))
        .where(evidence.c.skew_us > above_us)
        .group_by(evidence.c.node)
    )
    return {node: int(count) for node, count in connection.execute(query)}
