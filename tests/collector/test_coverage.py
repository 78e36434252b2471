"""Coverage is exact: the seconds in which a card answered, of those of the last hour."""

from hypothesis import given
from hypothesis import strategies as st

from collector.coverage import HOUR_SECONDS, Coverage

CARDS = ("GPU-0", "GPU-1", "GPU-2")


def test_forty_of_a_hundred_seconds_without_an_answer_are_a_coverage_of_three_fifths() -> None:
    """L5: a source that drops 40 % of an hour's samples says so."""
    coverage = Coverage()
    for second in range(HOUR_SECONDS):
        coverage.pass_seconds(1, CARDS[:1], CARDS[:1] if second % 5 < 3 else ())
    assert coverage.ratios() == {"GPU-0": 0.6}


def test_one_missed_second_of_an_hour_shows_and_is_forgotten_after_it() -> None:
    coverage = Coverage()
    coverage.pass_seconds(1, CARDS, CARDS[1:])
    for _ in range(HOUR_SECONDS - 1):
        coverage.pass_seconds(1, CARDS, CARDS)
    assert coverage.ratios() == {"GPU-0": 0.999722, "GPU-1": 1, "GPU-2": 1}
    coverage.pass_seconds(1, CARDS, CARDS)
    assert coverage.ratios() == dict.fromkeys(CARDS, 1)


def test_what_was_before_a_cards_first_second_is_not_held_against_it() -> None:
    coverage = Coverage()
    coverage.pass_seconds(500, CARDS[:1], CARDS[:1])
    coverage.pass_seconds(2, CARDS[:2], CARDS[:2])
    assert coverage.ratios() == {"GPU-0": 0.666667, "GPU-1": 1}


def test_a_card_that_was_taken_out_is_forgotten() -> None:
    coverage = Coverage()
    coverage.pass_seconds(1, CARDS, ())
    coverage.pass_seconds(1, CARDS[:1], ())
    assert coverage.ratios() == {"GPU-0": 0}
    coverage.pass_seconds(1, CARDS, CARDS)
    assert coverage.ratios() == {"GPU-0": 0.333333, "GPU-1": 1, "GPU-2": 1}


_STEPS = st.lists(
    st.tuples(st.one_of(st.integers(1, 4), st.integers(1, 3 * HOUR_SECONDS)), st.booleans()), min_size=1, max_size=40
)


@given(_STEPS)
def test_coverage_is_what_a_list_of_every_second_says(steps: list[tuple[int, bool]]) -> None:
    """Whatever passes between two samples, up to a machine that slept for hours."""
    coverage = Coverage()
    every_second: list[bool] = []
    for passed, answers in steps:
        coverage.pass_seconds(passed, CARDS[:1], CARDS[:1] if answers else ())
        every_second += [False] * (passed - 1 if every_second else 0) + [answers]
        hour = every_second[-HOUR_SECONDS:]
        assert coverage.ratios() == {"GPU-0": round(sum(hour) / len(hour), 6)}
