"""Windows, evidence and charges in the database."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, insert, select, update

from domain.errors import ConflictError
from domain.period import Period, format_instant
from meter.rating.charges import Charge
from store.access import Principal, Role
from store.database import serialize
from store.tables.billing import charges, evidence, windows
from store.tables.capacity import nodes

# The node of grants without a device.
NO_NODE = ""


@dataclass(frozen=True, slots=True)
class Window:
    """One row of `windows`. Residuals None: the node's capacity is not known.

    `rated_us` is when what was last rated was read, by the database's clock; None: it is to be rated (again).
    """

    node: str
    start_us: int
    state: str
    rated_until_us: int
    revision: int
    evidence_digest: str | None
    residual_compute: int | None
    residual_vram: int | None
    unpriced_seconds: int
    rated_us: int | None


@dataclass(frozen=True, slots=True)
class FrozenEvidence:
    """Where a revision of a window's evidence lies; `digest` is of its content."""

    path: str
    digest: str
    size_bytes: int


def load_window(connection: Connection, principal: Principal, node: str, start_us: int) -> Window | None:
    """The window, if it was ever rated."""
    found = load_windows(connection, principal, Period(start_us, start_us + 1), node=node)
    return found[0] if found else None


def load_windows(
    connection: Connection, principal: Principal, period: Period | None = None, *, node: str | None = None
) -> list[Window]:
    """Windows by hour and node, those that start in the period if one is given."""
    principal.require(Role.OPERATOR, Role.BILLING)
    query = select(windows).order_by(windows.c.start_us, windows.c.node)
    if period is not None:
        query = query.where(windows.c.start_us >= period.start_us, windows.c.start_us < period.end_us)
    if node is not None:
        query = query.where(windows.c.node == node)
    return [read_window(row) for row in connection.execute(query).mappings()]


def newest_rated(connection: Connection, principal: Principal, node: str) -> Window | None:
    """The node's last window of which something is rated; None before there is one."""
    principal.require(Role.OPERATOR, Role.BILLING)
    query = (
        select(windows)
        .where(windows.c.node == node, windows.c.rated_until_us > windows.c.start_us)
        .order_by(windows.c.start_us.desc())
        .limit(1)
    )
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else read_window(row)


def load_frozen(connection: Connection, principal: Principal, window: Window) -> FrozenEvidence | None:
    """The evidence of the window's revision; None where it has not settled."""
    principal.require(Role.OPERATOR, Role.BILLING)
    row = connection.execute(
        select(evidence).where(
            evidence.c.node == window.node,
            evidence.c.start_us == window.start_us,
            evidence.c.revision == window.revision,
        )
    ).one_or_none()
    return FrozenEvidence(row.path, row.digest, row.size_bytes) if row else None


def save_window(
    connection: Connection,
    principal: Principal,
    window: Window,
    its_charges: Iterable[Charge],
    frozen: FrozenEvidence | None,
) -> None:
    """Put a window and all its charges in the place of what was there, in the caller's transaction.

    ConflictError where somebody closed the window, or froze other evidence of it, since it was read.
    """
    principal.require(Role.OPERATOR, Role.BILLING)
    serialize(connection, f"window {window.node} {window.start_us}")
    place = (windows.c.node == window.node) & (windows.c.start_us == window.start_us)
    before = connection.execute(select(windows).where(place)).mappings().one_or_none()
    if before is None:
        # Not found by meter/windows/backlog_store.py, whose mark must not move for it.
        connection.execute(insert(windows).values(**asdict(window), found_us=0))
    elif before["state"] == "closed" or not _follows(window, before["revision"], before["evidence_digest"]):
        raise ConflictError(
            f"cannot rate the window {window.node!r} {format_instant(window.start_us)!r}: another meter has moved it "
            "on; run again"
        )
    else:
        connection.execute(update(windows).where(place).values(**asdict(window)))
    if frozen is not None and load_frozen(connection, principal, window) is None:
        connection.execute(
            insert(evidence).values(
                node=window.node, start_us=window.start_us, revision=window.revision, **asdict(frozen)
            )
        )
    connection.execute(
        delete(charges).where(charges.c.node == window.node, charges.c.window_start_us == window.start_us)
    )
    rows = [{"charge_id": each.charge_id, **asdict(each)} for each in its_charges]
    if rows:
        connection.execute(insert(charges), rows)


def load_charges(
    connection: Connection,
    principal: Principal,
    *,
    tenant: str | None = None,
    first_date: str | None = None,
    last_date: str | None = None,
    windows_in: Period | None = None,
) -> list[Charge]:
    """Charges the principal may see, by billing date and natural key; dates are YYYY-MM-DD, both included."""
    query = select(charges).where(principal.sees(charges.c.tenant))
    if tenant is not None:
        query = query.where(charges.c.tenant == tenant)
    if first_date is not None:
        query = query.where(charges.c.billing_date >= first_date)
    if last_date is not None:
        query = query.where(charges.c.billing_date <= last_date)
    if windows_in is not None:
        query = query.where(
            charges.c.window_start_us >= windows_in.start_us, charges.c.window_start_us < windows_in.end_us
        )
    query = query.order_by(
        charges.c.billing_date,
        charges.c.window_start_us,
        charges.c.node,
        charges.c.allocation,
        charges.c.ordinal,
        charges.c.dimension,
        charges.c.charge_id,
    )
    return [_charge(row) for row in connection.execute(query).mappings()]


def rated_nodes(connection: Connection, principal: Principal) -> list[str]:
    """Every node that has windows, by name; '' for grants without a device."""
    principal.require(Role.OPERATOR, Role.BILLING)
    return list(connection.execute(select(windows.c.node).distinct().order_by(windows.c.node)).scalars())


def inventory_us(connection: Connection, principal: Principal, node: str) -> int | None:
    """The instant of the node's last inventory report; None where it never made one."""
    principal.require(Role.OPERATOR, Role.BILLING)
    return connection.execute(select(nodes.c.inventory_us).where(nodes.c.node == node)).scalar_one_or_none()


def read_window(row: RowMapping) -> Window:
    """The fact in a row of `windows`."""
    return Window(**{name: row[name] for name in Window.__dataclass_fields__})


def _follows(window: Window, revision: int, digest: str | None) -> bool:
    """Whether the window may come after that revision: it is a later one, or stands on the same evidence."""
    return window.revision > revision or (window.revision == revision and digest in (None, window.evidence_digest))


def _charge(row: Any) -> Charge:
    return Charge(**{name: row[name] for name in Charge.__dataclass_fields__})
