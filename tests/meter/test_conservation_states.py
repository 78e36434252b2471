"""Every second of a card is in one state, and the seven sum to the card."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.clock import MICROSECONDS as US
from domain.grants import GrantKind
from domain.units import GIB, MIB
from meter.conservation.residuals import Residuals
from store.capacity import DeviceStatePeriod, Hold
from tests.meter.capacity import STATES, make_card, make_fleet, make_h100, make_instance, residuals_of, span, sums_of
from tests.meter.fixture_types import MakeGrant, Observe, UseOf

SPAN_S = 60
_edges = st.tuples(st.integers(0, SPAN_S * US), st.integers(0, SPAN_S * US)).map(sorted)


def test_an_empty_card_is_idle_but_for_what_its_driver_keeps(observe: Observe) -> None:
    sums = sums_of(make_fleet(make_card()), [], observe(end=10))
    assert sums == {"idle": (10 * 1_000, 10 * 23 * GIB), "reserved": (0, 10 * GIB)}


def test_a2_a_quarter_that_is_granted_leaves_three_quarters_idle(observe: Observe, make_grant: MakeGrant) -> None:
    """Where less is left than the smallest share, it is stranded (OpenCost 3828, HAMi 3073)."""
    card = make_card(share_min_milli=100, share_min_vram_bytes=GIB)
    quarter = make_grant(kind=GrantKind.SHARE, compute_units=250, vram_bytes=6 * GIB)
    sums = sums_of(make_fleet(card), [quarter], observe(end=10))
    assert sums["granted"] == (10 * 250, 10 * 6 * GIB)
    assert sums["idle"] == (10 * 750, 10 * 17 * GIB)
    most = make_grant(kind=GrantKind.SHARE, compute_units=950, vram_bytes=6 * GIB)
    assert sums_of(make_fleet(card), [most], observe(end=10))["stranded"] == (10 * 50, 10 * 17 * GIB)


def test_a4_and_a8_capacity_comes_from_the_inventory_and_not_from_what_was_sampled(
    observe: Observe, use_of: UseOf
) -> None:
    """Of two cards one has samples; both count (Koku COST-6625)."""
    cards = [make_card(), make_card(gpu_uuid="GPU-2")]
    assert sums_of(make_fleet(*cards), [], observe(use_of(range(10)), end=10))["idle"][0] == 20_000


def test_a10_an_hour_that_was_not_sampled_does_not_make_idle_negative(
    observe: Observe, use_of: UseOf, make_grant: MakeGrant
) -> None:
    grant = make_grant(0, 50)
    sums = sums_of(make_fleet(make_card()), [grant], observe(use_of(range(40)), end=60))
    assert sums["granted"][0] == 50_000
    assert sums["idle"][0] == 10_000


def test_a_card_that_comes_and_goes_counts_while_it_is_there(observe: Observe) -> None:
    """Whole seconds of its period; two periods end to start share none (Koku COST-6625)."""
    parts = [make_card(period=span(0, 10.5)), make_card(period=span(10.5, 20), vram_reserved_bytes=2 * GIB)]
    sums = sums_of(make_fleet(*parts), [], observe(end=60))
    assert sums == {
        "idle": (20_000, 11 * 23 * GIB + 9 * 22 * GIB),
        "reserved": (0, 11 * GIB + 9 * 2 * GIB),
    }


def test_a_lost_card_is_lost_and_what_is_granted_of_it_stays_granted(
    observe: Observe, use_of: UseOf, make_grant: MakeGrant
) -> None:
    rows = [*use_of(range(10)), *(("gpu_up", "GPU-1", "", "", second, 0) for second in range(10, 20))]
    card = make_card(share_min_milli=100, share_min_vram_bytes=GIB)
    half = make_grant(5, 15, kind=GrantKind.SHARE, compute_units=500, vram_bytes=12 * GIB)
    evidence = observe(rows, end=20)
    sums = sums_of(make_fleet(card), [half], evidence)
    assert sums["granted"] == (10 * 500, 10 * 12 * GIB)
    assert sums["lost"] == (5 * 500 + 5 * 1_000, 5 * 11 * GIB + 5 * 23 * GIB)
    assert residuals_of(make_fleet(card), [half], evidence) == Residuals(0, 0)


@pytest.mark.parametrize(
    ("state", "where"), [("ok", "idle"), ("suspect", "idle"), ("draining", "drained"), ("failed", "drained")]
)
def test_a_card_out_of_service_is_drained_while_it_is(observe: Observe, state: str, where: str) -> None:
    said = DeviceStatePeriod("GPU-1", state, "fan", span(10, 20))
    sums = sums_of(make_fleet(make_card(), states=[said]), [], observe(end=30))
    assert sums[where][0] == (10_000 if where == "drained" else 30_000)
    assert sum(both[0] for both in sums.values()) == 30_000


def test_a_hold_takes_capacity_and_is_nobodys_grant(observe: Observe, make_grant: MakeGrant) -> None:
    """Reserved for five seconds, then granted: end to start, so never both."""
    hold = Hold("GPU-1", None, 1_000, 23 * GIB, span(0, 5))
    grant = make_grant(5, 10, vram_bytes=23 * GIB)
    sums = sums_of(make_fleet(make_card(), holds=[hold]), [grant], observe(end=10))
    assert {state: both[0] for state, both in sums.items()} == {"held": 5_000, "granted": 5_000, "reserved": 0}


def test_mig_instances_are_balanced_by_their_own_sizes(observe: Observe, make_grant: MakeGrant) -> None:
    """Two 3g.40gb take 120 of 132 SMs; no profile can use the other 12 beside them (dra-driver-nvidia-gpu 361)."""
    instances = [make_instance(1, "3g.40gb", 0, 4, 60, 40_448), make_instance(2, "3g.40gb", 4, 4, 60, 40_448)]
    grant = make_grant(
        mig_uuid="MIG-1", kind=GrantKind.MIG, compute_units=60, compute_units_total=132, vram_bytes=40_448 * MIB
    )
    fleet, evidence = make_fleet(make_h100(), instances=instances), observe(end=10)
    sums = sums_of(fleet, [grant], evidence)
    assert {state: both[0] for state, both in sums.items()} == {
        "granted": 600,
        "idle": 600,
        "stranded": 120,
        "reserved": 0,
    }
    assert residuals_of(fleet, [grant], evidence) == Residuals(0, 0)


def test_an_instance_counts_while_it_exists_and_a_foreign_one_cannot_be_sold(observe: Observe) -> None:
    foreign = make_instance(1, "3g.40gb", 0, 4, 60, 40_448, origin="foreign", period=span(0, 10))
    card = make_h100(offered_profiles=("3g.40gb",))
    sums = sums_of(make_fleet(card, instances=[foreign]), [], observe(end=20))
    # Ten seconds of one more 3g, then ten of two.
    assert sums["idle"][0] == 10 * 60 + 10 * 120


@st.composite
def _legal_worlds(draw: st.DrawFn) -> dict[str, Any]:
    """Takes of one card that never exceed it: shares of a quarter each, in four lanes, granted or held."""
    lanes = [
        sorted(draw(st.lists(st.integers(-5 * US, (SPAN_S + 5) * US), min_size=2, max_size=6, unique=True)))
        for _ in range(4)
    ]
    takes = [
        (lane, start / US, end / US, draw(st.booleans()))
        for lane, cuts in enumerate(lanes)
        for start, end in pairwise(cuts)
        if draw(st.booleans())
    ]
    return {
        "takes": takes,
        "card_cut": draw(st.one_of(st.none(), st.integers(1, SPAN_S * US - 1))),
        "lost": draw(st.lists(st.integers(0, SPAN_S - 1), max_size=20, unique=True)),
        "states": [(*draw(_edges), draw(st.sampled_from(["ok", "suspect", "draining", "failed"]))) for _ in range(2)],
        "grain": draw(st.sampled_from([100, 300, 1_000])),
    }


@given(world=_legal_worlds())
@settings(
    max_examples=settings().max_examples * 60 // 100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_the_seven_states_of_every_legal_world_sum_to_its_cards(
    observe: Observe, make_grant: MakeGrant, world: dict[str, Any]
) -> None:
    """And the granted seconds are those that are billed: counted apart, by the grants' own rule."""
    cut = world["card_cut"]
    how = {"share_min_milli": world["grain"], "share_min_vram_bytes": GIB}
    cards = (
        [make_card(**how)]
        if cut is None
        else [
            make_card(**how, period=span(-100, cut / US)),
            make_card(**how, period=span(cut / US)),
        ]
    )
    size = {"kind": GrantKind.SHARE, "compute_units": 250, "vram_bytes": 5 * GIB}
    grants = [
        make_grant(start, end, allocation=f"a{lane}", ordinal=number, **size)
        for number, (lane, start, end, is_hold) in enumerate(world["takes"])
        if not is_hold
    ]
    holds = [Hold("GPU-1", None, 250, 5 * GIB, span(s, e)) for _, s, e, is_hold in world["takes"] if is_hold]
    states = [DeviceStatePeriod("GPU-1", state, "", span(s / US, e / US)) for s, e, state in world["states"]]
    rows = [("gpu_up", "GPU-1", "", "", second, float(second not in world["lost"])) for second in range(SPAN_S)]
    evidence = observe(rows, end=SPAN_S)
    fleet = make_fleet(*cards, holds=holds, states=states)

    assert residuals_of(fleet, grants, evidence) == Residuals(0, 0)
    nothing = dict.fromkeys(STATES, (0, 0))
    sums = {**nothing, **sums_of(fleet, grants, evidence)}
    assert all(compute >= 0 and vram >= 0 for compute, vram in sums.values())
    assert sum(compute for compute, _ in sums.values()) == SPAN_S * 1_000
    assert sum(vram for _, vram in sums.values()) == SPAN_S * 24 * GIB
    window = evidence.period
    granted = sum(met.seconds for grant in grants if (met := grant.period.intersect(window)))
    held = sum(met.seconds for hold in holds if (met := hold.period.intersect(window)))
    assert (sums["granted"], sums["held"]) == ((granted * 250, granted * 5 * GIB), (held * 250, held * 5 * GIB))
