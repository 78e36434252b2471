"""After the close: what was closed stays, and what differs by now is added to it as adjustments."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import delete, update

from domain.errors import ConflictError
from domain.units import GIB
from meter.bills.invoice_store import load_draft
from meter.bills.spend_store import spend_by_day
from meter.evidence.observations import Observations
from meter.ledger.corrections_store import closed_windows_of, load_adjustments, load_corrections
from meter.ledger.late_store import late_seconds
from meter.ledger.leases_store import take_lease
from meter.rating.charges import Charge
from meter.rating.differences import net
from meter.windows.corrections import Corrected, Corrector
from store.access import Principal
from store.database import Database
from store.tables.capacity import grants
from tests.meter.charges import gpu_charges
from tests.meter.closed_hour import NOW, close_hour, rate_hours
from tests.meter.fixture_types import (
    At,
    Everything,
    MakeGrant,
    MakeObserver,
    MakeRater,
    PutGrants,
    Recorded,
    UseOf,
)
from tests.meter.hour import DONE, START_US, TAIL, instant_us
from tests.meter.ledgers import charges_of

Correct = Callable[..., Corrected | None]


@pytest.fixture
def correct(ledger: Database, operator: Principal, make_observer: MakeObserver) -> Correct:
    """Corrects the hour of a node by what the store has now."""

    def corrected(observations: Observations, node: str = "n1", reason: str = "late samples") -> Corrected | None:
        observer = make_observer(observations)
        return Corrector(ledger, operator, observer).correct(node, START_US, reason, instant_us(NOW + 100))

    return corrected


@pytest.fixture
def closed(
    ledger: Database,
    operator: Principal,
    put_grants: PutGrants,
    make_grant: MakeGrant,
    make_rater: MakeRater,
    recorded: Recorded,
    use_of: UseOf,
    at: At,
) -> None:
    """acme held GPU-1 for the hour; 1,000 seconds of it were sampled when it was closed."""
    put_grants(make_grant())
    at(NOW)
    rate_hours(ledger, operator, make_rater(recorded(use_of(range(1_000)), DONE)))
    close_hour(ledger, operator)


def _adjustments(ledger: Database) -> list[Charge]:
    with ledger.read() as connection:
        return load_adjustments(connection, Principal.local_operator())


@pytest.mark.usefixtures("closed")
def test_late_samples_become_adjustments_and_what_was_closed_stays(
    ledger: Database, operator: Principal, correct: Correct, recorded: Recorded, use_of: UseOf, tmp_path: Path
) -> None:
    """Charges and adjustments sum to what the window would have been rated to."""
    before = charges_of(ledger)
    files = {file: file.read_bytes() for file in (tmp_path / "evidence").rglob("*.parquet")}
    done = correct(recorded(use_of(range(1_600)), DONE))
    assert done is not None
    assert done.is_new_evidence
    assert charges_of(ledger) == before
    assert {file: file.read_bytes() for file in files} == files
    (more,) = gpu_charges(_adjustments(ledger))
    assert (more.granted_seconds, more.measured_seconds, more.free_seconds, more.covered_seconds) == (0, 600, -600, 600)
    # 600 s at 2.20 an hour.
    assert more.amount_nano == 366_666_667
    (billed,) = gpu_charges(net([*before, *_adjustments(ledger)]))
    assert (billed.measured_seconds, billed.on_record_seconds, billed.free_seconds) == (1_600, TAIL, 2_000 - TAIL)
    with ledger.read() as connection:
        (correction,) = load_corrections(connection, operator)
    assert (correction.node, correction.start_us, correction.revision) == ("n1", START_US, 2)
    assert (correction.reason, correction.principal, correction.previous_digest) == (
        "late samples",
        operator.name,
        None,
    )


@pytest.mark.usefixtures("closed")
def test_correcting_twice_adjusts_once(
    correct: Correct, recorded: Recorded, use_of: UseOf, everything: Everything
) -> None:
    late = recorded(use_of(range(1_600)), DONE)
    assert correct(late) is not None
    after = everything()
    assert correct(late) is None
    # What the store has forgotten since takes nothing back.
    assert correct(recorded([], DONE)) is None
    assert everything() == after


@pytest.mark.usefixtures("closed")
def test_one_correction_follows_another_and_each_is_chained(
    ledger: Database, operator: Principal, correct: Correct, recorded: Recorded, use_of: UseOf
) -> None:
    """The second adjusts what charges and the first come to."""
    for until in (1_600, 2_000):
        assert correct(recorded(use_of(range(until)), DONE), reason=f"until {until}") is not None
    assert [each.measured_seconds for each in gpu_charges(_adjustments(ledger))] == [600, 400]
    with ledger.read() as connection:
        first, second = load_corrections(connection, operator)
    assert (first.revision, second.revision) == (2, 3)
    assert second.previous_digest == first.digest


@pytest.mark.usefixtures("closed")
def test_what_came_late_is_counted_until_a_correction_has_used_it(
    ledger: Database, operator: Principal, correct: Correct, make_rater: MakeRater, recorded: Recorded, use_of: UseOf
) -> None:
    late = recorded(use_of(range(1_600)), DONE)
    make_rater(late).rate_window("n1", START_US, instant_us(NOW + 50))
    with ledger.read() as connection:
        assert late_seconds(connection, operator) == {"n1": 600}
    correct(late)
    make_rater(late).rate_window("n1", START_US, instant_us(NOW + 150))
    with ledger.read() as connection:
        assert late_seconds(connection, operator) == {}


@pytest.mark.usefixtures("closed")
def test_a_record_that_changed_after_the_close_is_adjusted(
    ledger: Database, correct: Correct, recorded: Recorded, use_of: UseOf, put_grants: PutGrants, make_grant: MakeGrant
) -> None:
    """a1 had ended after 300 seconds, and a2 had held GPU-2: the one is taken back, the other charged."""
    with ledger.write() as connection:
        connection.execute(update(grants).values(end_us=instant_us(300)))
    put_grants(make_grant(0, 600, allocation="a2", gpu_uuid="GPU-2"))
    rows = [*use_of(range(1_000)), *use_of(range(1_000), gpu="GPU-2")]
    assert correct(recorded(rows, DONE), reason="the job had ended") is not None
    taken, given = gpu_charges(_adjustments(ledger))
    assert (taken.allocation, taken.measured_seconds, taken.granted_seconds) == ("a1", -700, -3_300)
    assert (given.allocation, given.measured_seconds, given.granted_seconds) == ("a2", 600, 600)
    billed = gpu_charges(net([*charges_of(ledger), *_adjustments(ledger)]))
    assert {each.allocation: each.granted_seconds for each in billed} == {"a1": 300, "a2": 600}


@pytest.mark.usefixtures("closed")
def test_a_record_without_a_device_makes_a_window_in_a_closed_hour_by_correction_alone(
    ledger: Database,
    operator: Principal,
    correct: Correct,
    recorded: Recorded,
    put_grants: PutGrants,
    make_grant: MakeGrant,
) -> None:
    put_grants(make_grant(0, 60, allocation="cloud", gpu_uuid=None, node="x"))
    with ledger.read() as connection:
        assert closed_windows_of(connection, operator, ["cloud"]) == [("", START_US)]
        assert closed_windows_of(connection, operator, ["a1"]) == [("n1", START_US)]
    assert correct(recorded([], DONE), node="") is not None
    assert [(each.node, each.on_record_seconds) for each in gpu_charges(_adjustments(ledger))] == [("", 60)]


@pytest.mark.usefixtures("closed")
def test_drafts_and_days_are_of_what_is_owed(
    ledger: Database, operator: Principal, correct: Correct, recorded: Recorded, use_of: UseOf
) -> None:
    """An invoice's lines and the explorer's days count adjustments on the day of what they adjust."""
    assert correct(recorded(use_of(range(1_600), 25 * GIB), DONE)) is not None
    owed = sum(each.amount_nano for each in net([*charges_of(ledger), *_adjustments(ledger)]))
    with ledger.read() as connection:
        draft = load_draft(connection, operator, "acme", "2026-03-01", "2026-03-31")
        days = spend_by_day(connection, operator, "2026-03-01", "2026-03-31")
    assert sum(line.amount_nano for line in draft.lines) == owed
    assert sum(row.amount_nano for row in days) == owed
    assert {(row.dimension, row.charges) for row in days} == {("gpu", 1), ("vram", 1)}
    assert draft.total_nano == sum(row.payable_nano for row in days)
    (gpu,) = (line for line in draft.lines if line.dimension == "gpu")
    assert (gpu.granted_seconds, gpu.covered_seconds, gpu.coverable_seconds) == (3_600, 1_600, 3_600)


def test_an_hour_that_is_not_closed_is_rated_again_and_not_corrected(correct: Correct, recorded: Recorded) -> None:
    with pytest.raises(ConflictError, match=r"^cannot correct the hour '2026-03-01T10:00:00Z': it is not closed"):
        correct(recorded([], DONE))


@pytest.mark.usefixtures("closed")
def test_what_could_not_have_been_closed_is_not_corrected_to(
    ledger: Database,
    correct: Correct,
    recorded: Recorded,
    use_of: UseOf,
    put_grants: PutGrants,
    make_grant: MakeGrant,
    everything: Everything,
) -> None:
    """Use without a price, a card that is granted twice, a card that nobody has on record."""
    late = recorded(use_of(range(1_600)), DONE)
    for changes, why in (
        ({"gpu_uuid": "GPU-1"}, "its capacity would not add up"),
        ({"gpu_uuid": "GPU-7"}, "its capacity would not add up"),
    ):
        put_grants(make_grant(allocation="more", **changes))
        before = everything()
        with pytest.raises(ConflictError, match=rf"^cannot correct the window 'n1' '2026-03-01T10:00:00Z': {why}"):
            correct(late)
        assert everything() == before
        with ledger.write() as connection:
            connection.execute(delete(grants).where(grants.c.allocation == "more"))


@pytest.mark.usefixtures("closed")
def test_a_window_that_another_meter_is_at_work_on_is_not_corrected(
    ledger: Database, operator: Principal, correct: Correct, recorded: Recorded, use_of: UseOf
) -> None:
    with ledger.write() as connection:
        take_lease(connection, operator, "n1", START_US)
    with pytest.raises(ConflictError, match=r"another meter is at work on it; run again$"):
        correct(recorded(use_of(range(1_600)), DONE))
