"""One second of a node as it is shown: known cards, and why of another nothing is known."""

from dataclasses import replace
from typing import Any

import pytest

from domain.grants import GrantKind
from domain.units import GIB, MIB
from meter.conservation.residuals import Residuals, residuals
from meter.conservation.second import CardSecond, NodeSecond, node_second
from meter.evidence.presence import Presence
from store.capacity import DevicePeriod, DeviceStatePeriod
from tests.meter.capacity import STATES, make_card, make_fleet, make_h100, make_instance, span
from tests.meter.facts import make_grant, observe, use_of
from tests.meter.hour import HOUR_S

A100: dict[str, Any] = {
    "model": "NVIDIA A100-SXM4-80GB",
    "sku": "a100-80g",
    "compute_units": 98,
    "vram_total_bytes": 81_920 * MIB,
}
HALF: dict[str, Any] = {"kind": GrantKind.MIG, "compute_units": 42, "compute_units_total": 98}


def _states(card: CardSecond) -> dict[str, tuple[int, int]]:
    assert card.balance is not None
    both = {state: (getattr(card.balance.compute, state), getattr(card.balance.vram, state)) for state in STATES}
    return {state: sizes for state, sizes in both.items() if any(sizes)}


def _only(second: NodeSecond) -> CardSecond:
    (card,) = second.cards
    return card


def test_a5_two_halves_of_an_a100_strand_14_sms_and_no_memory() -> None:
    """metering A5: no profile can use a seventh of the compute beside two 3g.40gb, which have all the memory.

    Koku's formula; dra-driver-nvidia-gpu 361. One half less, and the card says what it could still sell.
    """
    card = make_h100(**A100, vram_reserved_bytes=1_536 * MIB, offered_profiles=("1g.10gb", "3g.40gb"))
    instances = [make_instance(1, "3g.40gb", 0, 4, 42, 40_192), make_instance(2, "3g.40gb", 4, 4, 42, 40_192)]
    halves = [make_grant(allocation=f"a{n}", mig_uuid=f"MIG-{n}", vram_bytes=40_192 * MIB, **HALF) for n in (1, 2)]
    full = replace(make_fleet(card, instances=instances), grants=halves)
    assert _states(_only(node_second(full, observe(), HOUR_S))) == {
        "granted": (84, 2 * 40_192 * MIB),
        "stranded": (14, 0),
        "reserved": (0, 1_536 * MIB),
    }
    # Without the upper one another can be made there; the seventh 1g cannot, since none may begin at slice 7.
    lower = replace(make_fleet(card, instances=instances[:1]), grants=halves[:1])
    assert _states(_only(node_second(lower, observe(), HOUR_S))) == {
        "granted": (42, 40_192 * MIB),
        "idle": (42, 40_192 * MIB),
        "stranded": (14, 0),
        "reserved": (0, 1_536 * MIB),
    }


def test_a7_a_card_that_was_never_sampled_is_idle_and_said_not_to_be_sampled() -> None:
    """metering A7: capacity is of the inventory (Koku COST-6625)."""
    fleet = make_fleet(make_card(device_index=1), make_card(gpu_uuid="GPU-2"))
    second = node_second(fleet, observe(use_of(range(10)), devices=[("GPU-1", ""), ("GPU-2", "")]), HOUR_S + 5)
    assert [(card.device.gpu_uuid, card.presence) for card in second.cards] == [
        ("GPU-2", Presence.ABSENT),
        ("GPU-1", Presence.SAMPLED),
    ]
    assert [_states(card)["idle"] for card in second.cards] == [(1_000, 23 * GIB)] * 2


@pytest.mark.parametrize(
    ("second", "state"), [(2_399, "granted"), (2_400, "granted"), (2_999, "granted"), (3_000, "idle")]
)
def test_a10_samples_that_end_before_a_grant_take_nothing_of_it(second: int, state: str) -> None:
    """metering A10: 50 min granted, 40 sampled; idle begins with minute 50, never negative (OpenCost 3387)."""
    fleet = replace(make_fleet(make_card()), grants=[make_grant(0, 3_000, vram_bytes=23 * GIB)])
    found = _only(node_second(fleet, observe(use_of(range(2_400))), HOUR_S + second))
    assert _states(found) == {state: (1_000, 23 * GIB), "reserved": (0, GIB)}


def test_a11_what_nobody_holds_is_idle_and_of_no_cards_there_is_none() -> None:
    """metering A11: idle does not depend on who could share it (OpenCost 883, 1193; kubecost 1389)."""
    empty = node_second(make_fleet(make_card()), observe(), HOUR_S)
    assert _states(_only(empty)) == {"idle": (1_000, 23 * GIB), "reserved": (0, GIB)}
    none = node_second(make_fleet(), observe(), HOUR_S)
    assert (none.cards, none.uncovered, none.residuals) == ([], (), Residuals(0, 0))


