"""The samples of a node folded into runs of each series: nothing that follows is as long as the samples are."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import polars as pl

from meter.evidence.folding import differing, fold, stretches_of
from meter.evidence.presence import NODE, Device

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
        return (self.gpu_uuid, self.mig_uuid) if self.gpu_uuid else NODE


@dataclass(frozen=True)
class SeriesRuns:
    """Runs of equal values, columns key (the number of a name), start_s, end_s, value; in the order of the samples."""

    names: Sequence[SeriesName]
    runs: pl.DataFrame

    @cached_property
    def stretches(self) -> list[list[tuple[int, int]]]:
        """When there was a sample, whatever it told, by key."""
        found: list[list[tuple[int, int]]] = [[] for _ in self.names]
        for key, start_s, end_s in fold(self.runs, ("key",)).iter_rows():
            found[key].append((start_s, end_s))
        return found


def fold_series(samples: pl.DataFrame) -> SeriesRuns:
    """Runs of the samples, columns as in `SAMPLE_COLUMNS`; in order of series and second there are fewest of them."""
    second_s, value = samples["second_s"], samples["value"]
    labels = [samples[label] for label in _LABELS]
    is_other = differing(*labels)
    begins = is_other | (second_s[1:] != second_s[:-1] + 1) | differing(value)
    if begins.has_nulls():
        # What is no number is like no other.
        begins = begins.fill_null(value=True)
    first, last = stretches_of(begins, samples.height)
    of_series, _ = stretches_of(is_other, samples.height)
    numbers: dict[SeriesName, int] = {}
    names = map(SeriesName, *(label[of_series] for label in labels))
    key = pl.Series("key", [numbers.setdefault(name, len(numbers)) for name in names], dtype=pl.Int64)
    key = key[of_series.search_sorted(first, side="right") - 1]
    ends = (second_s[last] + 1).alias("end_s")
    return SeriesRuns(list(numbers), pl.DataFrame([key, second_s[first].alias("start_s"), ends, value[first]]))
