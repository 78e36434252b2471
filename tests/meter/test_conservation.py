"""Promise 1: every second of a card is in one state, and what is not shows as a residual."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.grants import OPEN_END_US, Grant, GrantKind
from domain.period import Period
from meter.conservation import Fleet, Residuals, device_spans, residuals
from meter.evidence import Evidence
from store.capacity import DevicePeriod, DeviceState, Hold, MigPeriod

Observe = Callable[..., Evidence]
US = 1_000_000
MIB, GIB = 2**20, 2**30
SPAN_S = 60
STATES = ("granted", "held", "idle", "stranded", "drained", "lost", "reserved")
_edges = st.tuples(st.integers(0, SPAN_S * US), st.integers(0, SPAN_S * US)).map(sorted)


@pytest.fixture
def span_of(hour_s: int) -> Callable[..., Period]:
    """Offsets into the hour as a period; no end is for ever."""

    def of(start: float = -3_600, end: float | None = None) -> Period:
        end_us = OPEN_END_US if end is None else hour_s * US + round(end * US)
        return Period(hour_s * US + round(start * US), end_us)

    return of


@pytest.fixture
def make_card(span_of: Callable[..., Period]) -> Callable[..., DevicePeriod]:
    """A 24 GiB RTX 4090 of which the driver keeps 1 GiB, sold whole."""

    def make(**changes: Any) -> DevicePeriod:
        values: dict[str, Any] = {
            "gpu_uuid": "GPU-1",
            "node": "n1",
            "device_index": 0,
            "model": "NVIDIA GeForce RTX 4090",
            "sku": "rtx4090-24g",
            "compute_units": 1_000,
            "vram_total_bytes": 24 * GIB,
            "vram_reserved_bytes": GIB,
            "mig_enabled": False,
            "offered_profiles": (),
            "share_min_milli": None,
            "share_min_vram_bytes": None,
            "period": span_of(),
        }
        return DevicePeriod(**{**values, **changes})

    return make


@pytest.fixture
def make_h100(make_card: Callable[..., DevicePeriod]) -> Callable[..., DevicePeriod]:
    """An H100 in MIG mode, sold as 1g.10gb and 3g.40gb."""

    def make(**changes: Any) -> DevicePeriod:
        return make_card(
            **{
                "model": "NVIDIA H100 80GB HBM3",
                "sku": "h100-80g",
                "compute_units": 132,
                "vram_total_bytes": 81_559 * MIB,
                "vram_reserved_bytes": 551 * MIB,
                "mig_enabled": True,
                "offered_profiles": ("1g.10gb", "3g.40gb"),
                **changes,
            }
        )

    return make


@pytest.fixture
def make_instance(span_of: Callable[..., Period]) -> Callable[..., MigPeriod]:
    def make(number: int, profile: str, start: int, slices: int, sms: int, mib: int, **changes: Any) -> MigPeriod:
        period = changes.pop("period", span_of())
        origin = changes.pop("origin", "ours")
        return MigPeriod(f"MIG-{number}", "GPU-1", number, profile, start, slices, sms, mib * MIB, origin, period)

    return make


def _fleet(
    *devices: DevicePeriod,
    instances: Sequence[MigPeriod] = (),
    holds: Sequence[Hold] = (),
    states: Sequence[DeviceState] = (),
) -> Fleet:
    return Fleet(devices=devices, instances=instances, holds=holds, states=states, grants=())


def _residuals(fleet: Fleet, grants: Sequence[Grant], evidence: Evidence) -> Residuals:
    return residuals(replace(fleet, grants=grants), evidence)


def _sums(fleet: Fleet, grants: Sequence[Grant], evidence: Evidence) -> dict[str, tuple[int, int]]:
    """Unit-seconds and byte-seconds by state, the empty states left out."""
    sums = dict.fromkeys(STATES, (0, 0))
    for span in device_spans(replace(fleet, grants=grants), evidence):
        seconds = span.end_s - span.start_s
        for state, (compute, vram) in sums.items():
            sums[state] = (
                compute + getattr(span.balance.compute, state) * seconds,
                vram + getattr(span.balance.vram, state) * seconds,
            )
    return {state: both for state, both in sums.items() if any(both)}


def test_an_empty_card_is_idle_but_for_what_its_driver_keeps(
    make_card: Callable[..., DevicePeriod], observe: Observe
) -> None:
    sums = _sums(_fleet(make_card()), [], observe(end=10))
    assert sums == {"idle": (10 * 1_000, 10 * 23 * GIB), "reserved": (0, 10 * GIB)}


def test_a2_a_quarter_that_is_granted_leaves_three_quarters_idle(
    make_card: Callable[..., DevicePeriod], observe: Observe, make_grant: Callable[..., Grant]
) -> None:
    """metering.md A2; where less is left than the smallest share, it is stranded."""
    card = make_card(share_min_milli=100, share_min_vram_bytes=GIB)
    quarter = make_grant(kind=GrantKind.SHARE, compute_units=250, vram_bytes=6 * GIB)
    sums = _sums(_fleet(card), [quarter], observe(end=10))
    assert sums["granted"] == (10 * 250, 10 * 6 * GIB)
    assert sums["idle"] == (10 * 750, 10 * 17 * GIB)
    most = make_grant(kind=GrantKind.SHARE, compute_units=950, vram_bytes=6 * GIB)
    assert _sums(_fleet(card), [most], observe(end=10))["stranded"] == (10 * 50, 10 * 17 * GIB)


def test_a4_and_a8_capacity_comes_from_the_inventory_and_not_from_what_was_sampled(
    make_card: Callable[..., DevicePeriod], observe: Observe, use_of: Callable[..., list[Any]]
) -> None:
    """metering.md A7 too: of two cards one has samples; both count."""
    cards = [make_card(), make_card(gpu_uuid="GPU-2")]
    assert _sums(_fleet(*cards), [], observe(use_of(range(10)), end=10))["idle"][0] == 20_000


def test_a10_an_hour_that_was_not_sampled_does_not_make_idle_negative(
    make_card: Callable[..., DevicePeriod],
    observe: Observe,
    use_of: Callable[..., list[Any]],
    make_grant: Callable[..., Grant],
) -> None:
    grant = make_grant(0, 50)
    sums = _sums(_fleet(make_card()), [grant], observe(use_of(range(40)), end=60))
    assert sums["granted"][0] == 50_000
    assert sums["idle"][0] == 10_000


def test_a_card_that_comes_and_goes_counts_while_it_is_there(
    make_card: Callable[..., DevicePeriod], observe: Observe, span_of: Callable[..., Period]
) -> None:
    """metering.md A7 for cards: whole seconds of its period; two periods end to start share none."""
    parts = [make_card(period=span_of(0, 10.5)), make_card(period=span_of(10.5, 20), vram_reserved_bytes=2 * GIB)]
    sums = _sums(_fleet(*parts), [], observe(end=60))
    assert sums == {
        "idle": (20_000, 11 * 23 * GIB + 9 * 22 * GIB),
        "reserved": (0, 11 * GIB + 9 * 2 * GIB),
    }


def test_a_lost_card_is_lost_and_what_is_granted_of_it_stays_granted(
    make_card: Callable[..., DevicePeriod],
    observe: Observe,
    use_of: Callable[..., list[Any]],
    make_grant: Callable[..., Grant],
) -> None:
    rows = [*use_of(range(10)), *(("gpu_up", "GPU-1", "", "", second, 0) for second in range(10, 20))]
    card = make_card(share_min_milli=100, share_min_vram_bytes=GIB)
    half = make_grant(5, 15, kind=GrantKind.SHARE, compute_units=500, vram_bytes=12 * GIB)
    evidence = observe(rows, end=20)
    sums = _sums(_fleet(card), [half], evidence)
    assert sums["granted"] == (10 * 500, 10 * 12 * GIB)
    assert sums["lost"] == (5 * 500 + 5 * 1_000, 5 * 11 * GIB + 5 * 23 * GIB)
    assert _residuals(_fleet(card), [half], evidence) == Residuals(0, 0)


@pytest.mark.parametrize(
    ("state", "where"), [("ok", "idle"), ("suspect", "idle"), ("draining", "drained"), ("failed", "drained")]
)
def test_a_card_out_of_service_is_drained_while_it_is(
    make_card: Callable[..., DevicePeriod],
    observe: Observe,
    span_of: Callable[..., Period],
    state: str,
    where: str,
) -> None:
    said = DeviceState("GPU-1", state, "fan", span_of(10, 20))
    sums = _sums(_fleet(make_card(), states=[said]), [], observe(end=30))
    assert sums[where][0] == (10_000 if where == "drained" else 30_000)
    assert sum(both[0] for both in sums.values()) == 30_000


def test_a_hold_takes_capacity_and_is_nobodys_grant(
    make_card: Callable[..., DevicePeriod],
    observe: Observe,
    span_of: Callable[..., Period],
    make_grant: Callable[..., Grant],
) -> None:
    """Reserved for five seconds, then granted: end to start, so never both."""
    hold = Hold("GPU-1", None, 1_000, 23 * GIB, span_of(0, 5))
    grant = make_grant(5, 10, vram_bytes=23 * GIB)
    sums = _sums(_fleet(make_card(), holds=[hold]), [grant], observe(end=10))
    assert {state: both[0] for state, both in sums.items()} == {"held": 5_000, "granted": 5_000, "reserved": 0}


def test_mig_instances_are_balanced_by_their_own_sizes(
    make_h100: Callable[..., DevicePeriod],
    make_instance: Callable[..., MigPeriod],
    observe: Observe,
    make_grant: Callable[..., Grant],
) -> None:
    """metering.md A5: two 3g.40gb take 120 of 132 SMs; no profile can use the other 12 beside them."""
    instances = [make_instance(1, "3g.40gb", 0, 4, 60, 40_448), make_instance(2, "3g.40gb", 4, 4, 60, 40_448)]
    grant = make_grant(
        mig_uuid="MIG-1", kind=GrantKind.MIG, compute_units=60, compute_units_total=132, vram_bytes=40_448 * MIB
    )
    fleet, evidence = _fleet(make_h100(), instances=instances), observe(end=10)
    sums = _sums(fleet, [grant], evidence)
    assert {state: both[0] for state, both in sums.items()} == {
        "granted": 600,
        "idle": 600,
        "stranded": 120,
        "reserved": 0,
    }
    assert _residuals(fleet, [grant], evidence) == Residuals(0, 0)


def test_an_instance_counts_while_it_exists_and_a_foreign_one_cannot_be_sold(
    make_h100: Callable[..., DevicePeriod],
    make_instance: Callable[..., MigPeriod],
    observe: Observe,
    span_of: Callable[..., Period],
) -> None:
    foreign = make_instance(1, "3g.40gb", 0, 4, 60, 40_448, origin="foreign", period=span_of(0, 10))
    card = make_h100(offered_profiles=("3g.40gb",))
    sums = _sums(_fleet(card, instances=[foreign]), [], observe(end=20))
    # Ten seconds of one more 3g, then ten of two.
    assert sums["idle"][0] == 10 * 60 + 10 * 120


@pytest.mark.parametrize(
    ("extra", "compute", "vram"),
    [
        # The whole card twice for ten seconds.
        ({}, 10_000, 10 * 23 * GIB),
        ({"kind": GrantKind.SHARE, "compute_units": 1, "vram_bytes": 0}, 10, 0),
        ({"kind": GrantKind.SHARE, "compute_units": 0, "vram_bytes": 1}, 0, 10),
    ],
)
def test_what_is_granted_beyond_the_card_is_the_residual(
    make_card: Callable[..., DevicePeriod],
    observe: Observe,
    make_grant: Callable[..., Grant],
    extra: dict[str, Any],
    compute: int,
    vram: int,
) -> None:
    whole = make_grant(0, 30, vram_bytes=23 * GIB)
    other = make_grant(10, 20, **{"allocation": "a2", "vram_bytes": 23 * GIB, **extra})
    assert _residuals(_fleet(make_card()), [whole, other], observe(end=60)) == Residuals(compute, vram)


def test_too_much_on_one_card_is_not_hidden_by_room_on_another(
    make_card: Callable[..., DevicePeriod], observe: Observe, make_grant: Callable[..., Grant]
) -> None:
    cards = [make_card(), make_card(gpu_uuid="GPU-2")]
    twice = [make_grant(0, 10, vram_bytes=GIB), make_grant(0, 10, allocation="a2", vram_bytes=GIB)]
    assert _residuals(_fleet(*cards), twice, observe(end=10)) == Residuals(10_000, 0)


def test_an_instance_that_is_granted_twice_or_does_not_exist_is_a_residual(
    make_h100: Callable[..., DevicePeriod],
    make_instance: Callable[..., MigPeriod],
    observe: Observe,
    make_grant: Callable[..., Grant],
) -> None:
    instance = make_instance(1, "1g.10gb", 0, 1, 16, 9_984)
    size = {"kind": GrantKind.MIG, "compute_units": 16, "compute_units_total": 132, "vram_bytes": 9_984 * MIB}
    fleet, evidence = _fleet(make_h100(), instances=[instance]), observe(end=10)
    for others in (["MIG-1"], ["MIG-404"]):
        grants = [make_grant(allocation=f"a{n}", mig_uuid=uuid, **size) for n, uuid in enumerate(["MIG-1", *others])]
        assert _residuals(fleet, grants, evidence) == Residuals(160, 10 * 9_984 * MIB)


@pytest.mark.parametrize("device_from", [None, 5, 0.5])
def test_a_grant_on_a_card_that_no_inventory_covers_makes_the_residual_unknown(
    make_card: Callable[..., DevicePeriod],
    observe: Observe,
    span_of: Callable[..., Period],
    make_grant: Callable[..., Grant],
    device_from: float | None,
) -> None:
    """metering.md A4 and cases.md A32: capacity that is not known is neither 0 nor negative; it blocks the close."""
    cards = [] if device_from is None else [make_card(period=span_of(device_from))]
    grant = make_grant(0, 20)
    unknown = _residuals(_fleet(*cards), [grant], observe(end=60))
    assert unknown == Residuals(None, None)


def test_two_periods_of_a_card_end_to_start_cover_a_grant(
    make_card: Callable[..., DevicePeriod],
    observe: Observe,
    span_of: Callable[..., Period],
    make_grant: Callable[..., Grant],
) -> None:
    cards = [make_card(period=span_of(0, 10)), make_card(period=span_of(10))]
    assert _residuals(_fleet(*cards), [make_grant(5, 15, vram_bytes=23 * GIB)], observe(end=20)) == Residuals(0, 0)


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_a_card_that_moves_while_it_is_held_is_accounted_for_on_either_node(
    make_card: Callable[..., DevicePeriod],
    observe: Observe,
    span_of: Callable[..., Period],
    make_grant: Callable[..., Grant],
    node: str,
) -> None:
    """Its seconds count where it stood, granted to whoever holds it by the name of the node it left."""
    fleet = _fleet(make_card(period=span_of(0, 10)), make_card(node="n2", period=span_of(10)))
    grant, evidence = make_grant(0, 30, vram_bytes=23 * GIB), observe(end=30, node=node)
    assert _residuals(fleet, [grant], evidence) == Residuals(0, 0)
    here = {"n1": 10, "n2": 20}[node]
    assert _sums(fleet, [grant], evidence) == {
        "granted": (here * 1_000, here * 23 * GIB),
        "reserved": (0, here * GIB),
    }
    # Who holds it twice does so on both.
    twice = [grant, make_grant(0, 30, allocation="a2", node="n2", vram_bytes=23 * GIB)]
    assert _residuals(fleet, twice, evidence) == Residuals(here * 1_000, here * 23 * GIB)


def test_a_card_of_another_node_is_no_capacity_of_this_one(
    make_card: Callable[..., DevicePeriod], observe: Observe, make_grant: Callable[..., Grant]
) -> None:
    """It is read for the grants' sake alone."""
    fleet = _fleet(make_card(), make_card(gpu_uuid="GPU-2", node="n2"))
    grant = make_grant(0, 10, gpu_uuid="GPU-2")
    assert _sums(fleet, [grant], observe(end=10)) == {"idle": (10_000, 10 * 23 * GIB), "reserved": (0, 10 * GIB)}
    assert _residuals(fleet, [grant], observe(end=10)) == Residuals(0, 0)


