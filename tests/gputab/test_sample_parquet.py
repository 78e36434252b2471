"""Sample Parquet is taken as a sample CSV of the same cells is, or refused with the row and the value."""

import random
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.imports.sample_csv import SampleFile
from collector.imports.sample_log import refuse_problems
from collector.imports.sample_rows import Identity, Row
from domain.errors import InputError
from domain.series import GPU_BUSY, GPU_MEMORY_TOTAL, GPU_MEMORY_USED, GPU_UP, OWNER_MEMORY
from gputab.sample_parquet import ParquetSamples, is_parquet

START_S = 1_700_000_000
SECOND_US = 1_000_000
CARD = Identity("n1", "GPU-1", "", "")


def _write(folder: Path, columns: Mapping[str, Any] | pl.DataFrame, **options: Any) -> Path:
    path = folder / "samples.parquet"
    pl.DataFrame(columns).write_parquet(path, **options)
    return path


def _columns(count: int = 3, **others: Any) -> dict[str, Any]:
    """One card, second by second; `others` replace columns or stand beside them."""
    return {
        "time": [START_S + number for number in range(count)],
        "node": ["n1"] * count,
        "gpu_uuid": ["GPU-1"] * count,
        "gpu_busy_ratio": [0.5] * count,
        **others,
    }


def _rows(samples: ParquetSamples) -> list[Row]:
    rows = list(samples.rows(lambda _: None))
    refuse_problems(samples)
    return rows


def test_columns_are_found_by_name_and_nulls_are_missing(tmp_path: Path) -> None:
    path = _write(
        tmp_path,
        {
            "gpu_memory_used_bytes": [7, None, None],
            "owner": [None, "alloc:a", None],
            "gpu_uuid": ["GPU-1"] * 3,
            "time": [START_S, START_S, START_S + 1],
            "mig_uuid": pl.Series([None, None, None], dtype=pl.Null),
            "node": ["n1"] * 3,
            "gpu_owner_memory_bytes": [None, 5, None],
            "gpu_up": [True, None, False],
        },
    )

    assert _rows(ParquetSamples(path)) == [
        Row(1, START_S * SECOND_US, CARD, {GPU_MEMORY_USED: 7, GPU_UP: 1}, "row"),
        Row(2, START_S * SECOND_US, Identity("n1", "GPU-1", "", "alloc:a"), {OWNER_MEMORY: 5}, "row"),
        Row(3, (START_S + 1) * SECOND_US, CARD, {GPU_UP: 0}, "row"),
    ]


@pytest.mark.parametrize(
    "times",
    [
        pl.Series([START_S], dtype=pl.Int64),
        pl.Series([START_S], dtype=pl.UInt32),
        pl.Series([float(START_S)], dtype=pl.Float64),
        pl.Series([Decimal(START_S)], dtype=pl.Decimal(20, 6)),
        pl.Series([str(START_S)]),
        pl.Series(["2023-11-15T06:13:20+08:00"]),
        pl.Series([datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)]).cast(pl.Datetime("ms", "UTC")),
        pl.Series([datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)]).cast(pl.Datetime("ns", "UTC")),
        pl.Series([datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)]).cast(pl.Datetime("us", "Asia/Shanghai")),
    ],
    ids=lambda series: f"{series.dtype} {series[0]}",
)
def test_a_time_is_a_timestamp_a_number_or_text(tmp_path: Path, times: pl.Series) -> None:
    (row,) = _rows(ParquetSamples(_write(tmp_path, _columns(1, time=times))))

    assert row.time_us == START_S * SECOND_US


