"""What polars does where numbers grow too large. The meter is written around each of these; an upgrade may move them.

All but the last are of polars alone. One that fails says that a rule the meter was built by has changed: look at what
sums and divides in `meter/rating/measuring.py` before the expectation is changed.
"""

import io
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from polars.exceptions import ComputeError, InvalidOperationError

from meter.rating import measuring

HALF = 2**62
LARGE = 2**100
Summed = Callable[[pl.DataFrame], pl.DataFrame]

in_each_engine = pytest.mark.parametrize(
    "summed",
    [
        pytest.param(lambda frame: frame.select(pl.col("value").sum()), id="select"),
        pytest.param(lambda frame: frame.group_by("key").agg(pl.col("value").sum()).select("value"), id="group_by"),
        pytest.param(
            lambda frame: (
                frame.lazy().group_by("key").agg(pl.col("value").sum()).collect(engine="streaming").select("value")
            ),
            id="streaming",
        ),
    ],
)


def _frame(values: list[int], dtype: type[pl.DataType]) -> pl.DataFrame:
    return pl.DataFrame({"key": [1] * len(values), "value": pl.Series(values, dtype=dtype)})


@in_each_engine
def test_a_sum_of_64_bits_wraps_in_silence(summed: Summed) -> None:
    assert summed(_frame([HALF, HALF, 1], pl.Int64)).item() == 1 - 2**63


def test_running_sums_and_products_of_64_bits_wrap_in_silence() -> None:
    frame = _frame([HALF, HALF], pl.Int64)
    assert frame.select(pl.col("value").cum_sum()).to_series().to_list() == [HALF, -(2**63)]
    assert frame.select(pl.col("value") * 4).to_series().to_list() == [0, 0]
    assert pl.Series([HALF, 4]).product() == 0


@pytest.mark.parametrize(
    ("dtype", "summed", "result"),
    [
        (pl.Int32, [2**31 - 1, 1], -(2**31)),
        (pl.UInt32, [2**32 - 1, 1], 0),
        (pl.Int16, [2**15 - 1] * 3, 3 * (2**15 - 1)),
        (pl.UInt8, [255] * 3, 765),
    ],
)
def test_a_sum_of_32_bits_wraps_and_one_of_less_is_widened(
    dtype: type[pl.DataType], summed: list[int], result: int
) -> None:
    assert pl.Series(summed, dtype=dtype).sum() == result


def test_a_literal_beyond_unsigned_64_bits_makes_null_of_64_bits() -> None:
    """From 2^63 up to there the column becomes one of 128 bits, which is exact."""
    frame = _frame([3], pl.Int64)
    assert frame.select(pl.col("value") * 2**63).to_series().to_list() == [3 * 2**63]
    assert frame.select(pl.col("value") * 2**64).to_series().to_list() == [None]
    assert frame.select(pl.col("value") + 2**64).to_series().to_list() == [None]


@in_each_engine
def test_a_sum_of_128_bits_is_exact(summed: Summed) -> None:
    found = summed(_frame([HALF, HALF, HALF, 1], pl.Int128))
    assert found.item() == 3 * HALF + 1
    assert found.schema["value"] == pl.Int128


