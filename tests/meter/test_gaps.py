"""What a granted second is worth when it was not sampled."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.prices import GapPolicy, GapRules
from domain.series import COLLECTOR_LATENESS
from meter.evidence.evidence import CONTEXT_S, Evidence
from meter.rating.gaps import classify
from tests.meter.fixture_types import Observe, UseOf

FREE, ON_RECORD = GapPolicy.FREE, GapPolicy.ON_RECORD


@pytest.fixture
def gaps(hour_s: int) -> Callable[..., str]:
    """The classes of seconds [0, n) of a card, one letter each: Measured, Bridged, On record, Free."""

    def of(evidence: Evidence, rules: GapRules, gpu: str = "GPU-1", mig: str = "") -> str:
        seconds = {}
        for start_s, end_s, gap in classify(evidence.line((gpu, mig), "presence"), rules):
            for second in range(start_s, end_s):
                assert second not in seconds
                seconds[second - hour_s] = gap[0].upper()
        return "".join(seconds[second] for second in range(evidence.period.seconds))

    return of


def _rows(pattern: str, gpu: str = "GPU-1", start: int = 0) -> list[Any]:
    """Samples as drawn: `x` sampled, `0` lost, anything else nothing."""
    says = {"x": 1.0, "0": 0.0}
    return [("gpu_up", gpu, "", "", start + second, says[what]) for second, what in enumerate(pattern) if what in says]


@pytest.mark.parametrize(
    ("samples", "bridge", "expected"),
    [
        # With heartbeats throughout, a hole is the collector's.
        ("xxxxxxxx", 3, "MMMMMMMM"),
        ("xx.xx..x", 3, "MMBMMBBM"),
        ("x...x...", 3, "MBBBMOOO"),
        ("x....x", 3, "MOOOOM"),
        ("x....x", 4, "MBBBBM"),
        ("x.x", 0, "MOM"),
        ("..x.x..", 3, "OOMBMOO"),
        # A second in which the card was lost is no hole, and spoils the hole it lies in.
        ("x0x", 3, "MFM"),
        ("x.0x", 3, "MOFM"),
        ("x.0.x", 9, "MOFOM"),
        ("x0000x.x", 3, "MFFFFMBM"),
        ("........", 3, "OOOOOOOO"),
        ("00000000", 3, "FFFFFFFF"),
    ],
)
def test_a_hole_between_two_samples_is_bridged_up_to_the_length_the_book_says(
    observe: Observe, gaps: Callable[..., str], samples: str, bridge: int, expected: str
) -> None:
    evidence = observe(_rows(samples), end=len(samples), heard=[(-60, 60)], devices=[("GPU-1", "")])
    assert gaps(evidence, GapRules(bridge_seconds=bridge)) == expected


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        # One card absent while another was sampled; then only heartbeats; then nothing; each ten seconds.
        (GapRules(0, FREE, ON_RECORD), "F" * 10 + "O" * 10 + "F" * 10),
        (GapRules(0, ON_RECORD, ON_RECORD), "F" * 10 + "O" * 20),
        (GapRules(0, FREE, FREE), "F" * 30),
        (GapRules(0, ON_RECORD, FREE), "F" * 20 + "O" * 10),
    ],
)
def test_the_reason_of_a_gap_and_the_books_policy_say_who_pays(
    observe: Observe, gaps: Callable[..., str], rules: GapRules, expected: str
) -> None:
    """Absent from a complete set is the card's fault and free under every policy."""
    evidence = observe(_rows("x" * 10, "GPU-2"), end=30, heard=[(10, 10)], devices=[("GPU-1", "")])
    assert gaps(evidence, rules) == expected


def test_a_node_is_unreachable_ten_seconds_after_its_last_sample(observe: Observe, gaps: Callable[..., str]) -> None:
    """A sample is a sign of life as a heartbeat is, of whatever card, and of one that is lost."""
    rules = GapRules(0, FREE, ON_RECORD)
    assert gaps(observe(_rows("x" + "." * 19), end=20), rules) == "M" + "O" * 9 + "F" * 10
    assert gaps(observe(_rows("0" + "." * 19), end=20), rules) == "F" + "O" * 9 + "F" * 10
    other = observe(_rows("x", "GPU-2"), end=20, devices=[("GPU-1", "")])
    assert gaps(other, rules) == "F" + "O" * 9 + "F" * 10
    # Neither is a sample a sign of what was before it.
    assert gaps(observe(_rows("." * 19 + "x"), end=20), rules) == "F" * 19 + "M"