def test_grants_without_a_device_stand_outside(
    make_card: Callable[..., DevicePeriod], observe: Observe, make_grant: Callable[..., Grant]
) -> None:
    grants = [make_grant(gpu_uuid=None, allocation=f"a{n}") for n in range(3)]
    assert _residuals(_fleet(make_card()), grants, observe(end=10)) == Residuals(0, 0)


def test_instances_that_cannot_exist_together_make_the_residual_unknown(
    make_h100: Callable[..., DevicePeriod], make_instance: Callable[..., MigPeriod], observe: Observe
) -> None:
    overlapping = [make_instance(1, "3g.40gb", 0, 4, 60, 40_448), make_instance(2, "1g.10gb", 3, 1, 16, 9_984)]
    assert _residuals(_fleet(make_h100(), instances=overlapping), [], observe(end=10)) == Residuals(None, None)


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
    observe: Observe,
    make_card: Callable[..., DevicePeriod],
    make_grant: Callable[..., Grant],
    span_of: Callable[..., Period],
    world: dict[str, Any],
) -> None:
    """And the granted seconds are those that are billed: counted apart, by the grants' own rule."""
    cut = world["card_cut"]
    how = {"share_min_milli": world["grain"], "share_min_vram_bytes": GIB}
    cards = (
        [make_card(**how)]
        if cut is None
        else [
            make_card(**how, period=span_of(-100, cut / US)),
            make_card(**how, period=span_of(cut / US)),
        ]
    )
    size = {"kind": GrantKind.SHARE, "compute_units": 250, "vram_bytes": 5 * GIB}
    grants = [
        make_grant(start, end, allocation=f"a{lane}", ordinal=number, **size)
        for number, (lane, start, end, is_hold) in enumerate(world["takes"])
        if not is_hold
    ]
    holds = [Hold("GPU-1", None, 250, 5 * GIB, span_of(s, e)) for _, s, e, is_hold in world["takes"] if is_hold]
    states = [DeviceState("GPU-1", state, "", span_of(s / US, e / US)) for s, e, state in world["states"]]
    rows = [("gpu_up", "GPU-1", "", "", second, float(second not in world["lost"])) for second in range(SPAN_S)]
    evidence = observe(rows, end=SPAN_S)
    fleet = _fleet(*cards, holds=holds, states=states)

    assert _residuals(fleet, grants, evidence) == Residuals(0, 0)
    nothing = dict.fromkeys(STATES, (0, 0))
    sums = {**nothing, **_sums(fleet, grants, evidence)}
    assert all(compute >= 0 and vram >= 0 for compute, vram in sums.values())
    assert sum(compute for compute, _ in sums.values()) == SPAN_S * 1_000
    assert sum(vram for _, vram in sums.values()) == SPAN_S * 24 * GIB
    window = evidence.period
    granted = sum(met.seconds for grant in grants if (met := grant.period.intersect(window)))
    held = sum(met.seconds for hold in holds if (met := hold.period.intersect(window)))
    assert (sums["granted"], sums["held"]) == ((granted * 250, granted * 5 * GIB), (held * 250, held * 5 * GIB))
