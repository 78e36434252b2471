"""What comes after a window settled, or is gone by then: more makes a new revision, less takes nothing off a bill."""

from pathlib import Path

import pytest
from sqlalchemy import insert, select, update

from domain.units import GIB
from meter.ledger.late_store import late_seconds
from meter.windows.windows import Outcome
from store.access import Principal
from store.database import Database
from store.tables.billing import evidence, windows
from store.tables.closing import hour_digests
from tests.meter.fixture_types import Everything, MakeGrant, PassAt, PutGrants, Recorded, UseOf
from tests.meter.hour import DONE, START_US, TAIL
from tests.meter.ledgers import add_heartbeats, gpu_seconds


@pytest.mark.usefixtures("granted")
def test_late_samples_make_a_new_revision_and_keep_the_old_file(
    ledger: Database, pass_at: PassAt, recorded: Recorded, use_of: UseOf, tmp_path: Path
) -> None:
    """The charges are replaced, the first evidence stays to be looked at."""
    first = pass_at(recorded(use_of(range(1_000)), DONE), 3_700)
    (old_file,) = (tmp_path / "evidence").rglob("*.parquet")
    old_bytes = old_file.read_bytes()
    assert gpu_seconds(ledger) == 1_000 + TAIL

    second = pass_at(recorded(use_of(range(2_000)), DONE), 3_800)
    assert first.window is not None
    assert second.window is not None
    assert (first.window.revision, second.window.revision) == (1, 2)
    assert first.window.evidence_digest != second.window.evidence_digest
    assert gpu_seconds(ledger) == 2_000 + TAIL
    assert old_file.read_bytes() == old_bytes
    with ledger.read() as connection:
        kept = connection.execute(select(evidence).order_by(evidence.c.revision)).all()
    assert [row.revision for row in kept] == [1, 2]
    assert [row.digest for row in kept] == [first.window.evidence_digest, second.window.evidence_digest]
    assert all((tmp_path / "evidence" / row.path).stat().st_size == row.size_bytes for row in kept)
    assert len({row.path for row in kept}) == 2


@pytest.mark.usefixtures("granted")
def test_a_grant_that_comes_to_light_after_settling_is_billed_by_the_frozen_evidence(
    ledger: Database, pass_at: PassAt, recorded: Recorded, use_of: UseOf, put_grants: PutGrants, make_grant: MakeGrant
) -> None:
    """Rating is a function of evidence, grants and prices: the store may be empty by then."""
    rows = [*use_of(range(1_000)), *use_of(range(700), gpu="GPU-2")]
    pass_at(recorded(rows, DONE), 3_700)
    put_grants(make_grant(0, 600, allocation="late", gpu_uuid="GPU-2"))
    result = pass_at(recorded([], DONE), 3_800)
    assert result.window is not None
    assert (result.window.revision, result.kept_frozen) == (1, True)
    assert gpu_seconds(ledger) == 1_600 + TAIL


@pytest.mark.usefixtures("granted")
def test_a_closed_window_is_left_alone(
    ledger: Database,
    pass_at: PassAt,
    recorded: Recorded,
    use_of: UseOf,
    put_grants: PutGrants,
    make_grant: MakeGrant,
    everything: Everything,
) -> None:
    """Neither late samples nor other grants change it; how many seconds came late is counted, once."""
    pass_at(recorded(use_of(range(1_000)), DONE), 3_700)
    with ledger.write() as connection:
        connection.execute(update(windows).values(state="closed"))
        connection.execute(insert(hour_digests).values(start_us=START_US, digest="d", previous_digest=None))
    put_grants(make_grant(allocation="late", gpu_uuid="GPU-2"))
    before = everything()
    for seconds, late in ((1_000, {}), (1_600, {"n1": 600}), (1_600, {"n1": 600}), (500, {})):
        result = pass_at(recorded(use_of(range(seconds)), DONE), 3_800)
        assert (result.outcome, result.charges) == (Outcome.CLOSED, ())
        with ledger.read() as connection:
            assert late_seconds(connection, Principal.local_operator()) == late
        assert {name: rows for name, rows in everything().items() if name != "late_samples"} == {
            name: rows for name, rows in before.items() if name != "late_samples"
        }


@pytest.mark.usefixtures("granted")
@pytest.mark.parametrize("left", [range(0), range(500), range(500, 1_000)])
def test_what_the_store_has_lost_since_does_not_shrink_a_bill(
    ledger: Database, pass_at: PassAt, recorded: Recorded, use_of: UseOf, everything: Everything, left: range
) -> None:
    """Retention, or a lost disk: the frozen evidence is rated, and the result says so."""
    pass_at(recorded(use_of(range(1_000)), DONE), 3_700)
    before = everything()
    result = pass_at(recorded(use_of(left), DONE), 3_800)
    assert result.kept_frozen
    assert everything() == before


@pytest.mark.usefixtures("granted")
def test_memory_that_the_store_has_lost_since_does_not_take_overuse_off_a_bill(
    ledger: Database, pass_at: PassAt, recorded: Recorded, use_of: UseOf, everything: Everything
) -> None:
    """As many seconds were sampled as before, but of one series less is left."""
    up = [("gpu_up", "GPU-1", "", "", second, 1.0) for second in range(3_600)]
    pass_at(recorded([*up, *use_of(range(3_600), 25 * GIB)], DONE), 3_700)
    before = everything()
    for rows in (up, [*up, *use_of(range(1_000), 25 * GIB)]):
        result = pass_at(recorded(rows, DONE), 3_800)
        assert result.kept_frozen
        assert everything() == before


@pytest.mark.usefixtures("granted")
def test_what_is_known_of_a_lost_card_is_not_forgotten_with_its_samples(
    ledger: Database, pass_at: PassAt, recorded: Recorded, everything: Everything
) -> None:
    """It was lost all the hour, so nothing is billed; when retention has taken that away, heartbeats alone would."""
    add_heartbeats(ledger, 0, 3_600)
    lost = [("gpu_up", "GPU-1", "", "", second, 0.0) for second in range(-30, 3_630)]
    pass_at(recorded(lost, DONE), 3_700)
    assert gpu_seconds(ledger) == 0
    before = everything()
    assert pass_at(recorded([], DONE), 3_800).kept_frozen
    assert everything() == before


@pytest.mark.usefixtures("granted")
def test_a_settled_window_stays_whole_when_the_mark_goes_back(
    pass_at: PassAt, recorded: Recorded, use_of: UseOf, everything: Everything
) -> None:
    """The mark is only asked before a window settles: a store that was restored may know an older one, or none."""
    rows = use_of(range(1_000))
    pass_at(recorded(rows, DONE), 3_700)
    before = everything()
    for complete in (2_000, 0, None):
        result = pass_at(recorded(rows, complete), 3_800)
        assert result.outcome is Outcome.SETTLED
        assert everything() == before
