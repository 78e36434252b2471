"""The rows of a file put together as allocations."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from allocator.records.changes import AllocationRecord, Owner
from allocator.records.csv_rows import Row
from allocator.records.problems import Problems
from allocator.records.resolve import GrantRecord, KnownHardware, resolve
from domain.errors import InputError
from domain.skus import SkuTable


@dataclass(frozen=True, slots=True)
class Assembled:
    """The allocations of a file by id, and each of its grants with the line that says so."""

    records: Mapping[str, AllocationRecord]
    lines: Sequence[tuple[int, GrantRecord]]


def assemble(
    rows: Sequence[Row], problems: Problems, *, hardware: KnownHardware, skus: SkuTable, source: str
) -> Assembled:
    """The allocations of the rows, as `source` says them; what is wrong with a row goes to `problems`.

    Rows of one allocation must agree on its tenant, project, labels and source_id. Its grants are numbered in
    their own order, whatever the order of the lines.
    """
    owners: dict[str, tuple[Owner, int]] = {}
    lines: list[tuple[int, GrantRecord]] = []
    held: dict[str, list[GrantRecord]] = defaultdict(list)
    for row in rows:
        owner = Owner(row.tenant, row.project, source, row.source_id, row.labels)
        first, first_line = owners.setdefault(row.allocation, (owner, row.line))
        if owner != first:
            problems.add(row.line, f"{row.allocation!r} has another tenant, project, labels or id in line {first_line}")
        try:
            grant = resolve(row, hardware, skus)
        except InputError as error:
            problems.add(row.line, str(error))
            continue
        lines.append((row.line, grant))
        held[row.allocation].append(grant)
    records = {
        allocation: AllocationRecord(allocation, owner, tuple(sorted(held[allocation], key=lambda each: each.order)))
        for allocation, (owner, _) in owners.items()
    }
    return Assembled(records, lines)