def test_a_card_that_changes_its_mode_within_the_hour_is_counted_in_the_units_it_has() -> None:
    """From 10.5 s on it is in MIG mode, so second 11 is the first of 132 SMs; its whole grant ended before."""
    before = make_h100(compute_units=1_000, mig_enabled=False, offered_profiles=(), period=span(0, 10.5))
    after = make_h100(period=span(10.5), offered_profiles=("3g.40gb",))
    one = make_instance(1, "3g.40gb", 0, 4, 60, 40_448, period=span(20.5))
    whole = make_grant(0, 10.5, vram_bytes=(81_559 - 551) * MIB)
    fleet = replace(make_fleet(before, after, instances=[one]), grants=[whole])
    found = {at: _only(node_second(fleet, observe(), HOUR_S + at)) for at in (10, 11, 20, 21)}
    assert [card.balance and card.balance.compute.total for card in found.values()] == [1_000, 132, 132, 132]
    assert _states(found[10])["granted"] == (1_000, (81_559 - 551) * MIB)
    assert _states(found[11]) == _states(found[20])
    assert [len(card.there.instances) for card in found.values()] == [0, 0, 0, 1]
    assert residuals(fleet, observe()) == Residuals(0, 0)


def test_instances_that_contradict_each_other_cost_the_other_cards_nothing() -> None:
    overlapping = [make_instance(1, "3g.40gb", 0, 4, 60, 40_448), make_instance(2, "1g.10gb", 3, 1, 16, 9_984)]
    fleet = make_fleet(make_h100(), make_card(gpu_uuid="GPU-2", device_index=1), instances=overlapping)
    sick, well = node_second(fleet, observe(), HOUR_S).cards
    assert (sick.balance, [each.mig_uuid for each in sick.there.instances]) == (None, ["MIG-1", "MIG-2"])
    assert sick.why_unknown is not None
    assert "MIG-2" in sick.why_unknown
    assert (_states(well)["idle"], well.why_unknown) == ((1_000, 23 * GIB), None)
    assert node_second(fleet, observe(), HOUR_S).residuals == Residuals(None, None)


def _moved(stays_until: float, node: str = "n2") -> list[DevicePeriod]:
    return [make_card(period=span(0, stays_until)), make_card(node=node, period=span(10))]


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_a_card_on_record_twice_at_once_is_not_known_in_those_seconds(node: str) -> None:
    """On another node or on the same: counted twice it would balance, and there is one of it."""
    fleet = make_fleet(*_moved(20, node))
    twice = node_second(fleet, observe(), HOUR_S + 19)
    assert {card.balance for card in twice.cards} == {None}
    assert {card.why_unknown for card in twice.cards} == {"the card 'GPU-1' is on record 2 times at once"}
    assert [card.why_unknown for card in node_second(fleet, observe(), HOUR_S + 9).cards] == [None]
    assert residuals(fleet, observe(start=0, end=10)) == Residuals(0, 0)
    assert residuals(fleet, observe(start=0, end=11)) == Residuals(None, None)


def test_a_card_that_moves_between_two_seconds_is_in_one_place_in_each() -> None:
    """Unplugged at 9.7 s and plugged in at 10 s; what was said of a part of a second shares none."""
    fleet = make_fleet(make_card(period=span(0, 9.7)), make_card(period=span(5.2, 5.6)), make_card(period=span(10)))
    assert residuals(fleet, observe(end=20)) == Residuals(0, 0)


def test_a_grant_without_a_card_behind_it_is_named() -> None:
    grant, other = make_grant(0, 20), make_grant(gpu_uuid=None, allocation="a2")
    fleet = replace(make_fleet(make_card(period=span(10))), grants=[grant, other])
    before, after = (node_second(fleet, observe(), HOUR_S + at) for at in (9, 10))
    assert (before.cards, before.uncovered, before.residuals) == ([], (grant,), Residuals(None, None))
    assert (len(after.cards), after.uncovered) == (1, ())


def test_more_than_there_is_shows_in_the_residual_of_the_second() -> None:
    twice = [make_grant(0, 10, vram_bytes=GIB), make_grant(5, 15, allocation="a2", vram_bytes=GIB)]
    fleet = replace(make_fleet(make_card(), make_card(gpu_uuid="GPU-2")), grants=twice)
    assert node_second(fleet, observe(), HOUR_S + 7).residuals == Residuals(1_000, 0)
    assert node_second(fleet, observe(), HOUR_S + 12).residuals == Residuals(0, 0)


def test_the_state_that_was_said_of_a_card_is_shown_with_it() -> None:
    fan = DeviceStatePeriod("GPU-1", "draining", "fan", span(10, 20))
    states = [
        _only(node_second(make_fleet(make_card(), states=[fan]), observe(), HOUR_S + at)).there.state for at in (9, 10)
    ]
    assert states == ["ok", "draining"]


def test_a_card_is_lost_while_it_is_said_to_be_and_not_with_one_of_its_instances() -> None:
    """Sampled in seconds 0 to 4, then lost for five; its instance was lost all the while."""
    instance = make_instance(1, "1g.10gb", 0, 1, 16, 9_984)
    rows = [("gpu_up", "GPU-1", "", "", second, float(second < 5)) for second in range(10)]
    rows += [("gpu_up", "GPU-1", "MIG-1", "", second, 0.0) for second in range(10)]
    evidence = observe([*rows, *use_of(range(10, 15))], devices=[("GPU-1", ""), ("GPU-1", "MIG-1")])
    found = [_only(node_second(make_fleet(make_h100(), instances=[instance]), evidence, HOUR_S + at)) for at in (4, 5)]
    assert [card.presence for card in found] == [Presence.SAMPLED, Presence.LOST]
    assert [_states(card).get("lost", (0, 0))[0] for card in found] == [0, 132]
    back = node_second(make_fleet(make_h100(), instances=[instance]), evidence, HOUR_S + 10)
    assert (_only(back).presence, "lost" in _states(_only(back))) == (Presence.SAMPLED, False)
