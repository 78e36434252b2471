"""Allocations as they are shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from domain.grants import Grant


class Holding(StrEnum):
    """Which allocations are listed: those with a grant that has not ended, those without, or both."""

    OPEN = "open"
    ENDED = "ended"
    ALL = "all"


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
