"""Runs folded, brought apart and cut come to what is found second by second."""

from itertools import groupby

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from meter.evidence.folding import apart, expand, fold, without

# (of, start_s, end_s, value)
Run = tuple[str, int, int, int]
SCHEMA = {"of": pl.String, "start_s": pl.Int64, "end_s": pl.Int64, "value": pl.Int64}

_runs = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 25), st.integers(1, 8), st.integers(0, 3)).map(
        lambda run: (run[0], run[1], run[1] + run[2], run[3])
    ),
    max_size=12,
)


def frame(runs: list[Run]) -> pl.DataFrame:
    return pl.DataFrame(runs, schema=SCHEMA, orient="row")


def seconds_of(runs: list[Run]) -> dict[tuple[str, int], int]:
    """The largest value of each thing and second."""
    found: dict[tuple[str, int], int] = {}
    for of, start_s, end_s, value in sorted(runs, key=lambda run: run[3]):
        found.update(dict.fromkeys(((of, second) for second in range(start_s, end_s)), value))
    return found


def runs_of(seconds: dict[tuple[str, int], int]) -> list[Run]:
    """Equal values of seconds that follow each other, as long as they can be."""
    ordered = [(of, second, value) for (of, second), value in sorted(seconds.items())]
    stretches = groupby(enumerate(ordered), key=lambda each: (each[1][0], each[1][2], each[1][1] - each[0]))
    found = []
    for (of, value, _), numbered in stretches:
        within = [second for _, (_, second, _) in numbered]
        found.append((of, within[0], within[-1] + 1, value))
    return found


@given(_runs)
def test_of_runs_that_overlap_the_largest_value_of_each_second_counts(runs: list[Run]) -> None:
    found = fold(apart(frame(runs), ["of"]), ["of", "value"]).select(list(SCHEMA))
    assert list(found.iter_rows()) == runs_of(seconds_of(runs))


@given(_runs, _runs)
def test_what_is_cut_out_of_runs_is_the_seconds_of_the_others_and_no_more(runs: list[Run], others: list[Run]) -> None:
    left = without(frame(runs), frame(others), ["of"])
    gone = seconds_of(others)
    expected = [
        (of, second, second + 1, value)
        for of, start_s, end_s, value in runs
        for second in range(start_s, end_s)
        if (of, second) not in gone
    ]
    assert sorted(expand(left).iter_rows()) == sorted(expected)


def test_neighbours_fold_where_they_touch_and_agree_also_in_that_they_are_nothing() -> None:
    rows = [("a", 0, 1, None), ("a", 1, 2, None), ("a", 2, 3, 5), ("a", 4, 5, 5), ("b", 5, 6, 5), ("b", 6, 8, 5)]
    found = fold(pl.DataFrame(rows, schema=SCHEMA, orient="row"), ["of", "value"]).select(list(SCHEMA))
    assert list(found.iter_rows()) == [("a", 0, 2, None), ("a", 2, 3, 5), ("a", 4, 5, 5), ("b", 5, 8, 5)]
