"""Showing allocations to those who may see them."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, exists, func, or_, select, true

from allocator.request import Holding
from allocator.stock_store import still_held
from domain.errors import InputError, NotFoundError
from domain.grants import Grant
from store.access import Principal
from store.capacity import ALLOCATION_COLUMNS, read_grant
from store.tables.capacity import allocations, grants


@dataclass(frozen=True, slots=True)
class Allocation:
    """A tenant's right to capacity with its grants, by ordinal.

    `source` is "service", or the name of the import that said so; `source_id` is that source's own name for it.
    `is_open` is true while a grant has not ended.
    """

    allocation: str
    tenant: str
    project: str
    source: str
    source_id: str | None
    labels: Mapping[str, str]
    created_us: int
    is_open: bool
    grants: Sequence[Grant]


@dataclass(frozen=True, slots=True)
class AllocationPage:
    """Some allocations, newest first. `next_cursor` asks for those after them; None where there are none."""

    allocations: Sequence[Allocation]
    next_cursor: str | None


def load_allocation(connection: Connection, principal: Principal, allocation: str, *, now_us: int) -> Allocation:
    """One allocation; NotFoundError where there is none or it is not the principal's to see."""
    query = select(allocations).where(allocations.c.allocation == allocation, principal.sees(allocations.c.tenant))
    row = connection.execute(query).one_or_none()
    if row is None:
        raise NotFoundError(f"cannot find the allocation {allocation!r}: see `gputab alloc list`")
    return _with_grants(connection, [row], now_us)[0]


def list_allocations(
    connection: Connection,
    principal: Principal,
    *,
    holding: Holding,
    limit: int,
    cursor: str | None,
    now_us: int,
) -> AllocationPage:
    """At most `limit` allocations the principal may see, newest first, those after `cursor` if it is given."""
    query = select(allocations).where(principal.sees(allocations.c.tenant), _holds(holding, now_us))
    if cursor is not None:
        created_us, last = _read_cursor(cursor)
        query = query.where(
            or_(
                allocations.c.created_us < created_us,
                and_(allocations.c.created_us == created_us, allocations.c.allocation > last),
            )
        )
    # One more than asked tells whether there is a next page.
    query = query.order_by(allocations.c.created_us.desc(), allocations.c.allocation).limit(limit + 1)
    rows = connection.execute(query).all()
    shown = rows[:limit]
    next_cursor = f"{shown[-1].created_us}:{shown[-1].allocation}" if len(rows) > limit else None
    return AllocationPage(_with_grants(connection, shown, now_us), next_cursor)


def count_open_grants(connection: Connection, principal: Principal, *, now_us: int) -> dict[str, int]:
    """How many grants of the principal's tenants have not ended, by kind."""
    query = (
        select(grants.c.kind, func.count().label("open_grants"))
        .join(allocations, allocations.c.allocation == grants.c.allocation)
        .where(principal.sees(allocations.c.tenant), still_held(grants, now_us))
        .group_by(grants.c.kind)
    )
    return {row.kind: row.open_grants for row in connection.execute(query)}


def _holds(holding: Holding, now_us: int) -> ColumnElement[bool]:
    is_open = exists().where(grants.c.allocation == allocations.c.allocation, still_held(grants, now_us))
    if holding is Holding.ALL:
        return true()
    return is_open if holding is Holding.OPEN else ~is_open


def _read_cursor(cursor: str) -> tuple[int, str]:
    created_us, colon, last = cursor.partition(":")
    if not colon or not (created_us.isascii() and created_us.isdecimal()) or len(created_us) > 18:
        raise InputError(f"cannot read the cursor {cursor!r}: use the next_cursor of the page before")
    return int(created_us), last


def _with_grants(connection: Connection, rows: Sequence[Row[Any]], now_us: int) -> list[Allocation]:
    """The allocations of the rows, which the principal may see, with their grants."""
    query = (
        select(grants, *ALLOCATION_COLUMNS)
        .join(allocations, allocations.c.allocation == grants.c.allocation)
        .where(grants.c.allocation.in_([row.allocation for row in rows]))
        .order_by(grants.c.allocation, grants.c.ordinal)
    )
    by_allocation: dict[str, list[Grant]] = defaultdict(list)
    for row in connection.execute(query):
        by_allocation[row.allocation].append(read_grant(row))
    return [_allocation(row, by_allocation[row.allocation], now_us) for row in rows]


def _allocation(row: Row[Any], held: Sequence[Grant], now_us: int) -> Allocation:
    return Allocation(
        allocation=row.allocation,
        tenant=row.tenant,
        project=row.project,
        source=row.source,
        source_id=row.source_id,
        labels=json.loads(row.labels),
        created_us=row.created_us,
        is_open=any(grant.end_us is None or grant.end_us > now_us for grant in held),
        grants=tuple(held),
    )
