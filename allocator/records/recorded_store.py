"""Allocation records in the database: reading what is there, writing what is new."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from allocator.records.changes import AllocationRecord, Owner, touched
from allocator.records.resolve import GrantRecord
from domain.errors import ConflictError
from domain.grants import GrantKind
from domain.period import HOUR_US, format_instant
from store.tables.billing import windows
from store.tables.capacity import allocations, grants

# Below the number of values that either database takes in one statement.
_CHUNK = 5_000
_GRANT_COLUMNS = tuple(each.name for each in fields(GrantRecord))


def load_records(connection: Connection, ids: Iterable[str]) -> dict[str, AllocationRecord]:
    """What is recorded of these allocations, by whatever source."""
    owners: dict[str, Owner] = {}
    held: dict[str, list[GrantRecord]] = defaultdict(list)
    for chunk in _chunks(ids):
        for row in connection.execute(select(allocations).where(allocations.c.allocation.in_(chunk))):
            owners[row.allocation] = Owner(row.tenant, row.project, row.source, row.source_id, row.labels)
        query = select(grants).where(grants.c.allocation.in_(chunk)).order_by(grants.c.allocation, grants.c.ordinal)
        for row in connection.execute(query):
            held[row.allocation].append(_grant(row))
    return {
        allocation: AllocationRecord(allocation, owner, tuple(held[allocation])) for allocation, owner in owners.items()
    }


def load_grants_on(connection: Connection, gpu_uuids: Iterable[str]) -> list[GrantRecord]:
    """Every grant there ever was on these cards."""
    return [
        _grant(row)
        for chunk in _chunks(gpu_uuids)
        for row in connection.execute(select(grants).where(grants.c.gpu_uuid.in_(chunk)))
    ]


def refuse_closed_hours(
    connection: Connection, changed: Iterable[AllocationRecord], old: Mapping[str, AllocationRecord]
) -> None:
    """Raise ConflictError where a change would reach into an hour that is closed."""
    closed: dict[str, list[int]] = defaultdict(list)
    query = select(windows.c.node, windows.c.start_us).where(windows.c.state == "closed").order_by(windows.c.start_us)
    for row in connection.execute(query):
        closed[row.node].append(row.start_us)
    for each in changed:
        for node, period in touched(old.get(each.allocation), each):
            hours = closed.get(node, [])
            first = bisect_left(hours, period.start_us - HOUR_US + 1)
            if first < len(hours) and hours[first] < period.end_us:
                raise ConflictError(
                    f"cannot change the allocation {each.allocation!r}: the hour {format_instant(hours[first])} of "
                    f"{node or 'records without a device'!r} is closed; use `gputab meter correct`"
                )


def write_records(
    connection: Connection, changed: Sequence[AllocationRecord], old: Mapping[str, AllocationRecord], now_us: int
) -> None:
    """Put the records in place of the old ones; an allocation that was there keeps the instant it was created."""
    added = [{**_columns(each), "created_us": now_us} for each in changed if each.allocation not in old]
    replaced = [each for each in changed if each.allocation in old]
    if added:
        connection.execute(insert(allocations), added)
    if replaced:
        by_id = update(allocations).where(allocations.c.allocation == bindparam("replaced"))
        connection.execute(by_id, [{**_columns(each), "replaced": each.allocation} for each in replaced])
        # All of them before the first new one: a card may pass from one allocation to another.
        for chunk in _chunks(each.allocation for each in replaced):
            connection.execute(delete(grants).where(grants.c.allocation.in_(chunk)))
    rows = [{**asdict(grant), "ordinal": ordinal} for each in changed for ordinal, grant in enumerate(each.grants)]
    if rows:
        connection.execute(insert(grants), rows)


def _columns(each: AllocationRecord) -> dict[str, Any]:
    return {"allocation": each.allocation, **asdict(each.owner)}


def _grant(row: Row[Any]) -> GrantRecord:
    values = {name: getattr(row, name) for name in _GRANT_COLUMNS}
    return GrantRecord(**{**values, "kind": GrantKind(row.kind)})


def _chunks(ids: Iterable[str]) -> Iterator[list[str]]:
    ordered = sorted(ids)
    for start in range(0, len(ordered), _CHUNK):
        yield ordered[start : start + _CHUNK]