def test_a_timestamp_is_exact_and_cut_to_microseconds(tmp_path: Path) -> None:
    times = pl.Series([START_S * 10**9 + 250_001_999]).cast(pl.Datetime("ns", "UTC"))

    (row,) = _rows(ParquetSamples(_write(tmp_path, _columns(1, time=times))))

    assert row.time_us == START_S * SECOND_US + 250_001


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        (_columns(time=[datetime(2026, 1, 1)] * 3), "column 'time' has times without a zone: write them in UTC"),  # noqa: DTZ001
        (_columns(time=pl.Series([1.7e9] * 3, dtype=pl.Float32)), "column 'time' has too few digits for a time"),
        (_columns(time=[datetime(2026, 1, 1, tzinfo=UTC).date()] * 3), "column 'time' is of type Date: write numbers"),
        (_columns(gpu_busy_ratio=[[0.5]] * 3), "column 'gpu_busy_ratio' is of type List(Float64)"),
        (_columns(node=[1, 2, 3]), "column 'node' is of type Int64: write text"),
        (_columns(gpu_uuid=[b"GPU-1"] * 3), "column 'gpu_uuid' is of type Binary: write text"),
        (_columns(gpu_bussy_ratio=[1] * 3), "unknown column 'gpu_bussy_ratio'. Columns are time, node, gpu_uuid"),
        ({"time": [1], "gpu_busy_ratio": [1]}, "column 'node' is missing; column 'gpu_uuid' is missing"),
        ({"time": [1], "node": ["n1"], "gpu_uuid": ["GPU-1"]}, "no column of values"),
    ],
)
def test_columns_that_cannot_be_used_are_named(tmp_path: Path, columns: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError) as refused:
        ParquetSamples(_write(tmp_path, columns))

    assert reason in str(refused.value)
    assert str(tmp_path) in str(refused.value)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        (_columns(time=[START_S, None, START_S]), "row 2: cannot read ''"),
        (_columns(time=[START_S, -1, START_S]), "row 2: cannot use the time '-1': it is before 1970"),
        (_columns(time=[START_S, START_S * 1_000, START_S]), "outside the years 1 to 9999; epoch times are in seconds"),
        (_columns(time=[START_S, START_S - 1, START_S]), "row 2: time '1699999999': before an earlier row of the"),
        (_columns(gpu_busy_ratio=[0.5, 1.5, 0.5]), "row 2: gpu_busy_ratio '1.5': no card can have it"),
        (_columns(gpu_busy_ratio=[0.5, float("nan"), 0.5]), "row 2: gpu_busy_ratio 'NaN': no card can have it"),
        (_columns(gpu_busy_ratio=["0.5", "N/A", "0.5"]), "row 2: gpu_busy_ratio 'N/A': not a number"),
        (_columns(node=["n1", None, "n1"]), "row 2: cannot use '' as a node"),
        (_columns(gpu_memory_used_bytes=[1, 2**63, 1]), "row 2: gpu_memory_used_bytes '9223372036854775808': no card"),
        (_columns(gpu_memory_used_bytes=[1, 9, 1], gpu_memory_total_bytes=[8] * 3), "row 2: .*'9': more than the"),
        (_columns(gpu_owner_memory_bytes=[None, 5, None]), "row 2: .*'5': an owner's value without an owner"),
    ],
)
def test_a_cell_that_is_no_reading_is_named_with_its_row(tmp_path: Path, columns: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason) as refused:
        _rows(ParquetSamples(_write(tmp_path, columns)))

    assert "Nothing was sent" in str(refused.value)


def test_bytes_with_a_fraction_are_cut_and_counted_anew_each_time(tmp_path: Path) -> None:
    """Not rounded, and in the same words as of a CSV."""
    path = _write(tmp_path, _columns(2, gpu_memory_used_bytes=[21_619_802_112.75, 7.0]))
    samples = ParquetSamples(path)

    for _ in range(2):
        assert [row.values[GPU_MEMORY_USED] for row in _rows(samples)] == [21_619_802_112, 7]
        assert samples.cut_cells == 1


def test_after_20_problems_reading_ends(tmp_path: Path) -> None:
    samples = ParquetSamples(_write(tmp_path, _columns(100, gpu_busy_ratio=[2.0] * 100), row_group_size=7))

    assert list(samples.rows(lambda _: None)) == []
    assert len(samples.problems) == 21


