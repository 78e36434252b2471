"""Runs folded, brought apart and cut come to what is found second by second."""

from itertools import groupby

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from meter.evidence.folding import apart, expand, fold, without

# (key, start_s, end_s, value)
Run = tuple[int, int, int, int]
SCHEMA = {"key": pl.Int64, "start_s": pl.Int64, "end_s": pl.Int64, "value": pl.Int64}

_runs = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 25), st.integers(1, 8), st.integers(0, 3)).map(
        lambda run: (run[0], run[1], run[1] + run[2], run[3])
    ),
    max_size=12,
)


def frame(runs: list[Run]) -> pl.DataFrame:
    return pl.DataFrame(runs, schema=SCHEMA, orient="row")


def seconds_of(runs: list[Run]) -> dict[tuple[int, int], int]:
    """The largest value of each thing and second."""
    found: dict[tuple[int, int], int] = {}
    for key, start_s, end_s, value in sorted(runs, key=lambda run: run[3]):
        found.update(dict.fromkeys(((key, second) for second in range(start_s, end_s)), value))
    return found


def runs_of(seconds: dict[tuple[int, int], int]) -> list[Run]:
    """Equal values of seconds that follow each other, as long as they can be."""
    ordered = [(key, second, value) for (key, second), value in sorted(seconds.items())]
    stretches = groupby(enumerate(ordered), key=lambda each: (each[1][0], each[1][2], each[1][1] - each[0]))
    found = []
    for (key, value, _), numbered in stretches:
        within = [second for _, (_, second, _) in numbered]
        found.append((key, within[0], within[-1] + 1, value))
    return found


@given(_runs)
def test_of_runs_that_overlap_the_largest_value_of_each_second_counts(runs: list[Run]) -> None:
    found = apart(frame(runs)).select(list(SCHEMA))
    assert list(found.iter_rows()) == runs_of(seconds_of(runs))


@given(_runs, _runs)
def test_what_is_cut_out_of_runs_is_the_seconds_of_the_others_and_no_more(runs: list[Run], others: list[Run]) -> None:
    left = without(frame(runs), frame(others))
    gone = seconds_of(others)
    expected = [
        (key, second, second + 1, value)
        for key, start_s, end_s, value in runs
        for second in range(start_s, end_s)
        if (key, second) not in gone
    ]
    assert sorted(expand(left).iter_rows()) == sorted(expected)


def test_neighbours_fold_where_they_meet_or_go_on_from_within_and_agree() -> None:
    rows = [(0, 0, 1, 5), (0, 1, 2, 5), (0, 2, 3, 6), (0, 4, 6, 6), (0, 5, 9, 6), (1, 9, 10, 6), (1, 7, 8, 6)]
    found = fold(frame(rows), ["key", "value"]).select(list(SCHEMA))
    assert list(found.iter_rows()) == [(0, 0, 2, 5), (0, 2, 3, 6), (0, 4, 9, 6), (1, 9, 10, 6), (1, 7, 8, 6)]
    # What ends within the one before goes on from nothing.
    assert fold(frame([(0, 0, 9, 5), (0, 2, 4, 5), (0, 9, 10, 5)]), ["key", "value"]).height == 3
