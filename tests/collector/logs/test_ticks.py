"""Cards that take turns in the rows of a log."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.logs.ticks import cards_in_turn, rows_per_tick

SECOND_US = 1_000_000


def ticks(count: int, cards: int, *, step_us: int = 2 * SECOND_US, apart_us: int = 3_000) -> list[int]:
    return [tick * step_us + card * apart_us for tick in range(count) for card in range(cards)]


@given(st.integers(2, 40), st.integers(2, 16), st.sampled_from([0, 1, 1_000, 3_000]))
def test_rows_that_are_written_together_are_counted(count: int, cards: int, apart_us: int) -> None:
    assert rows_per_tick(ticks(count, cards, apart_us=apart_us)) == cards


@given(st.lists(st.integers(40_000, 4_000_000), max_size=60))
def test_steps_of_a_single_card_are_no_ticks(steps_us: list[int]) -> None:
    """Also where they differ much from each other, unless most come in the same small groups."""
    times_us = [0]
    for step_us in steps_us:
        times_us.append(times_us[-1] + step_us + 400_000)
    assert rows_per_tick(times_us) == 1


def test_a_hole_makes_no_ticks() -> None:
    times_us = [second * SECOND_US for second in (*range(50), *range(10_000, 10_050))]
    assert rows_per_tick(times_us) == 1


def test_one_tick_is_one_too() -> None:
    assert rows_per_tick([5, 5, 5]) == 3
    assert rows_per_tick([5]) == 1
    assert rows_per_tick([]) == 1


def test_a_log_that_was_cut_within_a_tick_still_has_ticks() -> None:
    assert rows_per_tick(ticks(3, 4)[:-2]) == 4


def test_irregular_groups_are_a_single_card() -> None:
    times_us = [second * SECOND_US for second, count in enumerate((3, 5, 2, 6, 4, 1, 3)) for _ in range(count)]
    assert rows_per_tick(times_us) == 1


def test_cards_take_turns() -> None:
    assert cards_in_turn(ticks(2, 3), 3) == [0, 1, 2, 0, 1, 2]
    assert cards_in_turn([None] * 4, 2) == [0, 1, 0, 1]
    assert cards_in_turn([7, 8, 9], 1) == [0, 0, 0]


def test_a_tick_that_lacks_a_row_is_nobodys_and_the_next_is_right_again() -> None:
    times_us = ticks(4, 3)
    del times_us[4]
    assert cards_in_turn(times_us, 3) == [0, 1, 2, None, None, 0, 1, 2, 0, 1, 2]


def test_a_row_without_a_time_takes_its_turn() -> None:
    times_us: list[int | None] = list(ticks(3, 3))
    times_us[4] = None
    assert cards_in_turn(times_us, 3) == [0, 1, 2] * 3


def test_a_row_too_many_is_nobodys_and_the_next_tick_is_right_again() -> None:
    times_us: list[int | None] = list(ticks(4, 3))
    times_us.insert(6, None)
    assert cards_in_turn(times_us, 3) == [0, 1, 2, 0, 1, 2, None, 0, 1, 2, 0, 1, 2]


def test_the_last_tick_is_nobodys_where_it_was_cut() -> None:
    assert cards_in_turn(ticks(3, 3)[:-1], 3)[-2:] == [None, None]


@pytest.mark.parametrize("cards", [2, 8])
def test_a_hole_between_ticks_changes_nothing(cards: int) -> None:
    times_us = ticks(5, cards) + [time_us + 10**10 for time_us in ticks(5, cards)]
    assert cards_in_turn(times_us, cards) == [*range(cards)] * 10
