"""What is said late of a card's instances, holds and states makes the settled hours due that it touches."""

from typing import Any

import pytest
from sqlalchemy import Table, insert

from domain.clock import FrozenClock
from store.database import Database
from store.tables.capacity import device_states, holds, mig_periods
from tests.meter.backlogs import Backlog
from tests.meter.hour import instant_us
from tests.meter.ledgers import add_card

INSTANCE = {
    "mig_uuid": "MIG-1",
    "gi_id": 1,
    "profile": "1g.10gb",
    "start_slice": 0,
    "slices": 1,
    "sm_count": 16,
    "vram_bytes": 10,
    "origin": "foreign",
}
FACTS = pytest.mark.parametrize(
    ("table", "values"),
    [
        pytest.param(mig_periods, INSTANCE, id="instance"),
        pytest.param(device_states, {"state": "draining", "reason": "fan"}, id="state"),
        pytest.param(holds, {"reason": "verifying", "compute_units": 1, "vram_bytes": 0}, id="hold"),
    ],
)


@pytest.fixture
def card(backlog: Backlog, two_hours: None) -> str:
    """A card that stood on n1 in hours 0 to 2 of the four, as was known all the time."""
    add_card(backlog.ledger, "GPU-3", 0, 3 * 3_600)
    return "GPU-3"


def say(ledger: Database, table: Table, gpu_uuid: str, changed_us: int, **values: Any) -> None:
    with ledger.write() as connection:
        connection.execute(insert(table).values(gpu_uuid=gpu_uuid, changed_us=changed_us, **values))


@FACTS
@pytest.mark.parametrize(
    ("start", "end", "hours"),
    [(0.5, 1.5, [0, 1]), (1, 2, [1]), (1.5, None, [1, 2]), (-5, 0.5, [0]), (3, None, []), (2.999, 9, [2])],
)
def test_the_hours_in_which_the_card_stood_there_are_due(
    backlog: Backlog,
    card: str,
    database_clock: FrozenClock,
    table: Table,
    values: dict[str, Any],
    start: float,
    end: float | None,
    hours: list[int],
) -> None:
    assert backlog.due() == []
    interval = {"start_us": instant_us(start * 3_600), "end_us": None if end is None else instant_us(end * 3_600)}
    say(backlog.ledger, table, card, database_clock.now_us(), **values, **interval)
    assert backlog.due() == [(hour, "n1") for hour in hours]


@FACTS
def test_what_was_said_before_the_hours_were_rated_makes_nothing_due(
    backlog: Backlog, card: str, table: Table, values: dict[str, Any]
) -> None:
    say(backlog.ledger, table, card, instant_us(3 * 3_600), **values, start_us=instant_us(0))
    assert backlog.due() == []
