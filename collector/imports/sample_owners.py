"""What a log says of the owners of a device in one second, held against what the device itself uses.

A share of a card is billed by the bytes of its owner, so in every second the owners of a device have together at most
its used memory (its total, where the log has no use). A row of an owner speaks of the time of the device's row that
it shares its time with, or else of the last one before it in that second, or else of the first.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from collector.imports.sample_rows import Identity, Row
from domain.series import GPU_MEMORY_TOTAL, GPU_MEMORY_USED, OWNER_COMPUTE, OWNER_MEMORY, Series

Values = Mapping[Series, int | float]


@dataclass(slots=True)
class Moment:
    """One look at a device and its owners within a second.

    `limit` is the series that bounds the owners, and its bytes; None where the log does not say. A moment without a
    row of the device has the limit of the one before.
    """

    device: Row | None = None
    owners: dict[Identity, Row] = field(default_factory=dict)
    limit: tuple[Series, int | float] | None = None

    @property
    def owned_bytes(self) -> int | float:
        """What the owners have together."""
        return owned_bytes(row.values for row in self.owners.values())

    def has(self, series: Series) -> bool:
        """Whether the series is known of any owner."""
        return any(series in row.values for row in self.owners.values())


def moments(rows: Sequence[Row]) -> list[Moment]:
    """The looks that the rows of one device and second are made of, in the order of time.

    Of rows with one time, as where a log writes whole seconds only, the next look begins where something comes again.
    """
    # A use that is known for a part of the second bounds the whole of it: it is what the second is stored with.
    is_used_known = any(GPU_MEMORY_USED in row.values for row in rows)
    found = [Moment()]
    for _, of_one_time in groupby(rows, key=lambda row: row.time_us):
        alike = list(of_one_time)
        if found[-1].device is not None and any(not row.identity.owner for row in alike):
            found.append(Moment(limit=found[-1].limit))
        for row in alike:
            if row.identity in found[-1].owners or (not row.identity.owner and found[-1].device is not None):
                found.append(Moment(limit=found[-1].limit))
            if row.identity.owner:
                found[-1].owners[row.identity] = row
            else:
                limit = limit_of(row.values)
                found[-1].device = row
                found[-1].limit = None if is_used_known and limit and limit[0] != GPU_MEMORY_USED else limit
    return found


def limit_of(device: Values) -> tuple[Series, int | float] | None:
    """What the owners of a device with these values cannot exceed."""
    return next(((each, device[each]) for each in (GPU_MEMORY_USED, GPU_MEMORY_TOTAL) if each in device), None)


def owned_bytes(owners: Iterable[Values]) -> int | float:
    """What owners with these values have together."""
    return sum(values.get(OWNER_MEMORY, 0) for values in owners)


def excess(moment: Moment, limit: tuple[Series, int | float]) -> str | None:
    """What is wrong with the moment, with the line of its last owner; None where its owners are within the limit."""
    owned = moment.owned_bytes
    if owned <= limit[1]:
        return None
    row = max((row for row in moment.owners.values() if OWNER_MEMORY in row.values), key=lambda row: row.line)
    return (
        f"{row.place}: {OWNER_MEMORY.name} '{row.values[OWNER_MEMORY]}': the owners of the device have {owned} "
        f"bytes, more than its {limit[0].name} {limit[1]}"
    )


def merge_owners(looks: Sequence[Moment]) -> dict[Identity, Values]:
    """The one reading of each owner in a second of several looks.

    All bytes are those of one look, in which the device used the most of those that name owners (of equal ones the
    owners the most), so that together they have no more than the device. A ratio is the mean over the looks that
    name ratios; an owner that such a look does not name used nothing then.
    """
    merged: dict[Identity, dict[Series, int | float]] = {each: {} for look in looks for each in look.owners}
    fullest = max((look for look in looks if look.has(OWNER_MEMORY)), key=_fullness, default=Moment())
    for identity, row in fullest.owners.items():
        if OWNER_MEMORY in row.values:
            merged[identity][OWNER_MEMORY] = row.values[OWNER_MEMORY]
    of_ratios = [look for look in looks if look.has(OWNER_COMPUTE)]
    for identity, values in merged.items():
        ratios = [
            row.values[OWNER_COMPUTE] if row is not None else 0
            for row in (look.owners.get(identity) for look in of_ratios)
            if row is None or OWNER_COMPUTE in row.values
        ]
        if ratios:
            values[OWNER_COMPUTE] = sum(ratios) / len(ratios)
    return dict(merged)


def _fullness(look: Moment) -> tuple[int | float, int | float]:
    return look.limit[1] if look.limit else -1, look.owned_bytes
