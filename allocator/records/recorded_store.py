"""Allocation records in the database: reading what is there, writing what is new."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from itertools import zip_longest
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from allocator.records.resolve import AllocationRecord, GrantRecord, Owner
from domain.errors import ConflictError
from domain.grants import GrantKind
from domain.period import HOUR_US, Period, format_instant
from store.access import Principal, Role
from store.tables.billing import windows
from store.tables.capacity import allocations, grants
from store.tables.closing import hour_digests

# Below the number of values that either database takes in one statement.
_CHUNK = 5_000
_GRANT_COLUMNS = tuple(each.name for each in fields(GrantRecord))
_ALL_BUT_THE_END = tuple(name for name in _GRANT_COLUMNS if name != "end_us")


def load_records(connection: Connection, principal: Principal, ids: Iterable[str]) -> dict[str, AllocationRecord]:
    """What is recorded of these allocations, by whatever source; for operators."""
    principal.require(Role.OPERATOR)
    owners: dict[str, Owner] = {}
    held: dict[str, list[GrantRecord]] = defaultdict(list)
    for chunk in in_chunks(ids):
        for row in connection.execute(select(allocations).where(allocations.c.allocation.in_(chunk))):
            owners[row.allocation] = Owner(row.tenant, row.project, row.source, row.source_id, row.labels)
        query = select(grants).where(grants.c.allocation.in_(chunk)).order_by(grants.c.allocation, grants.c.ordinal)
        for row in connection.execute(query):
            held[row.allocation].append(_grant(row))
    return {
        allocation: AllocationRecord(allocation, owner, tuple(held[allocation])) for allocation, owner in owners.items()
    }


def refuse_closed_hours(
    connection: Connection,
    principal: Principal,
    changed: Iterable[AllocationRecord],
    old: Mapping[str, AllocationRecord],
) -> None:
    """Raise ConflictError where a change would reach into an hour that is closed; for operators."""
    principal.require(Role.OPERATOR)
    closed: dict[str, list[int]] = defaultdict(list)
    query = select(windows.c.node, windows.c.start_us).where(windows.c.state == "closed").order_by(windows.c.start_us)
    for row in connection.execute(query):
        closed[row.node].append(row.start_us)
    # A node that had nothing in a closed hour has no window there, and gets none.
    hours_closed = list(connection.execute(select(hour_digests.c.start_us).order_by(hour_digests.c.start_us)).scalars())
    for each in changed:
        for node, period in _touched(old.get(each.allocation), each):
            hours = sorted({*closed.get(node, []), *hours_closed})
            first = bisect_left(hours, period.start_us - HOUR_US + 1)
            if first < len(hours) and hours[first] < period.end_us:
                raise ConflictError(
                    f"cannot change the allocation {each.allocation!r}: the hour {format_instant(hours[first])} of "
                    f"{node or 'records without a device'!r} is closed; use `gputab meter correct`"
                )


def write_records(
    connection: Connection,
    principal: Principal,
    changed: Sequence[AllocationRecord],
    old: Mapping[str, AllocationRecord],
    now_us: int,
) -> None:
    """Put the records in place of the old ones; an allocation that was there keeps the instant it was created.

    For operators. Every grant of a changed record counts as changed: one that is gone leaves no row to say so.
    """
    principal.require(Role.OPERATOR)
    added = [{**_columns(each), "created_us": now_us} for each in changed if each.allocation not in old]
    replaced = [each for each in changed if each.allocation in old]
    if added:
        connection.execute(insert(allocations), added)
    if replaced:
        by_id = update(allocations).where(allocations.c.allocation == bindparam("replaced"))
        connection.execute(by_id, [{**_columns(each), "replaced": each.allocation} for each in replaced])
        # All of them before the first new one: a card may pass from one allocation to another.
        for chunk in in_chunks(each.allocation for each in replaced):
            connection.execute(delete(grants).where(grants.c.allocation.in_(chunk)))
    rows = [
        {**asdict(grant), "ordinal": ordinal, "changed_us": now_us}
        for each in changed
        for ordinal, grant in enumerate(each.grants)
    ]
    if rows:
        connection.execute(insert(grants), rows)


def in_chunks(ids: Iterable[str]) -> Iterator[list[str]]:
    """The ids in lists that each fit into one statement."""
    ordered = sorted(ids)
    for start in range(0, len(ordered), _CHUNK):
        yield ordered[start : start + _CHUNK]


def _touched(old: AllocationRecord | None, new: AllocationRecord) -> Iterator[tuple[str, Period]]:
    """The stretches of time, by node ('' without a device), for which the two say something different.

    A grant of which only the end is another differs between the two ends: a record that was open and has ended
    since says nothing new of the hours before.
    """
    before = () if old is None else old.grants
    if old is not None and _whose(old.owner) != _whose(new.owner):
        for record in (*before, *new.grants):
            yield _node(record), record.period
        return
    paired: dict[tuple[object, ...], tuple[list[GrantRecord], list[GrantRecord]]] = defaultdict(lambda: ([], []))
    for side, records in enumerate((before, new.grants)):
        for record in sorted(records, key=lambda each: each.period.end_us):
            paired[tuple(getattr(record, name) for name in _ALL_BUT_THE_END)][side].append(record)
    for was, will_be in paired.values():
        for first, second in zip_longest(was, will_be):
            one = first or second
            if first is None or second is None:
                yield _node(one), one.period
            elif first.end_us != second.end_us:
                yield _node(one), Period(*sorted((first.period.end_us, second.period.end_us)))


def _whose(owner: Owner) -> tuple[str, str, str | None]:
    """Who pays, and by which other name use is theirs (domain/owners.py); a source never becomes another."""
    return owner.tenant, owner.project, owner.source_id


def _node(record: GrantRecord) -> str:
    return "" if record.gpu_uuid is None else record.node


def _columns(each: AllocationRecord) -> dict[str, Any]:
    return {"allocation": each.allocation, **asdict(each.owner)}


def _grant(row: Row[Any]) -> GrantRecord:
    values = {name: getattr(row, name) for name in _GRANT_COLUMNS}
    return GrantRecord(**{**values, "kind": GrantKind(row.kind)})
