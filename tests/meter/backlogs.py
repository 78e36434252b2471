"""A meter's list of windows: looked through and worked off."""

from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from domain.clock import FrozenClock
from domain.period import Period
from meter.evidence.observations import Observations
from meter.windows.backlog_store import due_windows, find_windows, windows_of
from meter.windows.passes import rate_period
from store.access import Principal
from store.database import Database
from tests.meter.charges import gpu_charges
from tests.meter.fixture_types import At, MakeRater
from tests.meter.hour import hours_after
from tests.meter.ledgers import charges_of

# (hours after the hour, node)
Place = tuple[int, str]


@dataclass(frozen=True)
class Backlog:
    """The windows of a ledger, as a meter finds them and rates them by what it observed."""

    ledger: Database
    operator: Principal
    at: At
    make_rater: MakeRater
    observations: Observations

    def find(self, now: float) -> list[Place]:
        """Look for windows; all that there are."""
        self.at(now)
        find_windows(self.ledger, self.operator)
        return self.touched(Period(0, 2**60))

    def touched(self, period: Period) -> list[Place]:
        """Of those that were found, the ones whose hour the period touches."""
        with self.ledger.read() as connection:
            return _places(windows_of(connection, self.operator, period))

    def due(self) -> list[Place]:
        """Look for windows; those to rate."""
        find_windows(self.ledger, self.operator)
        with self.ledger.read() as connection:
            return _places(due_windows(connection, self.operator))

    def settle(self, now: float, observations: Observations | None = None) -> None:
        """Look for windows and rate them all."""
        now_us = self.at(now)
        rater = self.make_rater(observations or self.observations)
        list(rate_period(self.ledger, self.operator, rater, Period(0, now_us), FrozenClock(now_us), pytest.fail))

    def granted_seconds(self) -> dict[tuple[int, str], int]:
        """What is billed, by (hours after the hour, allocation)."""
        return {
            (hours_after(each.window_start_us), each.allocation): each.granted_seconds
            for each in gpu_charges(charges_of(self.ledger))
        }


def _places(found: Iterable[tuple[str, int]]) -> list[Place]:
    return [(hours_after(start_us), node) for node, start_us in found]
