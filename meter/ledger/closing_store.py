"""Closing hours in the database: every window of an hour at once, with the digest that proves it from then on."""

from collections import defaultdict
from dataclasses import dataclass

from sqlalchemy import Connection, func, insert, select, update

from domain.errors import ConflictError
from domain.period import HOUR_US, Period, format_instant
from meter.ledger.chain import ClosedWindow, hour_digest
from meter.ledger.ledger_store import Window, load_charges, load_windows
from meter.rating.charges import Charge
from store.access import Principal, Role, record
from store.database import now_us, serialize
from store.tables.billing import windows
from store.tables.closing import hour_digests


@dataclass(frozen=True, slots=True)
class HourDigest:
    """A closed hour; `previous_digest` is of the hour closed before, None for the first."""

    start_us: int
    digest: str
    previous_digest: str | None


def unclosed_hours(connection: Connection, principal: Principal, until_us: int) -> list[int]:
    """The starts of the hours that end by then and have windows which are not closed, in order."""
    principal.require(Role.OPERATOR, Role.BILLING)
    query = (
        select(windows.c.start_us)
        .where(windows.c.state != "closed", windows.c.start_us <= until_us - HOUR_US)
        .distinct()
        .order_by(windows.c.start_us)
    )
    return list(connection.execute(query).scalars())


def close_hour(connection: Connection, principal: Principal, start_us: int) -> HourDigest | None:
    """Close every window of the hour; None where another was faster.

    ConflictError where one of them cannot be closed, and why; nothing is closed then.
    """
    principal.require(Role.OPERATOR, Role.BILLING)
    serialize(connection, "hours closed")
    if is_closed(connection, principal, start_us):
        return None
    its_windows = load_windows(connection, principal, Period(start_us, start_us + HOUR_US))
    for window in its_windows:
        serialize(connection, f"window {window.node} {window.start_us}")
    # Those of a moment ago may have moved on meanwhile.
    its_windows = load_windows(connection, principal, Period(start_us, start_us + HOUR_US))
    blocked = [f"{window.node or 'without a device'}: {why}" for window in its_windows if (why := _blocker(window))]
    if blocked:
        raise ConflictError(
            f"cannot close the hour {format_instant(start_us)!r}: {', '.join(blocked)}; mend that, then close it"
        )
    previous = _last_digest(connection)
    digest = hour_digest(start_us, closed_windows(connection, principal, start_us, its_windows), previous)
    connection.execute(insert(hour_digests).values(start_us=start_us, digest=digest, previous_digest=previous))
    connection.execute(update(windows).where(windows.c.start_us == start_us).values(state="closed"))
    record(connection, principal, "close hour", f"{format_instant(start_us)} {digest}", now_us(connection))
    return HourDigest(start_us, digest, previous)


def closed_windows(
    connection: Connection, principal: Principal, start_us: int, its_windows: list[Window]
) -> list[ClosedWindow]:
    """What is proved of an hour's windows. One that only a correction has made is no part of the hour's digest."""
    principal.require(Role.OPERATOR, Role.BILLING)
    by_node: dict[str, list[Charge]] = defaultdict(list)
    for charge in load_charges(connection, principal, windows_in=Period(start_us, start_us + HOUR_US)):
        by_node[charge.node].append(charge)
    return [
        ClosedWindow(window.node, window.revision, window.evidence_digest or "", by_node[window.node])
        for window in its_windows
        if window.revision > 0
    ]


def load_chain(connection: Connection, principal: Principal) -> list[HourDigest]:
    """The closed hours, in the order in which they were closed; those that no link leads to come first."""
    principal.require(Role.OPERATOR, Role.BILLING)
    rows = [
        HourDigest(row.start_us, row.digest, row.previous_digest) for row in connection.execute(select(hour_digests))
    ]
    following = {row.previous_digest: row for row in rows}
    ordered: list[HourDigest] = []
    link = following.get(None)
    while link is not None and link not in ordered[-1:]:
        ordered.append(link)
        link = following.get(link.digest)
    linked = {row.start_us for row in ordered}
    return [*(row for row in rows if row.start_us not in linked), *ordered]


def is_closed(connection: Connection, principal: Principal, start_us: int) -> bool:
    """Whether that hour was closed."""
    principal.require(Role.OPERATOR, Role.BILLING)
    query = select(func.count()).select_from(hour_digests).where(hour_digests.c.start_us == start_us)
    return connection.execute(query).scalar_one() > 0


def _last_digest(connection: Connection) -> str | None:
    """That of the hour closed last, which no other has as the one before; None before the first."""
    followed = select(hour_digests.c.previous_digest).where(hour_digests.c.previous_digest.is_not(None))
    query = select(hour_digests.c.digest).where(hour_digests.c.digest.not_in(followed))
    return connection.execute(query).scalar_one_or_none()


def _blocker(window: Window) -> str | None:
    """Why the window cannot be closed, and what to do."""
    if window.state == "open":
        return "it has not settled (see `gputab meter status`)"
    if window.rated_us is None:
        return "it is to be rated again (run `gputab meter run`)"
    if window.residual_compute is None or window.residual_vram is None:
        return "its capacity is not known (see `gputab meter balance`)"
    if window.residual_compute or window.residual_vram:
        return (
            f"its capacity does not add up, by {window.residual_compute} compute-unit-seconds and "
            f"{window.residual_vram} byte-seconds (see `gputab meter balance`)"
        )
    if window.unpriced_seconds:
        return f"{window.unpriced_seconds} seconds of use have no price (load one with `gputab prices load`)"
    return None
