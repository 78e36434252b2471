"""The demo's verdict: it must see a second, a byte or an allocation that was billed otherwise than it was."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from collector.simulation.fleet import demo_fleet
from collector.simulation.truth import Span, truth
from collector.simulation.workloads import Workload
from collector.simulation.world import Incident, IncidentKind, Tenancy, World
from gputab.demo.proof import HeldGrant, prove
from meter.rating.charges import Charge

START_S = 1_772_359_200
GIB = 2**30
FLEET = demo_fleet(7)
CARD = next(iter(FLEET.cards))
GRANT = HeldGrant("al_1", "northlab", Span(CARD, None, None, START_S, START_S + 60), 1_000, 23 * GIB)


@pytest.fixture
def world() -> World:
    """A training on one card that is lost for five seconds in the middle."""
    tenancy = Tenancy("al_1", CARD, None, Workload.TRAINING, START_S + 2, START_S + 50, 23 * GIB)
    return World(FLEET, START_S, [tenancy], [Incident(IncidentKind.LOST, CARD, START_S + 20, START_S + 25)])


@pytest.fixture
def charges(world: World) -> list[Charge]:
    """What a meter without a fault makes of it."""
    true = truth(world, GRANT.span, 1, GRANT.vram_bytes)
    shared: dict[str, Any] = {
        "node": "sim-4090-a",
        "window_start_us": 0,
        "allocation": "al_1",
        "ordinal": 0,
        "rate_id": "r",
        "billing_date": "2026-03-01",
        "tenant": "northlab",
        "project": "p",
        "sku": "rtx4090-24g",
        "granted_seconds": 60,
        "measured_seconds": 55,
        "bridged_seconds": 0,
        "on_record_seconds": 0,
        "free_seconds": 5,
        "covered_seconds": 55,
        "currency": "CNY",
        "amount_nano": 1,
    }
    vram = 23 * GIB * 55 + true.overuse_byte_seconds
    return [
        Charge(dimension="gpu", quantity=55_000, quantity_whole=1_000, **shared),
        Charge(dimension="vram", quantity=vram, quantity_whole=1, **shared),
    ]


@pytest.fixture
def differences(world: World) -> Callable[[list[Charge]], list[str]]:
    """What the proof says of charges."""
    return lambda charges: [str(each) for each in prove([GRANT], {"al_1": (world, 1)}, charges, {}).mismatches]


def test_a_right_bill_is_proved(charges: list[Charge], differences: Callable[[list[Charge]], list[str]]) -> None:
    """Nothing to say."""
    assert differences(charges) == []


@pytest.mark.parametrize(
    ("number", "change", "said"),
    [
        (0, {"granted_seconds": 61, "measured_seconds": 56}, "granted seconds billed 61, true 60"),
        (0, {"free_seconds": 4, "measured_seconds": 56}, "seconds lost with the card billed 4, true 5"),
        (0, {"quantity": 55_001}, "compute-unit-seconds billed 55,001, true 55,000"),
        (1, {"quantity": 1}, "VRAM byte-seconds billed 1, true"),
    ],
)
def test_one_second_or_byte_too_much_is_seen(
    charges: list[Charge],
    differences: Callable[[list[Charge]], list[str]],
    number: int,
    change: dict[str, Any],
    said: str,
) -> None:
    """Each quantity is compared by itself."""
    charges[number] = replace(charges[number], **change)
    assert any(said in each for each in differences(charges))


def test_a_charge_for_what_nobody_held_is_seen(
    charges: list[Charge], differences: Callable[[list[Charge]], list[str]]
) -> None:
    """An allocation that no customer knows of."""
    stranger = replace(charges[0], allocation="al_2")
    assert differences([*charges, stranger]) == ["al_2: granted seconds billed 60, true 0"]


def test_an_allocation_that_was_not_billed_is_seen(differences: Callable[[list[Charge]], list[str]]) -> None:
    """Nothing billed is not nothing owed."""
    assert "al_1: granted seconds billed 0, true 60" in differences([])


def test_holes_are_left_out_of_the_truth_and_counted(world: World, charges: list[Charge]) -> None:
    """Two seconds that nobody sampled cannot have been measured."""
    unsampled: dict[tuple[str, str | None], frozenset[int]] = {(CARD, None): frozenset({START_S + 40, START_S + 41})}
    proof = prove([GRANT], {"al_1": (world, 1)}, charges, unsampled)
    assert proof.holes == 2
    assert "al_1: measured seconds billed 55, true 53" in [str(each) for each in proof.mismatches]


def test_that_a_card_was_lost_in_a_second_that_nobody_sampled_cannot_be_billed(
    world: World, charges: list[Charge]
) -> None:
    """The meter has one lost second less, and goes by what the price book says of a hole."""
    one_less: dict[str, Any] = {"free_seconds": 4, "on_record_seconds": 1}
    vram = charges[1].quantity + 23 * GIB
    billed = [
        replace(charges[0], **one_less, quantity=56_000),
        replace(charges[1], **one_less, quantity=vram),
    ]
    proof = prove([GRANT], {"al_1": (world, 1)}, billed, {(CARD, None): frozenset({START_S + 22})})
    assert (proof.mismatches, proof.holes) == ((), 1)


def test_of_a_grant_without_a_world_only_the_seconds_are_known(charges: list[Charge]) -> None:
    """Real cards have no simulator to ask."""
    assert prove([GRANT], {}, charges, {}).mismatches == ()
    assert prove([GRANT], {}, charges[1:], {}).mismatches != ()


def test_holes_of_a_grant_without_a_world_are_counted(charges: list[Charge]) -> None:
    """Two of its seconds were not sampled, and one after its end."""
    missing = frozenset({START_S, START_S + 59, START_S + 60})
    assert prove([GRANT], {}, charges, {(CARD, None): missing}).holes == 2