@pytest.mark.parametrize("policy", [FREE, ON_RECORD])
def test_the_only_card_of_a_node_that_does_not_answer_is_free_while_its_collector_looks(
    observe: Observe, gaps: Callable[..., str], policy: GapPolicy
) -> None:
    """A hung driver, or a card that fell off the bus: the collector ticks on, second by second, and reads nothing."""
    ticks = [(COLLECTOR_LATENESS.name, "", "", "", second, 0.002) for second in range(20)]
    evidence = observe([*_rows("x" * 5), *ticks], end=30, heard=[(-60, 60)], devices=[("GPU-1", "")])
    down = "O" if policy is ON_RECORD else "F"
    assert gaps(evidence, GapRules(3, policy, policy)) == "M" * 5 + "F" * 15 + down * 10


@pytest.mark.parametrize("cut", range(1, 20))
def test_a_hole_across_the_seam_of_two_windows_is_seen_whole_from_either(
    observe: Observe, gaps: Callable[..., str], cut: int
) -> None:
    """The context seconds: ten seconds of hole are bridged or not, wherever the window ends."""
    rows = _rows("xxxxx..........xxxxx")
    for bridge, expected in ((10, "MMMMMBBBBBBBBBBMMMMM"), (9, "MMMMMOOOOOOOOOFMMMMM")):
        rules = GapRules(bridge_seconds=bridge)
        first, second = observe(rows, end=cut), observe(rows, start=cut, end=20)
        assert gaps(first, rules) == expected[:cut]
        assert _letters(classify(second.line(("GPU-1", ""), "presence"), rules), second) == expected[cut:]


def _letters(runs: Iterable[tuple[int, int, str]], evidence: Evidence) -> str:
    first = evidence.period.first_second
    by_second = {second: gap[0].upper() for start, end, gap in runs for second in range(start, end)}
    return "".join(by_second[second] for second in range(first, first + evidence.period.seconds))


def test_the_longest_bridge_lies_within_the_context(observe: Observe, gaps: Callable[..., str]) -> None:
    """A hole of 30 seconds that begins with the window's last second is still seen to end."""
    rows = [*_rows("x" * 9), *_rows("x", start=9 + CONTEXT_S)]
    assert gaps(observe(rows, end=10), GapRules(bridge_seconds=CONTEXT_S)) == "MMMMMMMMMB"
    assert gaps(observe(rows[:-1], end=10), GapRules(bridge_seconds=CONTEXT_S)) == "MMMMMMMMMO"


def test_what_runs_off_the_end_of_what_is_known_is_not_bridged(observe: Observe, gaps: Callable[..., str]) -> None:
    """Neither before the first sample nor after the last, where the node still counts as heard from."""
    for bridge_seconds in (30, 99):
        assert gaps(observe(_rows("..xx.."), end=6), GapRules(bridge_seconds=bridge_seconds)) == "FFMMOO"


def test_instances_are_judged_apart_from_their_card(observe: Observe, use_of: UseOf, gaps: Callable[..., str]) -> None:
    evidence = observe([*use_of(range(6)), *use_of([0, 5], mig="MIG-1")], end=6)
    assert gaps(evidence, GapRules(bridge_seconds=9)) == "MMMMMM"
    assert gaps(evidence, GapRules(bridge_seconds=9), mig="MIG-1") == "MBBBBM"
    assert gaps(evidence, GapRules(bridge_seconds=3), mig="MIG-1") == "MFFFFM"


@given(pattern=st.text("x0.", min_size=1, max_size=40), bridge=st.integers(0, 30), heard=st.booleans())
@settings(
    max_examples=settings().max_examples * 60 // 100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_every_second_has_exactly_one_class(
    observe: Observe, gaps: Callable[..., str], pattern: str, bridge: int, heard: bool
) -> None:
    """And a longer bridge only ever turns unsampled seconds into bridged ones."""
    contacts = [(-60, 60)] if heard else []
    evidence = observe(_rows(pattern), end=len(pattern), heard=contacts, devices=[("GPU-1", "")])
    shorter = gaps(evidence, GapRules(bridge_seconds=bridge))
    longer = gaps(evidence, GapRules(bridge_seconds=bridge + 1))
    assert len(shorter) == len(pattern)
    for what, before, after in zip(pattern, shorter, longer, strict=True):
        assert (what == "x") == (before == "M")
        assert what != "0" or before == after == "F"
        assert before == after or (before in "OF" and after == "B")
