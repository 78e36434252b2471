"""Corrections of closed windows in the database: rows that point at what they correct, and are never changed."""

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, and_, func, insert, select, union

from domain.grants import OPEN_END_US
from domain.period import HOUR_US, Period
from meter.ledger.chain import correction_digest
from meter.ledger.daily_store import move_days
from meter.ledger.ledger_store import NO_NODE, narrow
from meter.rating.charges import Charge
from store.access import Principal, Role, record
from store.capacity import load_grants
from store.database import now_us, serialize
from store.tables.billing import charges, windows
from store.tables.closing import adjustments, corrections, hour_digests

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Correction:
    """What was said of a closed window later, why, by whom and when; `revision` is of the evidence it stands on."""

    correction_id: int
    node: str
    start_us: int
    revision: int
    evidence_digest: str
    reason: str
    principal: str
    created_us: int
    digest: str
    previous_digest: str | None


def save_correction(
    connection: Connection,
    principal: Principal,
    node: str,
    start_us: int,
    *,
    revision: int,
    evidence_digest: str,
    reason: str,
    adjusted: Collection[Charge],
) -> None:
    """Add a correction with its adjustments, chained to the one before, and move the sums of their days."""
    principal.require(Role.OPERATOR, Role.BILLING)
    serialize(connection, "corrections")
    last_id = select(func.max(corrections.c.correction_id)).scalar_subquery()
    previous = connection.execute(
        select(corrections.c.digest).where(corrections.c.correction_id == last_id)
    ).scalar_one_or_none()
    at_us = now_us(connection)
    said = (reason, principal.name, at_us)
    digest = correction_digest(node, start_us, revision, evidence_digest, said, adjusted, previous)
    row = {
        "node": node,
        "start_us": start_us,
        "revision": revision,
        "evidence_digest": evidence_digest,
        "reason": reason,
        "principal": principal.name,
        "created_us": at_us,
        "digest": digest,
        "previous_digest": previous,
    }
    added = insert(corrections).values(**row).returning(corrections.c.correction_id)
    correction_id = connection.execute(added).scalar_one()
    if adjusted:
        connection.execute(insert(adjustments), [_row(correction_id, each) for each in adjusted])
    move_days(connection, principal, adjusted=adjusted)
    record(connection, principal, "correct", f"{node} {start_us}: {reason}", at_us)


def load_corrections(
    connection: Connection, principal: Principal, period: Period | None = None, *, node: str | None = None
) -> list[Correction]:
    """Corrections in the order they were made, those of windows that start in the period if one is given."""
    principal.require(Role.OPERATOR, Role.BILLING)
    query = select(corrections).order_by(corrections.c.correction_id)
    if period is not None:
        query = query.where(corrections.c.start_us >= period.start_us, corrections.c.start_us < period.end_us)
    if node is not None:
        query = query.where(corrections.c.node == node)
    return [Correction(**row) for row in connection.execute(query).mappings()]


def load_adjustments(
    connection: Connection,
    principal: Principal,
    *,
    tenant: str | None = None,
    first_date: str | None = None,
    last_date: str | None = None,
    windows_in: Period | None = None,
    node: str | None = None,
    correction_id: int | None = None,
) -> list[Charge]:
    """Adjustments the principal may see, in the order they were made, each as a charge whose numbers are differences.

    Dates are billing dates, YYYY-MM-DD, both included.
    """
    query = (
        select(adjustments, corrections.c.node, corrections.c.start_us.label("window_start_us"))
        .join(corrections, corrections.c.correction_id == adjustments.c.correction_id)
        .where(principal.sees(adjustments.c.tenant))
        .order_by(adjustments.c.adjustment_id)
    )
    query = narrow(query, adjustments, tenant, first_date, last_date)
    if windows_in is not None:
        starts = corrections.c.start_us
        query = query.where(starts >= windows_in.start_us, starts < windows_in.end_us)
    if node is not None:
        query = query.where(corrections.c.node == node)
    if correction_id is not None:
        query = query.where(adjustments.c.correction_id == correction_id)
    return [
        Charge(**{name: row[name] for name in Charge.__dataclass_fields__})
        for row in connection.execute(query).mappings()
    ]


def closed_windows_of(connection: Connection, principal: Principal, allocations: Collection[str]) -> list[Place]:
    """The windows of closed hours that the allocations were charged, adjusted or are granted in, by hour and node."""
    principal.require(Role.OPERATOR, Role.BILLING)
    charged = (
        select(windows.c.node, windows.c.start_us)
        .join(charges, and_(charges.c.node == windows.c.node, charges.c.window_start_us == windows.c.start_us))
        .where(windows.c.state == "closed", charges.c.allocation.in_(allocations))
    )
    adjusted = (
        select(corrections.c.node, corrections.c.start_us)
        .join(adjustments, adjustments.c.correction_id == corrections.c.correction_id)
        .where(adjustments.c.allocation.in_(allocations))
    )
    found = {(row.node, row.start_us) for row in connection.execute(union(charged, adjusted))}
    for grant in load_grants(connection, principal, Period(0, OPEN_END_US), allocation_ids=allocations):
        node = NO_NODE if grant.is_record_only else grant.node
        hours = select(hour_digests.c.start_us).where(
            hour_digests.c.start_us > grant.start_us - HOUR_US, hour_digests.c.start_us < grant.period.end_us
        )
        found |= {(node, start_us) for start_us in connection.execute(hours).scalars()}
    return sorted(found, key=lambda place: (place[1], place[0]))


def count_corrections(connection: Connection, principal: Principal) -> int:
    """How many corrections there are."""
    principal.require(Role.OPERATOR, Role.BILLING)
    return connection.execute(select(func.count()).select_from(corrections)).scalar_one()


def _row(correction_id: int, adjusted: Charge) -> dict[str, Any]:
    values = {name: value for name, value in asdict(adjusted).items() if name not in ("node", "window_start_us")}
    return {"correction_id": correction_id, "charge_id": adjusted.charge_id, **values}


def digest_of(correction: Correction, adjusted: Iterable[Charge]) -> str:
    """What the digest of the correction should be."""
    said = (correction.reason, correction.principal, correction.created_us)
    place = (correction.node, correction.start_us, correction.revision, correction.evidence_digest)
    return correction_digest(*place, said, adjusted, correction.previous_digest)