def test_arithmetic_of_128_bits_is_exact_up_to_127() -> None:
    frame = _frame([LARGE, LARGE + 1, -3], pl.Int128)
    value = pl.col("value")
    found = frame.select(product=value * 5, quotient=value // 7, rest=value % 7, running=value.cum_sum())
    assert found["product"].to_list() == [5 * LARGE, 5 * LARGE + 5, -15]
    assert found["quotient"].to_list() == [LARGE // 7, LARGE // 7, -1]
    assert found["rest"].to_list() == [LARGE % 7, LARGE % 7 + 1, 4]
    assert found["running"].to_list() == [LARGE, 2 * LARGE + 1, 2 * LARGE - 2]
    assert pl.select(pl.lit(2**126, pl.Int128) * 2).item() == -(2**127)


def test_a_product_of_64_and_128_bits_is_one_of_128() -> None:
    """So it is enough that one of the two is."""
    found = _frame([HALF], pl.Int64).select(pl.col("value") * pl.lit(8).cast(pl.Int128))
    assert found.item() == 8 * HALF
    assert found.schema["value"] == pl.Int128


def test_frames_of_128_bits_are_sorted_joined_and_kept() -> None:
    frame = _frame([LARGE, LARGE + 1, -3], pl.Int128)
    kept = io.BytesIO()
    frame.write_parquet(kept)
    assert pl.read_parquet(kept.getvalue()).equals(frame)
    assert frame.sort("value")["value"].to_list() == [-3, LARGE, LARGE + 1]
    assert frame.join(frame, on="value").sort("value")["value"].to_list() == [-3, LARGE, LARGE + 1]
    assert list(frame.select("value").iter_rows()) == [(LARGE,), (LARGE + 1,), (-3,)]


def test_whole_numbers_of_any_size_below_127_bits_come_in_as_rows() -> None:
    frame = pl.DataFrame([(2**126,), (1,)], schema={"value": pl.Int128}, orient="row")
    assert frame["value"].to_list() == [2**126, 1]


def test_no_other_library_takes_128_bits() -> None:
    frame = _frame([LARGE], pl.Int128)
    with pytest.raises(Exception, match="_pli128"):
        frame.to_arrow()
    with pytest.raises(InvalidOperationError, match="NumPy"):
        frame["value"].to_numpy()


def test_128_bits_are_narrowed_checked_or_to_null() -> None:
    frame = _frame([2**63], pl.Int128)
    with pytest.raises(InvalidOperationError, match="conversion from `i128` to `i64` failed"):
        frame.select(pl.col("value").cast(pl.Int64))
    assert frame.select(pl.col("value").cast(pl.Int64, strict=False)).item() is None


def test_true_division_makes_floats() -> None:
    frame = _frame([LARGE], pl.Int128)
    assert frame.select(pl.col("value") / pl.col("value")).schema["value"] == pl.Float64


def test_products_and_quotients_of_decimals_are_rounded_row_by_row() -> None:
    """Half to even, at the larger scale: what is multiplied before it is summed is lost."""
    frame = pl.DataFrame(
        {"value": [Decimal("0.000000001"), Decimal("0.000000003")]}, schema={"value": pl.Decimal(38, 9)}
    )
    half, two = pl.lit(Decimal("0.5"), pl.Decimal(38, 1)), pl.lit(2, pl.Decimal(38, 0))
    for rounded in (pl.col("value") * half, pl.col("value") / two):
        assert frame.select(rounded).to_series().to_list() == [0, Decimal("0.000000002")]


def test_a_sum_of_decimals_that_is_too_large_fails_but_by_group_is_wrong() -> None:
    frame = pl.DataFrame(
        {"key": [1] * 5, "value": [Decimal("9" * 38)] * 5}, schema={"key": pl.Int64, "value": pl.Decimal(38, 0)}
    )
    with pytest.raises(ComputeError, match="overflow in decimal addition"):
        frame["value"].sum()
    by_group = frame.group_by("key").agg(pl.col("value").sum())
    assert by_group["value"].item() < 5 * Decimal("9" * 38)


def test_decimals_become_floats_in_silence() -> None:
    frame = pl.DataFrame({"value": [Decimal(1)]}, schema={"value": pl.Decimal(38, 0)})
    assert frame.select(pl.col("value") * pl.lit(0.5)).schema["value"] == pl.Float64
    assert frame.select(pl.col("value").mean()).schema["value"] == pl.Float64


@pytest.mark.filterwarnings("ignore:Sortedness of columns cannot be checked")
def test_a_join_to_the_nearest_is_wrong_without_an_error_where_rows_of_a_key_are_not_in_order() -> None:
    """Checked or not: under a key the order is not looked at. Without one it is."""
    asked = pl.DataFrame({"key": ["x"] * 3, "at": [1, 2, 3]})
    unordered = pl.DataFrame({"key": ["x"] * 3, "at": [3, 1, 2], "value": [30, 10, 20]})
    for is_checked in (True, False):
        found = asked.join_asof(unordered, on="at", by="key", check_sortedness=is_checked)
        assert found["value"].to_list() == [None, None, 20]
    assert asked.join_asof(unordered.sort("at"), on="at", by="key")["value"].to_list() == [10, 20, 30]
    with pytest.raises(InvalidOperationError, match="not sorted"):
        asked.join_asof(unordered, on="at")


def test_the_meter_has_no_join_to_the_nearest_and_claims_no_order() -> None:
    """Its joins are of equal keys, and what it needs in order it sorts."""
    folder = Path(measuring.__file__).parents[1]
    claims = re.compile(r"\bjoin_asof\b|\bset_sorted\b|\bmerge_sorted\b|\bjoin_where\b")
    assert [path.name for path in folder.rglob("*.py") if claims.search(path.read_text("utf-8"))] == []
