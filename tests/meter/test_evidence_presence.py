"""What is frozen of each second of a card: that it was sampled, or why it was not."""

from typing import Any

import pytest

from domain.period import Period
from domain.series import COLLECTOR_LATENESS
from meter.evidence.evidence import CONTEXT_S
from meter.evidence.presence import Presence
from tests.meter.fixture_types import Observe, UseOf
from tests.meter.runs import presence_of, values_of

LATENESS = COLLECTOR_LATENESS.name


@pytest.mark.parametrize(
    ("rows", "heard", "expected"),
    [
        # Others of the node were sampled, this one was not.
        ([("gpu_up", "GPU-2", "", "", 5, 1)], [], Presence.ABSENT),
        ([("gpu_up", "GPU-2", "", "", 5, 1)], [(0, 100)], Presence.ABSENT),
        # A lost card was heard from, so its node's collector works.
        ([("gpu_up", "GPU-2", "", "", 5, 0)], [], Presence.ABSENT),
        ([], [(0, 100)], Presence.COLLECTOR_DOWN),
        # A heartbeat stands for ten seconds from its own on.
        ([], [(0.7, 4.9)], Presence.COLLECTOR_DOWN),
        ([], [(5.9, 5.9)], Presence.COLLECTOR_DOWN),
        ([], [(6, 9)], Presence.HOST_UNREACHABLE),
        ([], [(-50, -4)], Presence.COLLECTOR_DOWN),
        ([], [(-50, -5)], Presence.HOST_UNREACHABLE),
        ([], [], Presence.HOST_UNREACHABLE),
        # A sample of whatever card stands for as long as a heartbeat does.
        ([("gpu_up", "GPU-1", "", "", -4, 1)], [], Presence.COLLECTOR_DOWN),
        ([("gpu_up", "GPU-2", "", "", -4, 1)], [], Presence.COLLECTOR_DOWN),
        ([("gpu_up", "GPU-1", "MIG-1", "", 4, 0)], [], Presence.COLLECTOR_DOWN),
        ([(LATENESS, "", "", "", -4, 0.001)], [], Presence.COLLECTOR_DOWN),
        ([("gpu_up", "GPU-1", "", "", -5, 1)], [], Presence.HOST_UNREACHABLE),
        ([("gpu_up", "GPU-1", "", "", 6, 1)], [], Presence.HOST_UNREACHABLE),
        # The collector looked and no card answered: it is the card that is missing.
        ([(LATENESS, "", "", "", 5, 0.001)], [], Presence.ABSENT),
        ([(LATENESS, "", "", "", 5, 0.0)], [(0, 100)], Presence.ABSENT),
        ([(LATENESS, "", "", "", 5, 0.001), ("gpu_up", "GPU-1", "", "", 5, 0)], [], Presence.LOST),
        ([("gpu_up", "GPU-1", "", "", 5, 0)], [(0, 100)], Presence.LOST),
        ([("gpu_busy_ratio", "GPU-1", "", "", 5, 0)], [], Presence.SAMPLED),
    ],
)
def test_why_a_second_was_not_sampled_is_told_apart(
    observe: Observe, rows: list[Any], heard: list[tuple[float, float]], expected: Presence
) -> None:
    evidence = observe(rows, end=10, heard=heard, devices=[("GPU-1", "")])
    assert presence_of(evidence)[5] is expected


def test_a_reading_of_a_lost_card_is_not_valid(observe: Observe, use_of: UseOf) -> None:
    """Whatever a lost card still says of its memory, and whatever its instances say."""
    rows = [*use_of(range(3)), *use_of(range(3), mig="MIG-1"), ("gpu_up", "GPU-1", "", "", 1, 0)]
    evidence = observe(rows, end=3)
    assert presence_of(evidence)[1] is Presence.LOST
    assert presence_of(evidence, mig="MIG-1")[1] is Presence.LOST
    assert {(start, seconds) for *_, start, seconds, _ in values_of(evidence, "vram_used")} == {(0, 1), (2, 1)}


def test_one_lost_instance_costs_its_card_and_the_others_nothing(observe: Observe, use_of: UseOf) -> None:
    """What is lost inside a card is that part and no other."""
    rows = [*use_of([0]), *use_of([0], mig="MIG-1"), ("gpu_up", "GPU-1", "MIG-2", "", 0, 0)]
    evidence = observe(rows, end=1)
    seen = {mig: presence_of(evidence, mig=mig)[0] for mig in ("", "MIG-1", "MIG-2")}
    assert seen == {"": Presence.SAMPLED, "MIG-1": Presence.SAMPLED, "MIG-2": Presence.LOST}


def test_one_sick_card_costs_the_others_nothing(observe: Observe, use_of: UseOf) -> None:
    evidence = observe([*use_of(range(3), gpu="GPU-2"), ("gpu_up", "GPU-1", "", "", 1, 0)], end=3)
    assert [presence_of(evidence, "GPU-2")[second] for second in range(3)] == [Presence.SAMPLED] * 3


def test_a_card_of_the_inventory_that_never_spoke_is_there(observe: Observe) -> None:
    evidence = observe([], end=10, devices=[("GPU-9", ""), ("GPU-9", "MIG-1")])
    assert set(presence_of(evidence, "GPU-9").values()) == {Presence.HOST_UNREACHABLE}
    assert set(presence_of(evidence, "GPU-9", "MIG-1").values()) == {Presence.HOST_UNREACHABLE}


def test_presence_covers_every_second_with_its_context(observe: Observe, use_of: UseOf) -> None:
    """So that a hole across the seam of two windows is seen whole from either."""
    evidence = observe(use_of([-CONTEXT_S, 3599 + CONTEXT_S]))
    seconds = range(-CONTEXT_S, 3600 + CONTEXT_S)
    for card in ("GPU-1", ""):
        assert list(presence_of(evidence, card)) == list(seconds)
    sampled = [second for second, what in presence_of(evidence).items() if what is Presence.SAMPLED]
    assert sampled == [-CONTEXT_S, 3599 + CONTEXT_S]


def test_an_empty_window_of_an_empty_node_has_evidence(observe: Observe) -> None:
    evidence = observe([])
    assert evidence.known_seconds().is_empty()
    assert evidence.period.seconds == 3600
    assert evidence.presence()["value"].to_list() == [Presence.HOST_UNREACHABLE]
    assert isinstance(evidence.period, Period)
