"""Readings that no card can have made: kept out of evidence, counted, and shown where they were."""

from collections.abc import Mapping

import polars as pl

from domain.series import GPU_BUSY, GPU_MEMORY_USED, OWNER_COMPUTE, OWNER_MEMORY

# No reading of a card is as large: 256 times the VRAM of any, and an hour of it still sums within 64 bits.
_VALUE_BOUND = 2**50
# The most that a ratio can be: sums of ratios are floats, and a real excess is larger.
_RATIO_BOUND = 1 + 1e-6
_RATIOS = (GPU_BUSY.name, OWNER_COMPUTE.name)
_MEMORIES = (GPU_MEMORY_USED.name, OWNER_MEMORY.name)


def sift(samples: pl.DataFrame, vram_total_bytes: Mapping[str, int]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The readings that a card can have made, and the others; columns as in `SAMPLE_COLUMNS`.

    None has made a negative number, a ratio above 1, more memory than `vram_total_bytes` says of the card by its UUID
    (where it says nothing: 2^50 bytes or more), infinity, or no number at all.
    """
    totals = pl.DataFrame(
        list(vram_total_bytes.items()), schema={"gpu_uuid": pl.String, "total": pl.Int64}, orient="row"
    )
    most = (
        pl.when(pl.col("series").is_in(_RATIOS))
        .then(_RATIO_BOUND)
        .when(pl.col("series").is_in(_MEMORIES) & pl.col("total").is_not_null())
        .then(pl.col("total"))
        .otherwise(_VALUE_BOUND - 1)
    )
    # In polars a NaN is above every number, and a comparison with null is null.
    sound = pl.col("value").is_between(0, most).fill_null(value=False)
    judged = samples.join(totals, on="gpu_uuid", how="left", maintain_order="left").with_columns(is_sound=sound)
    columns = samples.columns
    return judged.filter("is_sound").select(columns), judged.filter(~pl.col("is_sound")).select(columns)
