"""The samples of a node folded into runs of each series: nothing that follows is as long as the samples are."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import NamedTuple

import polars as pl

from meter.evidence.presence import Device

_LABELS = ("series", "gpu_uuid", "mig_uuid", "owner")


class SeriesName(NamedTuple):
    """What a series is of; '' where it has no such label."""

    series: str
    gpu_uuid: str
    mig_uuid: str
    owner: str

    @property
    def device(self) -> Device:
        """Whose it is; that of the node, whatever else it says, where it names no card."""
        return (self.gpu_uuid, self.mig_uuid) if self.gpu_uuid else ("", "")


@dataclass(frozen=True)
class SeriesRuns:
    """Runs of equal values, columns key (the number of a name), start_s, end_s, value; in the order of the samples."""

    names: Sequence[SeriesName]
    runs: pl.DataFrame

    @cached_property
    def stretches(self) -> list[list[tuple[int, int]]]:
        """When there was a sample, whatever it told, by key; a run that meets the one before lengthens it."""
        key, start_s, end_s = (self.runs[column] for column in ("key", "start_s", "end_s"))
        apart = (start_s[1:] > end_s[:-1]) | (start_s[1:] < start_s[:-1]) | (end_s[1:] < end_s[:-1])
        first, last = _bounds((key[1:] != key[:-1]) | apart, self.runs.height)
        found: list[list[tuple[int, int]]] = [[] for _ in self.names]
        spans = zip(key.gather(first), start_s.gather(first), end_s.gather(last), strict=True)
        for number, from_s, to_s in spans:
            found[number].append((from_s, to_s))
        return found


def fold_series(samples: pl.DataFrame) -> SeriesRuns:
    """Runs of the samples, columns as in `SAMPLE_COLUMNS`; in order of series and second there are fewest of them."""
    second_s, value = samples["second_s"], samples["value"]
    # Two that are nothing differ: no run is of no number.
    others = [column[1:] != column[:-1] for column in (samples[label] for label in _LABELS)]
    is_other = reduce(or_, others)
    changes = is_other | (second_s[1:] != second_s[:-1] + 1) | (value[1:] != value[:-1]).fill_null(value=True)
    first, last = _bounds(changes, samples.height)
    heads, _ = _bounds(is_other, samples.height)
    numbers: dict[SeriesName, int] = {}
    each = [numbers.setdefault(SeriesName(*row), len(numbers)) for row in samples[heads].select(_LABELS).iter_rows()]
    key = pl.Series(each, dtype=pl.Int64).gather(heads.search_sorted(first, side="right") - 1)
    return SeriesRuns(
        list(numbers),
        pl.DataFrame(
            {
                "key": key,
                "start_s": second_s.gather(first),
                "end_s": second_s.gather(last) + 1,
                "value": value.gather(first),
            }
        ),
    )


def _bounds(changes: pl.Series, height: int) -> tuple[pl.Series, pl.Series]:
    """The first and the last row of each stretch, where `changes` says of each row but the first that one begins."""
    first = pl.concat([pl.Series([0] if height else [], dtype=pl.UInt32), changes.arg_true() + 1])
    return first, first.shift(-1, fill_value=height) - 1
