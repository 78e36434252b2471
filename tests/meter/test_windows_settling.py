"""A window's life: open while it fills, settled when it is complete, the same however often it is rated."""

import pytest
from sqlalchemy import update

from domain.period import HOUR_US, Period
from meter.ledger.ledger_store import NO_NODE, load_windows
from meter.windows.windows import Outcome
from store.access import Principal
from store.database import Database
from store.tables.capacity import nodes
from tests.meter.fixture_types import (
    At,
    Everything,
    MakeGrant,
    MakeObserver,
    MakeRater,
    PassAt,
    PutGrants,
    Recorded,
    UseOf,
)
from tests.meter.hour import DONE, START_US, TAIL, instant_us
from tests.meter.ledgers import charges_of, gpu_seconds
from tests.meter.observations import Down, Meanwhile


@pytest.mark.usefixtures("granted")
@pytest.mark.parametrize(
    ("now", "complete", "inventory", "outcome", "until"),
    [
        # Filling: up to the mark, or up to now where the mark is ahead.
        (600, 500, 3_600, Outcome.OPEN, 500),
        (600, 700, 3_600, Outcome.OPEN, 600),
        (600.9, 700, 3_600, Outcome.OPEN, 600),
        (600, None, 3_600, Outcome.WAITING, None),
        (600, 0, 3_600, Outcome.WAITING, None),
        (600, -60, 3_600, Outcome.WAITING, None),
        # Over, but not complete: the grace, the mark with its context, the inventory.
        (3_629, DONE, 3_600, Outcome.OPEN, 3_600),
        (3_630, DONE, 3_600, Outcome.SETTLED, 3_600),
        (3_700, DONE - 1, 3_600, Outcome.OPEN, 3_600),
        (3_700, 3_500, 3_600, Outcome.OPEN, 3_500),
        (3_700, None, 3_600, Outcome.WAITING, None),
        (3_700, DONE, 3_599, Outcome.OPEN, 3_600),
        (3_700, DONE, None, Outcome.OPEN, 3_600),
        # At the deadline whatever is missing.
        (73 * 3_600 - 1, None, None, Outcome.WAITING, None),
        (73 * 3_600, None, None, Outcome.SETTLED, 3_600),
        (73 * 3_600, 10, 3_600, Outcome.SETTLED, 3_600),
        # Before it began.
        (-5, 3_600, 3_600, Outcome.WAITING, None),
        (0, 3_600, 3_600, Outcome.WAITING, None),
    ],
)
def test_a_window_settles_when_it_is_complete_or_at_the_deadline(
    ledger: Database,
    pass_at: PassAt,
    recorded: Recorded,
    use_of: UseOf,
    now: float,
    complete: int | None,
    inventory: int | None,
    outcome: Outcome,
    until: int | None,
) -> None:
    inventory_us = None if inventory is None else instant_us(inventory)
    with ledger.write() as connection:
        connection.execute(update(nodes).values(inventory_us=inventory_us))
    result = pass_at(recorded(use_of(range(3600)), complete), now)
    assert result.outcome is outcome
    if until is None:
        assert result.window is None
        assert charges_of(ledger) == []
        return
    assert result.window is not None
    assert result.window.rated_until_us == instant_us(until)
    assert (result.window.state, result.window.revision) == (outcome.value, int(outcome is Outcome.SETTLED))
    assert (result.window.evidence_digest is not None) == (outcome is Outcome.SETTLED)
    assert list(result.charges) == charges_of(ledger)
    assert gpu_seconds(ledger) == until


@pytest.mark.usefixtures("granted")
def test_what_is_drawn_while_it_fills_is_replaced_and_not_added_to(
    ledger: Database, pass_at: PassAt, recorded: Recorded, use_of: UseOf
) -> None:
    """60.00 while filling and 56.16 at the end are 56.16 (mitos 664)."""
    rows = [*use_of(range(2_000)), *use_of(range(2_100, 3_600))]
    amounts = []
    for now, complete in ((2_050, 2_050), (3_700, DONE)):
        pass_at(recorded(rows, complete), now)
        amounts.append(sum(each.amount_nano for each in charges_of(ledger)))
        assert len(charges_of(ledger)) == 2
    assert amounts[0] < amounts[1]
    assert gpu_seconds(ledger) == 3_500 + TAIL


