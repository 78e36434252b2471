"""A customer: whose money, in which zone's days, by which prices."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from zoneinfo import ZoneInfo

from domain.period import Period, billing_date, next_midnight_us


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant's billing facts. `books` are (start_us, book) in rising order: the book in force from then on."""

    tenant: str
    zone: ZoneInfo
    currency: str
    books: tuple[tuple[int, str], ...]

    def days(self, period: Period) -> Iterator[tuple[Period, str]]:
        """The period cut at the tenant's midnights, each part with its billing date (YYYY-MM-DD)."""
        start_us = period.start_us
        while start_us < period.end_us:
            end_us = min(period.end_us, next_midnight_us(start_us, self.zone))
            yield Period(start_us, end_us), billing_date(start_us, self.zone).isoformat()
            start_us = end_us

    def books_over(self, period: Period) -> Iterator[tuple[Period, str | None]]:
        """The period cut where the tenant's price book changes; None where none is assigned."""
        starts = [start_us for start_us, _ in self.books if period.start_us < start_us < period.end_us]
        cuts = [period.start_us, *starts, period.end_us]
        for start_us, end_us in pairwise(cuts):
            in_force = [book for from_us, book in self.books if from_us <= start_us]
            yield Period(start_us, end_us), in_force[-1] if in_force else None
