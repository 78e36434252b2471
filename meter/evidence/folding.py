"""Runs of equal values: seconds folded into them, and runs that overlap brought apart.

A run is a row with `start_s` and `end_s`, the half-open seconds [start_s, end_s) that it holds, beside what it is of.
There are a few dozen times fewer of them than of samples, so what is worked out on runs costs little.
"""

from collections.abc import Iterator, Sequence
from functools import reduce
from heapq import heappop, heappush
from itertools import groupby
from operator import itemgetter, or_

import polars as pl

# Beyond every second that a calendar can name.
_ABOVE_ANY_SECOND = 2**40
_COLUMNS = ("key", "start_s", "end_s", "value")


def differing(*columns: pl.Series) -> pl.Series:
    """Of each row but the first, whether one of the columns, none of them null, differs from the row before."""
    return reduce(or_, (column[1:] != column[:-1] for column in columns))


def stretches_of(begins: pl.Series, height: int) -> tuple[pl.Series, pl.Series]:
    """The first and the last row of each stretch of rows, where `begins` says of each but the first that one begins."""
    first = pl.concat([pl.Series([0][:height], dtype=pl.UInt32), begins.arg_true() + 1])
    return first, pl.concat([first[1:], pl.Series([height][:height], dtype=pl.UInt32)]) - 1


def fold(runs: pl.DataFrame, same: Sequence[str]) -> pl.DataFrame:
    """Neighbours that meet, or of which the second reaches on from within the first, and that agree in the columns
    `same` (which are never null) as one; in their order.

    Columns: `same`, start_s, end_s.
    """
    start_s, end_s = runs["start_s"], runs["end_s"]
    goes_on = start_s[1:].is_between(start_s[:-1], end_s[:-1]) & (end_s[1:] >= end_s[:-1])
    first, last = stretches_of(differing(*(runs[column] for column in same)) | ~goes_on, runs.height)
    return pl.DataFrame([*(runs[column][first] for column in (*same, "start_s")), end_s[last]])


def expand(runs: pl.DataFrame) -> pl.DataFrame:
    """A run for each second of the runs."""
    every = pl.int_ranges("start_s", "end_s").alias("start_s")
    return runs.with_columns(every).explode("start_s", empty_as_null=False).with_columns(end_s=pl.col("start_s") + 1)


def without(runs: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """What the runs hold outside the seconds of others of the same key; in no order. Columns: key, start_s, end_s."""
    numbered = runs.with_row_index("number")
    met = numbered.join(others.select("key", from_s="start_s", to_s="end_s"), on="key").filter(
        pl.col("start_s") < pl.col("to_s"), pl.col("from_s") < pl.col("end_s")
    )
    if met.is_empty():
        return runs
    is_met = pl.col("number").is_in(met["number"].implode())
    cut = expand(numbered.filter(is_met)).join(expand(others), on=["key", "start_s"], how="anti")
    return pl.concat([numbered.filter(~is_met), cut]).drop("number")


def apart(runs: pl.DataFrame) -> pl.DataFrame:
    """The runs, folded, in the order of their keys and of time, so that no two of one key overlap.

    Where they do, the largest `value` counts. Columns: key, start_s, end_s, value, all whole numbers.
    """
    ordered = runs.sort("key", "start_s", "end_s", "value", descending=[False, False, True, True])
    key, _, end_s, value = (ordered[column] for column in _COLUMNS)
    # Most that overlap are readings that came twice: one run lies within another that is as large, or goes on from it.
    is_within = (key[1:] == key[:-1]) & (end_s[1:] <= end_s[:-1]) & (value[1:] <= value[:-1])
    if is_within.any():
        ordered = ordered.filter(pl.concat([pl.Series([True]), ~is_within]))
    ordered = fold(ordered, ("key", "value"))
    key, start_s, end_s, _ = (ordered[column] for column in _COLUMNS)
    if not ((key[1:] == key[:-1]) & (start_s[1:] < end_s[:-1])).any():
        return ordered
    # Keys only rise, so with the key in front the latest end so far begins anew with each of them.
    reach = (key * _ABOVE_ANY_SECOND + end_s).cum_max().shift()
    meets = (key * _ABOVE_ANY_SECOND + start_s < reach).fill_null(value=False)
    is_alone = ~(meets | meets.shift(-1, fill_value=False))
    tangled = ordered.select(*_COLUMNS, (~meets).cum_sum().alias("cluster")).filter(~is_alone)
    resolved = [
        (cluster_key, *run)
        for (cluster_key, _), cluster in groupby(tangled.iter_rows(), key=itemgetter(0, 4))
        for run in _largest([each[1:4] for each in cluster])
    ]
    rest = pl.DataFrame(resolved, schema=dict.fromkeys(_COLUMNS, pl.Int64), orient="row")
    alone = ordered.filter(is_alone).select(_COLUMNS)
    return fold(pl.concat([alone, rest]).sort("key", "start_s"), ("key", "value"))


def _largest(runs: Sequence[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """The runs of the largest value of each second, out of runs (start_s, end_s, value) by their start."""
    heap: list[tuple[int, int]] = []
    at_s = 0
    for start_s, end_s, value in [*runs, (_ABOVE_ANY_SECOND, 0, 0)]:
        while heap and at_s < start_s:
            largest, until_s = -heap[0][0], min(heap[0][1], start_s)
            if at_s < until_s:
                yield at_s, until_s, largest
                at_s = until_s
            if heap[0][1] <= at_s:
                heappop(heap)
        at_s = start_s
        heappush(heap, (-value, end_s))
