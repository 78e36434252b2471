"""Runs of equal values: seconds folded into them, and runs that overlap brought apart.

A run is a row with `start_s` and `end_s`, the half-open seconds [start_s, end_s) that it holds, beside what it is of.
There are a few dozen times fewer of them than of samples, so what is worked out on runs costs little.
"""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

import polars as pl

# Beyond every second that a calendar can name.
_ABOVE_ANY_SECOND = 2**40
_SPAN = ("start_s", "end_s", "value")


def fold(runs: pl.DataFrame, same: Sequence[str]) -> pl.DataFrame:
    """Neighbours that touch and agree in the columns `same` (of which one is never null) as one; in their order.

    Columns: `same`, start_s, end_s.
    """
    differs = (pl.col(column).ne_missing(pl.col(column).shift()) for column in same)
    begins = pl.any_horizontal(pl.col("start_s") != pl.col("end_s").shift(), *differs)
    first = runs.select(begins.arg_true()).to_series()
    last = pl.lit(first).shift(-1, fill_value=runs.height) - 1
    return runs.select(pl.col(*same, "start_s").gather(first), pl.col("end_s").gather(last))


def expand(runs: pl.DataFrame) -> pl.DataFrame:
    """A run for each second of the runs."""
    every = pl.int_ranges("start_s", "end_s").alias("start_s")
    return runs.with_columns(every).explode("start_s", empty_as_null=False).with_columns(end_s=pl.col("start_s") + 1)


def without(runs: pl.DataFrame, others: pl.DataFrame, on: Sequence[str]) -> pl.DataFrame:
    """What the runs hold outside the seconds of others that agree in the columns `on`; in no order."""
    if others.is_empty():
        return runs
    numbered = runs.with_row_index("number")
    met = numbered.join(others.select(*on, from_s="start_s", to_s="end_s"), on=on).filter(
        pl.col("start_s") < pl.col("to_s"), pl.col("from_s") < pl.col("end_s")
    )
    cut = expand(numbered.join(met, on="number", how="semi")).join(expand(others), on=[*on, "start_s"], how="anti")
    return pl.concat([numbered.join(met, on="number", how="anti"), cut]).drop("number")


def apart(runs: pl.DataFrame, of: Sequence[str]) -> pl.DataFrame:
    """The runs, in the order of the columns `of` and of time, so that no two of one thing overlap.

    Where they do, the largest `value` counts. Columns: `of`, start_s, end_s, value.
    """
    ordered = runs.sort([*of, "start_s"])
    changes = pl.any_horizontal(*(pl.col(column) != pl.col(column).shift() for column in of)).fill_null(value=False)
    keyed = ordered.select(*_SPAN, key=changes.cum_sum().cast(pl.Int64))
    overlaps = (pl.col("key") == pl.col("key").shift()) & (pl.col("start_s") < pl.col("end_s").shift())
    if not keyed.select(overlaps.any()).item():
        return ordered
    # Keys only rise, so with the key in front the latest end so far begins anew with each of them.
    reach = (pl.col("key") * _ABOVE_ANY_SECOND + pl.col("end_s")).cum_max().shift()
    meets = (pl.col("key") * _ABOVE_ANY_SECOND + pl.col("start_s") < reach).fill_null(value=False)
    marked = keyed.with_columns(meets=meets).with_columns(
        is_alone=~pl.col("meets") & ~pl.col("meets").shift(-1, fill_value=False)
    )
    resolved: list[tuple[int, int, int, int]] = []
    cluster: list[tuple[int, int, int]] = []
    last_key = 0
    for *run, key, met in marked.filter(~pl.col("is_alone")).drop("is_alone").iter_rows():
        if not met:
            resolved += ((*each, last_key) for each in _largest(cluster))
            cluster = []
        cluster.append((run[0], run[1], run[2]))
        last_key = key
    resolved += ((*each, last_key) for each in _largest(cluster))
    alone = marked.filter("is_alone").select(*_SPAN, "key")
    every = pl.concat([alone, pl.DataFrame(resolved, schema=alone.schema, orient="row")]).sort("key", "start_s")
    labels = ordered.filter(changes | (pl.int_range(pl.len()) == 0)).select(of)
    return labels.select(pl.all().gather(every["key"])).hstack(every.select(_SPAN))


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
