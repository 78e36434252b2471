"""Spend of a range of days, divided by day and by one thing more; amounts are what is payable, in nano-units."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum

from meter.bills.spend import SpendRow


class Grouping(StrEnum):
    """What the bars are divided by."""

    TENANT = "tenant"
    PROJECT = "project"
    DIMENSION = "dimension"


@dataclass(frozen=True, slots=True)
class Breakdown:
    """One currency's spend. `days` are YYYY-MM-DD, in order and without holes; `groups` by falling total.

    `cells_nano` has no cell where nothing was charged: that is not 0.
    """

    currency: str
    days: tuple[str, ...]
    groups: tuple[str, ...]
    cells_nano: Mapping[tuple[str, str], int]

    @property
    def total_nano(self) -> int:
        """The sum of all cells."""
        return sum(self.cells_nano.values())

    def day_nano(self, day: str) -> int | None:
        """The sum of a day; None where nothing was charged on it."""
        return _sum(self.cells_nano.get((day, group)) for group in self.groups)

    def group_nano(self, group: str) -> int | None:
        """The sum of a group over all days."""
        return _sum(self.cells_nano.get((day, group)) for day in self.days)

    def largest(self, most: int) -> "Breakdown":
        """The same with `most` groups and one of all others, where there are more than one more."""
        if len(self.groups) <= most + 1:
            return self
        kept, others = self.groups[:most], self.groups[most:]
        # No tenant, project or dimension has a blank in its name.
        rest = f"{len(others)} others"
        cells = {key: nano for key, nano in self.cells_nano.items() if key[1] in kept}
        for day in self.days:
            nano = _sum(self.cells_nano.get((day, group)) for group in others)
            if nano is not None:
                cells[day, rest] = nano
        return Breakdown(self.currency, self.days, (*kept, rest), cells)


def break_down(rows: Iterable[SpendRow], first: date, last: date, grouping: Grouping) -> list[Breakdown]:
    """One breakdown per currency, in order of their codes: amounts of two currencies are never added.

    `first` and `last` are billing dates, both included, and the rows lie among them.
    """
    known = list(rows)
    name = _naming(known, grouping)
    by_currency: dict[str, dict[tuple[str, str], int]] = defaultdict(lambda: defaultdict(int))
    for row in known:
        by_currency[row.currency][row.billing_date, name(row)] += row.payable_nano
    days = tuple((first + timedelta(days=number)).isoformat() for number in range((last - first).days + 1))
    found = []
    for currency, cells_nano in sorted(by_currency.items()):
        totals_nano: dict[str, int] = defaultdict(int)
        for (_, group), nano in cells_nano.items():
            totals_nano[group] += nano
        groups = tuple(sorted(totals_nano, key=lambda group: (-totals_nano[group], group)))
        found.append(Breakdown(currency, days, groups, dict(cells_nano)))
    return found


def _naming(rows: Iterable[SpendRow], grouping: Grouping) -> Callable[[SpendRow], str]:
    if grouping is Grouping.TENANT:
        return lambda row: row.tenant
    if grouping is Grouping.DIMENSION:
        return lambda row: row.dimension
    if len({row.tenant for row in rows}) == 1:
        return lambda row: row.project
    # Two tenants may each have a project of the name.
    return lambda row: f"{row.tenant}/{row.project}"


def _sum(amounts_nano: Iterable[int | None]) -> int | None:
    known = [nano for nano in amounts_nano if nano is not None]
    return sum(known) if known else None