@pytest.mark.usefixtures("granted")
def test_rating_again_leaves_every_byte_as_it_was(
    pass_at: PassAt, recorded: Recorded, use_of: UseOf, everything: Everything
) -> None:
    """Open or settled, now or much later (Koku COST-7820)."""
    observations = recorded(use_of(range(0, 3600, 2)), DONE)
    pass_at(observations, 3_600)
    opened = everything()
    pass_at(observations, 3_610)
    assert everything() == opened
    pass_at(observations, 3_700)
    settled = everything()
    assert settled != opened
    for now in (3_701, 10 * 3_600, 100 * 3_600):
        assert pass_at(observations, now).outcome is Outcome.SETTLED
        assert everything() == settled


def test_record_only_grants_have_windows_of_their_own(
    ledger: Database, pass_at: PassAt, put_grants: PutGrants, make_grant: MakeGrant
) -> None:
    """Node '': no samples, no mark, no inventory; open while the hour lasts, settled after the grace; no residual."""
    put_grants(make_grant(gpu_uuid=None, node=""))
    down = Down()
    opened = pass_at(down, 600, node=NO_NODE)
    assert opened.window is not None
    assert (opened.outcome, opened.window.rated_until_us) == (Outcome.OPEN, instant_us(600))
    settled = pass_at(down, 3_630, node=NO_NODE)
    assert settled.window is not None
    assert settled.outcome is Outcome.SETTLED
    assert (settled.window.residual_compute, settled.window.residual_vram) == (0, 0)
    assert gpu_seconds(ledger) == 3_600
    assert {each.node for each in charges_of(ledger)} == {""}


@pytest.mark.usefixtures("granted")
@pytest.mark.parametrize(
    ("skew", "settles"),
    [(None, True), (0.0, True), (0.6, True), (2.0, True), (2.001, False), (86_400.0, False)],
)
def test_a_window_of_a_node_whose_clock_is_wrong_waits_for_somebody_to_look(
    pass_at: PassAt, recorded: Recorded, use_of: UseOf, skew: float | None, settles: bool
) -> None:
    """Above two seconds it does not settle by itself, not even at the deadline; it is rated all the same."""
    observations = recorded(use_of(range(3_600)), DONE, skew)
    result = pass_at(observations, 3_700)
    assert result.outcome is (Outcome.SETTLED if settles else Outcome.SKEWED)
    assert result.window is not None
    assert result.window.state == ("settled" if settles else "open")
    assert sum(each.measured_seconds for each in result.charges if each.dimension == "gpu") == 3_600
    assert pass_at(observations, 73 * 3_600).outcome is result.outcome
    assert pass_at(observations, 73 * 3_600, accepts_skew=True).outcome is Outcome.SETTLED
    # Once it has settled it stays so.
    assert pass_at(observations, 73 * 3_600).outcome is Outcome.SETTLED


@pytest.mark.usefixtures("granted")
def test_a_window_says_by_the_ledgers_clock_when_it_was_read(
    ledger: Database, pass_at: PassAt, recorded: Recorded, use_of: UseOf, at: At
) -> None:
    """Before its samples were, which may take a while; the pass itself goes by the time that it was told."""
    read_us = at(50_000)
    takes_long = Meanwhile(recorded(use_of(range(3_600)), DONE), lambda: at(90_000))
    result = pass_at(takes_long, 3_700)
    assert result.window is not None
    assert result.window.rated_us == read_us
    with ledger.read() as connection:
        assert load_windows(connection, Principal.local_operator()) == [result.window]


@pytest.mark.usefixtures("granted")
def test_evidence_of_an_hour_is_the_frozen_one_once_there_is_one(
    make_rater: MakeRater, make_observer: MakeObserver, recorded: Recorded, use_of: UseOf
) -> None:
    hour, now_us = Period(START_US, START_US + HOUR_US), instant_us(4_000)
    rows = use_of(range(1_000))
    unsettled = make_observer(recorded(rows, DONE)).as_it_stands("n1", hour, now_us)
    make_rater(recorded(rows, DONE)).rate_window("n1", START_US, now_us)
    assert make_observer(recorded([], DONE)).as_it_stands("n1", hour, now_us).digest == unsettled.digest
    young = make_observer(recorded(rows)).as_it_stands("n1", Period(hour.end_us, hour.end_us + HOUR_US), now_us + 1)
    assert young.period == Period(hour.end_us, now_us)
