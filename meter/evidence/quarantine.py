"""Readings that no card can have made: kept out of evidence, counted, and shown where they were."""

from collections.abc import Mapping

import polars as pl

from domain.series import GPU_BUSY, GPU_MEMORY_USED, OWNER_COMPUTE, OWNER_MEMORY
from meter.evidence.series_runs import SeriesName, SeriesRuns

# No reading of a card is as large: 256 times the VRAM of any, and an hour of it still sums within 64 bits.
_VALUE_BOUND = 2**50
# The most that a ratio can be: sums of ratios are floats, and a real excess is larger.
_RATIO_BOUND = 1 + 1e-6
_RATIOS = (GPU_BUSY.name, OWNER_COMPUTE.name)
_MEMORIES = (GPU_MEMORY_USED.name, OWNER_MEMORY.name)


def sift(read: SeriesRuns, vram_total_bytes: Mapping[str, int]) -> tuple[SeriesRuns, SeriesRuns]:
    """The readings that a card can have made, and the others.

    None has made a negative number, a ratio above 1, more memory than `vram_total_bytes` says of the card by its UUID
    (where it says nothing: 2^50 bytes or more), infinity, or no number at all.
    """
    value = read.runs["value"]
    most = pl.Series([_most(name, vram_total_bytes) for name in read.names], dtype=pl.Float64)
    # In polars a NaN is above every number, and a comparison with null is null.
    is_sound = (value >= 0) & (value <= most[read.runs["key"]])
    if is_sound.all(ignore_nulls=False):
        return read, SeriesRuns(read.names, read.runs.clear())
    is_sound = is_sound.fill_null(value=False)
    return SeriesRuns(read.names, read.runs.filter(is_sound)), SeriesRuns(read.names, read.runs.filter(~is_sound))


def _most(name: SeriesName, vram_total_bytes: Mapping[str, int]) -> float:
    if name.series in _RATIOS:
        return _RATIO_BOUND
    most = vram_total_bytes.get(name.gpu_uuid) if name.series in _MEMORIES else None
    return _VALUE_BOUND - 1 if most is None else most
