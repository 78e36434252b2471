"""Which windows are to be rated: one until it settles, and a settled one again when what was held in it changes."""

import pytest
from sqlalchemy import delete, update

from domain.clock import FrozenClock
from domain.period import HOUR_US
from store.database import Database
from store.tables.capacity import device_periods, grants
from tests.meter.backlogs import Backlog
from tests.meter.fixture_types import At, MakeGrant, PutGrants, Recorded
from tests.meter.hour import DONE, START_US, instant_us
from tests.meter.ledgers import add_card, add_node, end_cards
from tests.meter.observations import Meanwhile


def test_an_open_window_is_due_until_it_settles(ledger: Database, backlog: Backlog, at: At) -> None:
    """Also one of a node that reports nothing, until the deadline; by hour, then by node."""
    add_node(ledger, "m1")
    with ledger.write() as connection:
        connection.execute(update(device_periods).where(device_periods.c.gpu_uuid == "GPU-2").values(node="m1"))
    end_cards(ledger, 7_200)
    at(3_500)
    assert backlog.due() == [(0, "m1"), (0, "n1")]
    backlog.settle(3_610)
    assert backlog.due() == [(0, "m1"), (0, "n1"), (1, "m1"), (1, "n1")]
    backlog.settle(7_300)
    assert backlog.due() == [(0, "m1"), (1, "m1")]
    backlog.settle(80 * 3_600)
    assert backlog.due() == []


@pytest.mark.usefixtures("two_hours")
def test_a_grant_that_comes_to_light_makes_the_hours_it_touches_due_once_more(
    backlog: Backlog, put_grants: PutGrants, make_grant: MakeGrant
) -> None:
    """An import into a settled hour; hours it does not touch are left alone."""
    assert backlog.due() == []
    put_grants(make_grant(3_000, 8_000, allocation="late", gpu_uuid="GPU-2"))
    assert backlog.due() == [(0, "n1"), (1, "n1"), (2, "n1")]
    assert backlog.due() == [(0, "n1"), (1, "n1"), (2, "n1")]
    backlog.settle(4 * 3_600 + 90_000)
    assert backlog.due() == []
    assert {key: seconds for key, seconds in backlog.granted_seconds().items() if key[1] == "late"} == {
        (0, "late"): 600,
        (1, "late"): 3_600,
        (2, "late"): 800,
    }


@pytest.mark.usefixtures("two_hours")
def test_a_record_that_was_replaced_takes_its_charges_out_of_the_hour_it_left(
    ledger: Database, backlog: Backlog, database_clock: FrozenClock
) -> None:
    """A corrected import says that it began an hour later: nobody holds anything in the first hour any more."""
    with ledger.write() as connection:
        moved = {"start_us": START_US + HOUR_US, "changed_us": database_clock.now_us()}
        connection.execute(update(grants).values(**moved))
    assert backlog.due() == [(0, "n1"), (1, "n1")]
    backlog.settle(4 * 3_600 + 90_000)
    assert backlog.granted_seconds() == {(1, "a1"): 3_600}
    assert backlog.due() == []


@pytest.mark.usefixtures("two_hours")
def test_a_record_that_moves_to_another_node_leaves_its_own(
    ledger: Database, backlog: Backlog, put_grants: PutGrants, make_grant: MakeGrant
) -> None:
    """As an import replaces it: the old row is gone, and the new one is of another node."""
    with ledger.write() as connection:
        connection.execute(delete(grants))
    put_grants(make_grant(0, 3_600, node="n2", gpu_uuid="GPU-9"))
    assert backlog.due() == [(0, "n1"), (0, "n2"), (1, "n1")]
    backlog.settle(4 * 3_600 + 90_000)
    assert {(each, seconds) for each, seconds in backlog.granted_seconds().items()} == set()
    # n2 never said a word, so its window waits for the deadline.
    backlog.settle(100 * 3_600)
    assert backlog.granted_seconds() == {(0, "a1"): 3_600}


@pytest.mark.usefixtures("two_hours")
def test_an_end_that_becomes_known_makes_the_hours_of_the_grant_due(
    ledger: Database, put_grants: PutGrants, make_grant: MakeGrant, database_clock: FrozenClock, backlog: Backlog
) -> None:
    """And no hours of other nodes."""
    put_grants(make_grant(0, 7_200, allocation="a2", node="", gpu_uuid=None), changed_us=0)
    with ledger.write() as connection:
        ended = {"end_us": instant_us(100), "changed_us": database_clock.now_us()}
        connection.execute(update(grants).where(grants.c.allocation == "a1").values(**ended))
    assert backlog.due() == [(0, "n1"), (1, "n1")]


@pytest.mark.usefixtures("two_hours")
def test_a_card_that_comes_to_light_makes_its_hours_due(
    ledger: Database, database_clock: FrozenClock, backlog: Backlog
) -> None:
    """Its capacity is to be accounted for, in settled hours too."""
    add_card(ledger, "GPU-3", 3_600, 7_200, changed_us=database_clock.now_us())
    assert backlog.due() == [(1, "n1")]
    backlog.settle(4 * 3_600 + 90_000)
    assert backlog.due() == []


def test_a_grant_that_was_on_its_way_while_its_hour_settled_is_not_forgotten(
    ledger: Database, backlog: Backlog, recorded: Recorded, put_grants: PutGrants, make_grant: MakeGrant, at: At
) -> None:
    """Stamped before the meter read the record and committed after it, as a long import is; due again, and once."""
    end_cards(ledger, 3_600)
    stamp_us = at(3_690)
    committed_meanwhile = Meanwhile(recorded([], DONE), lambda: put_grants(make_grant(0, 600), changed_us=stamp_us))
    backlog.settle(3_700, committed_meanwhile)
    assert backlog.granted_seconds() == {}
    again = 0
    for seconds in range(5, 3_600, 60):
        at(3_700 + seconds)
        if backlog.due():
            again += 1
            backlog.settle(3_700 + seconds)
    assert backlog.granted_seconds() == {(0, "a1"): 600}
    assert again == 1
