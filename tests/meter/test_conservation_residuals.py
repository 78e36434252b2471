"""What is granted beyond a card, or is not known of it, shows as a residual and hides in no state."""

from typing import Any

import pytest

from domain.grants import GrantKind
from domain.units import GIB, MIB
from meter.conservation.residuals import Residuals
from tests.meter.capacity import make_card, make_fleet, make_h100, make_instance, residuals_of, span, sums_of
from tests.meter.fixture_types import MakeGrant, Observe


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
    observe: Observe, make_grant: MakeGrant, extra: dict[str, Any], compute: int, vram: int
) -> None:
    whole = make_grant(0, 30, vram_bytes=23 * GIB)
    other = make_grant(10, 20, **{"allocation": "a2", "vram_bytes": 23 * GIB, **extra})
    assert residuals_of(make_fleet(make_card()), [whole, other], observe(end=60)) == Residuals(compute, vram)


def test_too_much_on_one_card_is_not_hidden_by_room_on_another(observe: Observe, make_grant: MakeGrant) -> None:
    cards = [make_card(), make_card(gpu_uuid="GPU-2")]
    twice = [make_grant(0, 10, vram_bytes=GIB), make_grant(0, 10, allocation="a2", vram_bytes=GIB)]
    assert residuals_of(make_fleet(*cards), twice, observe(end=10)) == Residuals(10_000, 0)


def test_an_instance_that_is_granted_twice_or_does_not_exist_is_a_residual(
    observe: Observe, make_grant: MakeGrant
) -> None:
    instance = make_instance(1, "1g.10gb", 0, 1, 16, 9_984)
    size = {"kind": GrantKind.MIG, "compute_units": 16, "compute_units_total": 132, "vram_bytes": 9_984 * MIB}
    fleet, evidence = make_fleet(make_h100(), instances=[instance]), observe(end=10)
    for others in (["MIG-1"], ["MIG-404"]):
        grants = [make_grant(allocation=f"a{n}", mig_uuid=uuid, **size) for n, uuid in enumerate(["MIG-1", *others])]
        assert residuals_of(fleet, grants, evidence) == Residuals(160, 10 * 9_984 * MIB)


@pytest.mark.parametrize("device_from", [None, 5, 0.5])
def test_a_grant_on_a_card_that_no_inventory_covers_makes_the_residual_unknown(
    observe: Observe, make_grant: MakeGrant, device_from: float | None
) -> None:
    """Capacity that is not known is neither 0 nor negative; it blocks the close.

    Kubecost 1978, prometheus-slurm-exporter 38.
    """
    cards = [] if device_from is None else [make_card(period=span(device_from))]
    grant = make_grant(0, 20)
    unknown = residuals_of(make_fleet(*cards), [grant], observe(end=60))
    assert unknown == Residuals(None, None)


def test_two_periods_of_a_card_end_to_start_cover_a_grant(observe: Observe, make_grant: MakeGrant) -> None:
    cards = [make_card(period=span(0, 10)), make_card(period=span(10))]
    grant = make_grant(5, 15, vram_bytes=23 * GIB)
    assert residuals_of(make_fleet(*cards), [grant], observe(end=20)) == Residuals(0, 0)


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_a_card_that_moves_while_it_is_held_is_accounted_for_on_either_node(
    observe: Observe, make_grant: MakeGrant, node: str
) -> None:
    """Its seconds count where it stood, granted to whoever holds it by the name of the node it left."""
    fleet = make_fleet(make_card(period=span(0, 10)), make_card(node="n2", period=span(10)))
    grant, evidence = make_grant(0, 30, vram_bytes=23 * GIB), observe(end=30, node=node)
    assert residuals_of(fleet, [grant], evidence) == Residuals(0, 0)
    here = {"n1": 10, "n2": 20}[node]
    assert sums_of(fleet, [grant], evidence) == {
        "granted": (here * 1_000, here * 23 * GIB),
        "reserved": (0, here * GIB),
    }
    # Who holds it twice does so on both.
    twice = [grant, make_grant(0, 30, allocation="a2", node="n2", vram_bytes=23 * GIB)]
    assert residuals_of(fleet, twice, evidence) == Residuals(here * 1_000, here * 23 * GIB)


def test_a_card_of_another_node_is_no_capacity_of_this_one(observe: Observe, make_grant: MakeGrant) -> None:
    """It is read for the grants' sake alone."""
    fleet = make_fleet(make_card(), make_card(gpu_uuid="GPU-2", node="n2"))
    grant = make_grant(0, 10, gpu_uuid="GPU-2")
    assert sums_of(fleet, [grant], observe(end=10)) == {"idle": (10_000, 10 * 23 * GIB), "reserved": (0, 10 * GIB)}
    assert residuals_of(fleet, [grant], observe(end=10)) == Residuals(0, 0)


def test_grants_without_a_device_stand_outside(observe: Observe, make_grant: MakeGrant) -> None:
    grants = [make_grant(gpu_uuid=None, allocation=f"a{n}") for n in range(3)]
    assert residuals_of(make_fleet(make_card()), grants, observe(end=10)) == Residuals(0, 0)


def test_instances_that_cannot_exist_together_make_the_residual_unknown(observe: Observe) -> None:
    overlapping = [make_instance(1, "3g.40gb", 0, 4, 60, 40_448), make_instance(2, "1g.10gb", 3, 1, 16, 9_984)]
    assert residuals_of(make_fleet(make_h100(), instances=overlapping), [], observe(end=10)) == Residuals(None, None)
