"""An hour of n1 that is rated and closed, as tests of corrections and proofs begin with."""

from collections.abc import Sequence
from typing import Any

from meter.evidence.observations import Observations
from meter.windows.backlog_store import find_windows
from meter.windows.closing import close_hours
from meter.windows.windows import WindowRater
from store.access import Principal
from store.database import Database
from tests.meter.hour import START_US, instant_us

NOW = 3_700


def rate_hours(ledger: Database, operator: Principal, rater: WindowRater, nodes: Sequence[str] = ("n1",)) -> None:
    """The hour of these nodes, settled."""
    find_windows(ledger, operator)
    for node in nodes:
        rater.rate_window(node, START_US, instant_us(NOW))


def close_hour(ledger: Database, operator: Principal) -> None:
    """The hour closed."""
    assert len(list(close_hours(ledger, operator, instant_us(3_600)))) == 1


class Replaced:
    """Observations that can be exchanged for others while a rater holds them, as a store gets more samples."""

    def __init__(self, observations: Observations) -> None:
        self.observations = observations

    def __getattr__(self, name: str) -> Any:
        return getattr(self.observations, name)
