"""What the machine of test_ledger_machine.py found, reduced to a few steps each."""

from collections.abc import Callable

import pytest
from sqlalchemy import delete

from domain.errors import ConflictError
from domain.prices import GapRules, PriceBook
from meter.evidence.observations import RecordedObservations
from meter.ledger.corrections_store import closed_windows_of, load_adjustments
from meter.prices.price_store import load_book
from meter.rating.differences import net
from meter.windows.corrections import Corrector
from meter.windows.verifying import Verifier
from meter.windows.windows import Outcome
from store.access import Principal
from store.database import Database
from store.tables.capacity import grants
from tests.meter.closed_hour import NOW, close_hour, rate_hours
from tests.meter.fixture_types import (
    At,
    Everything,
    MakeGrant,
    MakeObserver,
    MakeRate,
    MakeRater,
    PutGrants,
    Recorded,
    UseOf,
)
from tests.meter.hour import DONE, START_US, instant_us, stretch
from tests.meter.ledgers import charges_of

Correct = Callable[[str], object]


@pytest.fixture
def observations(recorded: Recorded, use_of: UseOf) -> RecordedObservations:
    """1,000 seconds of GPU-1."""
    return recorded(use_of(range(1_000)), DONE)


@pytest.fixture
def correct(
    ledger: Database, operator: Principal, make_observer: MakeObserver, observations: RecordedObservations
) -> Correct:
    """Corrects the hour of a node."""
    corrector = Corrector(ledger, operator, make_observer(observations))
    return lambda node: corrector.correct(node, START_US, "a reason", instant_us(NOW + 100))


@pytest.fixture
def closed(
    ledger: Database, operator: Principal, make_rater: MakeRater, observations: RecordedObservations, at: At
) -> None:
    """The hour closed, in which nobody held anything."""
    at(NOW)
    rate_hours(ledger, operator, make_rater(observations))
    close_hour(ledger, operator)


@pytest.mark.usefixtures("closed")
def test_a_pass_makes_no_window_in_a_closed_hour(
    make_rater: MakeRater,
    observations: RecordedObservations,
    put_grants: PutGrants,
    make_grant: MakeGrant,
    everything: Everything,
) -> None:
    """A record of it that came later is for a correction."""
    put_grants(make_grant(0, 60, allocation="cloud", gpu_uuid=None, node="x"))
    before = everything()
    assert make_rater(observations).rate_window("", START_US, instant_us(NOW)).outcome is Outcome.CLOSED
    assert everything() == before


@pytest.mark.usefixtures("closed")
def test_a_record_that_was_corrected_to_and_is_taken_back_has_its_window_corrected_again(
    ledger: Database,
    operator: Principal,
    correct: Correct,
    put_grants: PutGrants,
    make_grant: MakeGrant,
) -> None:
    """It was neither charged at the close nor is it granted by now: only adjustments say that it was."""
    put_grants(make_grant(0, 60, allocation="late"))
    correct("n1")
    with ledger.write() as connection:
        connection.execute(delete(grants).where(grants.c.allocation == "late"))
    with ledger.read() as connection:
        assert closed_windows_of(connection, operator, ["late"]) == [("n1", START_US)]
    correct("n1")
    with ledger.read() as connection:
        assert net([*charges_of(ledger), *load_adjustments(connection, operator)]) == []


@pytest.mark.usefixtures("closed")
def test_a_rate_does_not_end_before_what_was_adjusted_by_it(
    ledger: Database,
    operator: Principal,
    correct: Correct,
    put_grants: PutGrants,
    make_grant: MakeGrant,
    make_rate: MakeRate,
    make_observer: MakeObserver,
    observations: RecordedObservations,
) -> None:
    """Else a proof finds that the adjustment stands on a price that was never in force."""
    put_grants(make_grant(0, 60, allocation="late"))
    correct("n1")
    ended = PriceBook("retail", "CNY", GapRules(), (make_rate(end=0),))
    with pytest.raises(ConflictError, match=r"stand on it; end it then or later$"), ledger.write() as connection:
        load_book(connection, operator, ended, now_us=instant_us(NOW + 200))
    verifier = Verifier(ledger, operator, make_observer(observations))
    its_windows = verifier.windows(stretch(0, 3_600))
    assert [problem for window in its_windows for problem in verifier.verify_window(window)] == []
