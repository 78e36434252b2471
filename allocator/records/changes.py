"""What an import changes: of an allocation, and of which hours of which nodes."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import zip_longest

from allocator.records.resolve import GrantRecord
from domain.period import Period


@dataclass(frozen=True, slots=True)
class Owner:
    """What is said of an allocation beside its grants; `labels` is canonical JSON."""

    tenant: str
    project: str
    source: str
    source_id: str | None
    labels: str


@dataclass(frozen=True, slots=True)
class AllocationRecord:
    """An allocation as its source says it, grants by ordinal."""

    allocation: str
    owner: Owner
    grants: Sequence[GrantRecord]


_ALL_BUT_THE_END = tuple(each.name for each in fields(GrantRecord) if each.name != "end_us")


def touched(old: AllocationRecord | None, new: AllocationRecord) -> Iterator[tuple[str, Period]]:
    """The stretches of time, by node ('' without a device), for which the two say something different.

    A grant of which only the end is another differs between the two ends: a record that was open and has ended
    since says nothing new of the hours before.
    """
    before = () if old is None else old.grants
    if old is not None and (old.owner.tenant, old.owner.project) != (new.owner.tenant, new.owner.project):
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


def _node(record: GrantRecord) -> str:
    return "" if record.gpu_uuid is None else record.node
