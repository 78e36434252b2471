"""A window by the ledger's own records: what was held of which card where, and when the node was heard from."""

import pytest

from domain.series import COLLECTOR_LATENESS
from domain.units import GIB
from meter.evidence.observations import RecordedObservations
from store.database import Database
from tests.meter.fixture_types import MakeGrant, MakeSamples, PassAt, PutGrants, Recorded, UseOf
from tests.meter.hour import DONE, HOUR_S
from tests.meter.ledgers import add_card, add_heartbeats, add_node, gpu_seconds, remove_card


def test_a_window_counts_what_no_rate_covers_and_what_does_not_add_up(
    ledger: Database, pass_at: PassAt, recorded: Recorded, use_of: UseOf, put_grants: PutGrants, make_grant: MakeGrant
) -> None:
    """Both of two tenants hold the card for ten seconds: the residual is what one of them has too much."""
    put_grants(make_grant(0, 100, allocation="a1"), make_grant(90, 200, allocation="a2"))
    result = pass_at(recorded(use_of(range(3_600)), DONE), 3_700)
    assert result.window is not None
    assert (result.window.residual_compute, result.window.unpriced_seconds) == (10 * 1_000, 0)
    assert result.window.residual_vram == 10 * 24 * GIB
    put_grants(make_grant(0, 10, allocation="a3", gpu_uuid="GPU-404"))
    result = pass_at(recorded(use_of(range(3_600)), DONE), 3_700)
    assert result.window is not None
    assert (result.window.residual_compute, result.window.residual_vram) == (None, None)


def test_a_card_that_moves_while_it_is_held_leaves_no_residual(
    ledger: Database,
    pass_at: PassAt,
    make_samples: MakeSamples,
    use_of: UseOf,
    put_grants: PutGrants,
    make_grant: MakeGrant,
) -> None:
    """From n1 to n2 in the middle of the hour, and back for its last minutes; nobody ended the grant."""
    put_grants(make_grant())
    moves = [(0, 1_800, "n1"), (1_800, 3_000, "n2"), (3_000, None, "n1")]
    add_node(ledger, "n2", reported=7_200)
    remove_card(ledger, "GPU-1")
    for start, end, node in moves:
        add_card(ledger, "GPU-1", start, end, node=node)
    samples = {
        "n1": make_samples([*use_of(range(1_800)), *use_of(range(3_000, 3_600)), *use_of(range(3_600), gpu="GPU-2")]),
        "n2": make_samples(use_of(range(1_800, 3_000))),
    }
    observations = RecordedObservations(samples, dict.fromkeys(samples, HOUR_S + DONE))
    for node in samples:
        result = pass_at(observations, 3_700, node=node)
        assert result.window is not None
        assert (result.window.residual_compute, result.window.residual_vram) == (0, 0)
    # It is billed by the node that its record names, and was seen there for 40 minutes.
    assert gpu_seconds(ledger) == 2_400
    # Who holds it by the name of its new node holds it a second time.
    put_grants(make_grant(1_800, 3_000, allocation="a2", node="n2"))
    for node, seconds in (("n1", 0), ("n2", 1_200)):
        result = pass_at(observations, 3_800, node=node)
        assert result.window is not None
        assert result.window.residual_compute == seconds * 1_000


@pytest.mark.usefixtures("granted")
@pytest.mark.parametrize(("ticks", "free"), [(True, 3_000), (False, 0)])
def test_the_only_card_of_a_node_that_hangs_is_not_billed_while_the_collector_looks(
    ledger: Database, pass_at: PassAt, recorded: Recorded, use_of: UseOf, ticks: bool, free: int
) -> None:
    """Without a tick there was no collector: the node was heard from, so its card is on record."""
    add_heartbeats(ledger, 0, 3_600)
    remove_card(ledger, "GPU-2")
    rows = use_of(range(600))
    if ticks:
        rows += [(COLLECTOR_LATENESS.name, "", "", "", second, 0.001) for second in range(DONE)]
    result = pass_at(recorded(rows, DONE), 3_700)
    assert {each.free_seconds for each in result.charges} == {free}
    assert gpu_seconds(ledger) == 3_600 - free


@pytest.mark.usefixtures("granted")
def test_heartbeats_before_the_hour_count_in_its_context(ledger: Database, pass_at: PassAt, recorded: Recorded) -> None:
    """Last heard four seconds before it, and sampled never: six seconds on record, the rest free."""
    add_heartbeats(ledger, -100, -4)
    pass_at(recorded([], DONE), 3_700)
    assert gpu_seconds(ledger) == 6
