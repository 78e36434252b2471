"""What is closed: public bugs with a right answer, in hours that somebody closed."""

import pytest

from domain.errors import ConflictError
from domain.period import HOUR_US
from meter.bills.invoice_store import load_draft
from meter.bills.spend_store import spend_by_day
from meter.evidence.observations import RecordedObservations
from meter.ledger.closing_store import load_chain
from meter.ledger.corrections_store import load_adjustments
from meter.windows.closing import close_hours
from meter.windows.corrections import Corrector
from store.access import Principal
from store.database import Database
from tests.meter.cases.booking import add_rates, at_offset, rate_hours, take_in
from tests.meter.charges import gpu_charges
from tests.meter.facts import make_grant, make_rate, use_of
from tests.meter.fixture_types import At, MakeObserver, MakeRater, OpenLedger, PutGrants, Recorded
from tests.meter.hour import START_US, instant_us
from tests.meter.ledgers import charges_of

HOUR = 3_600
LATER = 40 * 24 * HOUR


@pytest.fixture
def seen(recorded: Recorded) -> RecordedObservations:
    """All of GPU-1 and GPU-2 over two hours."""
    rows = [row for gpu in ("GPU-1", "GPU-2") for row in use_of(range(2 * HOUR + 60), 0, gpu=gpu)]
    return recorded(rows, 2 * HOUR + 60)


@pytest.fixture
def rated(ledger: Database, make_rater: MakeRater, put_grants: PutGrants, seen: RecordedObservations, at: At) -> None:
    """Two hours have settled, in which acme held GPU-1."""
    put_grants(make_grant(0, 2 * HOUR))
    rate_hours(ledger, make_rater(seen), range(2), at(3 * HOUR))


@pytest.mark.usefixtures("rated")
def test_two_who_close_the_same_hours_close_each_once(
    ledger: Database, open_ledger: OpenLedger, operator: Principal
) -> None:
    """metering D49: two workers finalised one period (Lago 5523): each hour has one digest, and one chain them all.

    Both are at work on the same two hours; what one has closed meanwhile is nothing that the other must report.
    """
    one, other = (close_hours(database, operator, instant_us(2 * HOUR)) for database in (ledger, open_ledger()))
    assert [next(one).start_us, next(other).start_us] == [START_US, START_US + HOUR_US]
    assert (list(one), list(other)) == ([], [])
    with ledger.read() as connection:
        chain = load_chain(connection, operator)
    assert [each.start_us for each in chain] == [START_US, START_US + HOUR_US]
    assert [each.previous_digest for each in chain] == [None, chain[0].digest]


@pytest.mark.usefixtures("rated")
def test_closed_hours_keep_their_total_whatever_becomes_of_the_prices(
    ledger: Database, operator: Principal, make_rater: MakeRater, seen: RecordedObservations, at: At
) -> None:
    """metering D50: a week that was closed went from 2,472.81 to 1,923.92 when a list was edited (ccusage 1636)."""
    list(close_hours(ledger, operator, instant_us(2 * HOUR)))

    def total() -> int:
        with ledger.read() as connection:
            return load_draft(connection, operator, "acme", "2026-03-01", "2026-03-01").total_nano

    before = total()
    assert before == 2 * (2_200_000_000 + 24 * 30_000_000)
    add_rates(ledger, make_rate("gpu", "0.10", tenant="acme"), book="retail", now=4 * HOUR)
    rate_hours(ledger, make_rater(seen), range(2), at(LATER))
    assert total() == before


@pytest.mark.usefixtures("rated")
def test_a_record_for_a_closed_hour_is_a_row_of_its_own_in_that_hour(
    ledger: Database,
    operator: Principal,
    make_observer: MakeObserver,
    put_grants: PutGrants,
    seen: RecordedObservations,
    at: At,
) -> None:
    """metering C37: arrived today for last month, and what was shown stayed as it was (Lago 6019, killbill 876).

    An import is refused and told the way. That way leaves the closed row, and adds one to the month it is of.
    """
    list(close_hours(ledger, operator, instant_us(HOUR)))
    before = charges_of(ledger)
    with pytest.raises(ConflictError, match=r"is closed; use `gputab meter correct`"):
        take_in(ledger, {"gpu_uuid": "GPU-2", "end": at_offset(130)})

    now_us = at(LATER)
    put_grants(make_grant(0, 130, allocation="late", gpu_uuid="GPU-2"))
    assert Corrector(ledger, operator, make_observer(seen)).correct("n1", START_US, "found", now_us) is not None
    assert charges_of(ledger) == before
    with ledger.read() as connection:
        (added,) = gpu_charges(load_adjustments(connection, operator))
        days = spend_by_day(connection, operator, "2026-01-01", "2026-12-31")
    assert (added.window_start_us, added.billing_date, added.granted_seconds) == (START_US, "2026-03-01", 130)
    assert [(each.billing_date, each.granted_seconds) for each in days if each.dimension == "gpu"] == [
        ("2026-03-01", 2 * HOUR + 130)
    ]