def test_rows_are_numbered_through_and_progress_is_told_in_them(tmp_path: Path) -> None:
    """Whatever row groups the file has."""
    told: list[int] = []
    samples = ParquetSamples(_write(tmp_path, _columns(50_000), row_group_size=999))

    assert [row.line for row in samples.rows(told.append)] == list(range(1, 50_001))
    assert sum(told) == len(samples) == 50_000
    assert len(told) > 1


def test_a_file_that_is_written_to_has_changed(tmp_path: Path) -> None:
    path = _write(tmp_path, _columns())
    samples = ParquetSamples(path)
    _rows(samples)
    assert not samples.is_changed()

    _write(tmp_path, _columns(4))

    assert samples.is_changed()


def test_a_name_with_the_signs_of_a_pattern_is_a_name(tmp_path: Path) -> None:
    folder = tmp_path / "node=n9"
    folder.mkdir()
    path = _write(folder, _columns(1)).rename(folder / "a*[1].parquet")

    assert _rows(ParquetSamples(path))[0].identity.node == "n1", "the folder's name is no column"


def test_what_a_file_is_is_told_by_its_content(tmp_path: Path) -> None:
    parquet = _write(tmp_path, _columns(1)).rename(tmp_path / "samples.csv")
    text = tmp_path / "text.parquet"
    text.write_text("time,node\n", "utf-8")

    assert is_parquet(parquet)
    assert not any(is_parquet(path) for path in (text, tmp_path, tmp_path / "none", Path("a\0b")))


def test_a_damaged_file_is_refused_in_one_line(tmp_path: Path) -> None:
    """Cut anywhere, or with bytes that changed: an error with the remedy, or rows; nothing else."""
    whole = _write(tmp_path, _columns(200, node=pl.Series(["n1"] * 200)), row_group_size=60).read_bytes()
    path = tmp_path / "damaged.parquet"
    refused: list[str] = []
    for seed in range(60):
        chance = random.Random(seed)
        damaged = bytearray(whole[: chance.randrange(4, len(whole))] if seed % 2 else whole)
        for _ in range(0 if seed % 2 else 8):
            damaged[chance.randrange(len(whole) - 200, len(whole))] = chance.randrange(256)
        path.write_bytes(damaged)
        try:
            list(ParquetSamples(path).rows(lambda _: None))
        except InputError as error:
            refused.append(str(error))
    assert len(refused) > 30
    assert not [each for each in refused if "\n" in each or str(path) not in each]


CELLS = st.fixed_dictionaries(
    {
        "owner": st.none(),
        "gpu_busy_ratio": st.none() | st.floats(-0.1, 1.1) | st.floats(),
        "gpu_memory_used_bytes": st.none() | st.integers(-1, 2**45),
        "gpu_memory_total_bytes": st.none() | st.integers(0, 2**45),
    }
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=settings().max_examples * 50 // 100)
@given(st.lists(CELLS, min_size=1, max_size=30))
def test_it_is_what_a_csv_of_the_same_cells_is(tmp_path: Path, cells: list[dict[str, Any]]) -> None:
    """The same rows, and the same words for what is wrong: only what is counted differs."""
    values = {name: [row[name] for row in cells] for name in cells[0]}
    frame = pl.DataFrame(_columns(len(cells), **values), schema_overrides={"gpu_busy_ratio": pl.Float64}, strict=False)
    frame.write_csv(tmp_path / "samples.csv")
    csv, parquet = SampleFile(tmp_path / "samples.csv"), ParquetSamples(_write(tmp_path, frame))

    rows, of_parquet = (list(log.rows(lambda _: None)) for log in (csv, parquet))

    assert [row._replace(line=row.line - 1, counted="row") for row in rows] == of_parquet
    assert [problem.partition(": ")[2] for problem in csv.problems] == [
        problem.partition(": ")[2] for problem in parquet.problems
    ]
    assert csv.cut_cells == parquet.cut_cells
    assert {series for row in rows for series in row.values} <= {GPU_BUSY, GPU_MEMORY_USED, GPU_MEMORY_TOTAL}
