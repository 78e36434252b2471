"""Windows, evidence and charges in the database."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, Table, and_, delete, insert, select, update

from domain.errors import ConflictError, NotFoundError
from domain.period import HOUR_US, Period, format_instant
from meter.ledger.daily_store import move_days
from meter.rating.charges import Charge
from store.access import Principal, Role
from store.database import now_us, serialize
from store.tables.billing import charges, evidence, windows
from store.tables.capacity import nodes
from store.tables.closing import hour_digests

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
    """A revision of a window's evidence: where it lies, and the digest of its content.

    It was made of `samples` readings, those around the window among them; `quarantined_samples` of the window no card
    can have made. `skew_us` is how far the node's clock was off at most; None: not measured.
    """

    revision: int
    path: str
    digest: str
    size_bytes: int
    samples: int
    quarantined_samples: int
    skew_us: int | None


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
    """The newest evidence of the window, of its revision or of a correction after its close; None: not settled."""
    revisions = load_revisions(connection, principal, window)
    return revisions[-1] if revisions else None


def load_revisions(connection: Connection, principal: Principal, window: Window) -> list[FrozenEvidence]:
    """All evidence of the window, the oldest first."""
    principal.require(Role.OPERATOR, Role.BILLING)
    its = (evidence.c.node == window.node) & (evidence.c.start_us == window.start_us)
    rows = connection.execute(select(evidence).where(its).order_by(evidence.c.revision))
    return [
        FrozenEvidence(**{name: getattr(row, name) for name in FrozenEvidence.__dataclass_fields__}) for row in rows
    ]


def save_closed(connection: Connection, principal: Principal, node: str, start_us: int, frozen: FrozenEvidence) -> None:
    """Name the newer evidence of a closed window; one that the hour was closed without is made, with nothing in it."""
    principal.require(Role.OPERATOR, Role.BILLING)
    serialize(connection, f"window {node} {start_us}")
    if load_window(connection, principal, node, start_us) is None:
        made = Window(node, start_us, "closed", start_us + HOUR_US, 0, frozen.digest, 0, 0, 0, now_us(connection))
        connection.execute(insert(windows).values(**asdict(made), found_us=0))
    _save_frozen(connection, node, start_us, frozen)


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
        # An hour that was closed without the window stays so.
        _refuse_closed_hour(connection, window)
        # Not found by meter/windows/backlog_store.py, whose mark must not move for it.
        connection.execute(insert(windows).values(**asdict(window), found_us=0))
    elif before["state"] == "closed" or not _follows(window, before["revision"], before["evidence_digest"]):
        raise ConflictError(
            f"cannot rate the window {window.node!r} {format_instant(window.start_us)!r}: another meter has moved it "
            "on; run again"
        )
    else:
        connection.execute(update(windows).where(place).values(**asdict(window)))
    if frozen is not None:
        _save_frozen(connection, window.node, window.start_us, frozen)
    held = (charges.c.node == window.node) & (charges.c.window_start_us == window.start_us)
    gone = [_charge(row) for row in connection.execute(select(charges).where(held)).mappings()]
    connection.execute(delete(charges).where(held))
    charged = list(its_charges)
    if charged:
        connection.execute(insert(charges), [{"charge_id": each.charge_id, **asdict(each)} for each in charged])
    move_days(connection, principal, gone=gone, charged=charged)


def load_charges(
    connection: Connection,
    principal: Principal,
    *,
    tenant: str | None = None,
    first_date: str | None = None,
    last_date: str | None = None,
    windows_in: Period | None = None,
    node: str | None = None,
) -> list[Charge]:
    """Charges the principal may see, by billing date and natural key; dates are YYYY-MM-DD, both included."""
    query = select(charges).where(principal.sees(charges.c.tenant))
    query = narrow(query, charges, tenant, first_date, last_date)
    if windows_in is not None:
        query = query.where(
            charges.c.window_start_us >= windows_in.start_us, charges.c.window_start_us < windows_in.end_us
        )
    if node is not None:
        query = query.where(charges.c.node == node)
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


def narrow(
    query: Select[Any], table: Table, tenant: str | None, first_date: str | None, last_date: str | None
) -> Select[Any]:
    """Those rows of the table alone, of one tenant and of billing dates, both included; None: of all."""
    if tenant is not None:
        query = query.where(table.c.tenant == tenant)
    if first_date is not None:
        query = query.where(table.c.billing_date >= first_date)
    if last_date is not None:
        query = query.where(table.c.billing_date <= last_date)
    return query


def find_charge(connection: Connection, principal: Principal, charge_id: str) -> Charge:
    """The charge of that name; NotFoundError where there is none that the principal may see."""
    query = select(charges).where(charges.c.charge_id == charge_id, principal.sees(charges.c.tenant))
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        raise NotFoundError(
            f"cannot find the charge {charge_id!r}: there is none of that name; list them with `gputab meter charges`"
        )
    return _charge(row)


def charge_ids(connection: Connection, principal: Principal, window: Window) -> list[str]:
    """The names of the window's charges as they are written down, in order."""
    principal.require(Role.OPERATOR, Role.BILLING)
    held = (charges.c.node == window.node) & (charges.c.window_start_us == window.start_us)
    return list(connection.execute(select(charges.c.charge_id).where(held).order_by(charges.c.charge_id)).scalars())


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


def _refuse_closed_hour(connection: Connection, window: Window) -> None:
    serialize(connection, "hours closed")
    closed = select(hour_digests.c.start_us).where(hour_digests.c.start_us == window.start_us)
    if connection.execute(closed).one_or_none() is not None:
        raise ConflictError(
            f"cannot rate the window {window.node!r} {format_instant(window.start_us)!r}: its hour was closed without "
            "it; use `gputab meter correct`"
        )


def _follows(window: Window, revision: int, digest: str | None) -> bool:
    """Whether the window may come after that revision: it is a later one, or stands on the same evidence."""
    return window.revision > revision or (window.revision == revision and digest in (None, window.evidence_digest))


def _save_frozen(connection: Connection, node: str, start_us: int, frozen: FrozenEvidence) -> None:
    """Name the file of a new revision; a revision that is there already stays."""
    key = {"node": node, "start_us": start_us, "revision": frozen.revision}
    place = and_(*(evidence.c[name] == value for name, value in key.items()))
    if connection.execute(select(evidence.c.revision).where(place)).one_or_none() is None:
        connection.execute(insert(evidence).values(node=node, start_us=start_us, **asdict(frozen)))


def _charge(row: Any) -> Charge:
    return Charge(**{name: row[name] for name in Charge.__dataclass_fields__})
