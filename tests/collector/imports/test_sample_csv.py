"""A sample log is taken as it is meant or refused with the line and the value; nothing in between."""

from pathlib import Path

import pytest

from collector.imports.sample_csv import SampleFile
from collector.imports.sample_log import refuse_problems
from collector.imports.sample_rows import Identity, Row
from collector.imports.sample_seconds import Reading, Seconds, Steps
from domain.errors import InputError
from domain.series import (
    GPU_BUSY,
    GPU_ENERGY,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_UP,
    OWNER_MEMORY,
    Series,
)

HEADER = "time,node,gpu_uuid,gpu_busy_ratio,gpu_memory_used_bytes"
CARD = Identity("n1", "GPU-1", "", "")
SECOND_US = 1_000_000


def _file(tmp_path: Path, *lines: str, header: str = HEADER) -> SampleFile:
    path = tmp_path / "log.csv"
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return SampleFile(path)


def _rows(file: SampleFile) -> list[Row]:
    rows = list(file.rows(lambda _: None))
    refuse_problems(file)
    return rows


def test_columns_are_found_by_name_and_empty_cells_are_missing(tmp_path: Path) -> None:
    header = "gpu_memory_used_bytes,gpu_uuid,owner,time,node,mig_uuid,gpu_owner_memory_bytes"
    lines = ["7,GPU-1,,1700000000,n1,,", ",GPU-1,alloc:a,2023-11-14T22:13:20Z,n1,MIG-1,5", ",GPU-1,,1700000001,n1,,"]

    assert _rows(_file(tmp_path, *lines, header=header)) == [
        Row(2, 1_700_000_000 * SECOND_US, CARD, {GPU_MEMORY_USED: 7}),
        Row(3, 1_700_000_000 * SECOND_US, Identity("n1", "GPU-1", "MIG-1", "alloc:a"), {OWNER_MEMORY: 5}),
        Row(4, 1_700_000_001 * SECOND_US, CARD, {}),
    ]


@pytest.mark.parametrize(
    ("cell", "whole"),
    [
        ("21619802112", 21_619_802_112),
        ("21619802112.0", 21_619_802_112),
        ("21619802112.75", 21_619_802_112),
        ("21619802112.999999999999999", 21_619_802_112),
        ("2.1619802112e10", 21_619_802_112),
        ("0", 0),
    ],
)
def test_bytes_are_cut_to_whole_ones_exactly(tmp_path: Path, cell: str, whole: int) -> None:
    """Not rounded, and not by way of a float: what is stored must come back exact."""
    file = _file(tmp_path, f"1700000000,n1,GPU-1,,{cell}")

    (row,) = _rows(file)

    assert row.values == {GPU_MEMORY_USED: whole}
    assert type(row.values[GPU_MEMORY_USED]) is int
    assert file.cut_cells == (1 if cell.partition(".")[2].strip("0").isdigit() and "e" not in cell else 0)


@pytest.mark.parametrize(
    "cell", ["nan", "inf", "-inf", "-1", "1e999", "twelve", "1_000", "٣", "1,5", "0x10", "18446744073709551615", "N/A"]
)
@pytest.mark.parametrize("column", [3, 4])
def test_a_cell_that_is_no_reading_is_named_with_its_line(tmp_path: Path, cell: str, column: int) -> None:
    cells = ["1700000000", "n1", "GPU-1", "0.5", "7"]
    cells[column] = f'"{cell}"'

    with pytest.raises(InputError) as refused:
        _rows(_file(tmp_path, "1700000000,n1,GPU-1,0.5,7", ",".join(cells)))

    assert "line 3: " in str(refused.value)
    assert HEADER.split(",")[column] in str(refused.value)
    assert repr(cell) in str(refused.value)
    assert "Nothing was sent" in str(refused.value)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("2026-01-01T00:00:00,n1,GPU-1,0.5,7", "naive time '2026-01-01T00:00:00'"),
        ("yesterday,n1,GPU-1,0.5,7", "'yesterday'"),
        (",n1,GPU-1,0.5,7", "''"),
        ("-1,n1,GPU-1,0.5,7", "before 1970"),
        ("1700000000,n1,,0.5,7", "as a GPU UUID"),
        ("1700000000,,GPU-1,0.5,7", "as a node"),
        ("1700000000,n 1,GPU-1,0.5,7", "'n 1' as a node"),
        ("1700000000,n1,GPU-1,0.5", "4 cells, the header has 5"),
        ("1700000000,n1,GPU-1,0.5,7,8", "6 cells, the header has 5"),
        ("1700000000,n1,GPU-1,50,7", "no card can have it"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(tmp_path: Path, line: str, reason: str) -> None:
    with pytest.raises(InputError) as refused:
        _rows(_file(tmp_path, line))

    assert "line 2: " in str(refused.value)
    assert reason in str(refused.value)


def test_more_memory_in_use_than_there_is_is_refused(tmp_path: Path) -> None:
    header = "time,node,gpu_uuid,gpu_memory_total_bytes,gpu_memory_used_bytes"
    assert _rows(_file(tmp_path, "1,n1,GPU-1,8,8", header=header))[0].values == {
        GPU_MEMORY_TOTAL: 8,
        GPU_MEMORY_USED: 8,
    }
    with pytest.raises(InputError, match="'9': more than the card's 8"):
        _rows(_file(tmp_path, "1,n1,GPU-1,8,9", header=header))


def test_an_owners_row_has_the_owners_values_and_no_others(tmp_path: Path) -> None:
    header = "time,node,gpu_uuid,owner,gpu_busy_ratio,gpu_owner_memory_bytes"
    with pytest.raises(InputError) as refused:
        _rows(_file(tmp_path, "1,n1,GPU-1,,0.5,7", "1,n1,GPU-1,alloc:a,0.5,7", header=header))

    assert "line 2: gpu_owner_memory_bytes '7': an owner's value without an owner" in str(refused.value)
    assert "line 3: gpu_busy_ratio '0.5': a device's value with an owner" in str(refused.value)


def test_rows_of_a_device_come_in_the_order_of_time_but_devices_may_come_in_any(tmp_path: Path) -> None:
    assert len(_rows(_file(tmp_path, "5,n1,GPU-1,,7", "6,n1,GPU-1,,7", "5,n1,GPU-2,,7", "4,n2,GPU-1,,7"))) == 4
    with pytest.raises(InputError, match="line 4: time '5': before an earlier row of the device"):
        _rows(_file(tmp_path, "5,n1,GPU-1,,7", "6,n1,GPU-1,,7", "5,n1,GPU-1,,7"))


def test_twenty_problems_are_told_together_and_then_it_ends(tmp_path: Path) -> None:
    file = _file(tmp_path, *["1,n1,GPU-1,2.0,"] * 500)

    with pytest.raises(InputError) as refused:
        _rows(file)

    assert str(refused.value).count("gpu_busy_ratio '2.0'") == 20
    assert "and more" in str(refused.value)
    assert len(file.problems) < 30, "a broken file is not read to its end"


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("time,node,gpu_uuid,gpu_busy", "unknown column 'gpu_busy'"),
        ("time,node,gpu_uuid,gpu_info", "unknown column 'gpu_info'"),
        ("time,node,gpu_uuid,gpu_up,gpu_up", "column 'gpu_up' is there twice"),
        ("node,gpu_uuid,gpu_up", "column 'time' is missing"),
        ("time,gpu_uuid,gpu_up", "column 'node' is missing"),
        ("time,node,gpu_uuid", "no column of values"),
        ("", "column 'time' is missing"),
    ],
)
def test_a_header_that_cannot_be_used_is_told_whole(tmp_path: Path, header: str, reason: str) -> None:
    with pytest.raises(InputError) as refused:
        _rows(_file(tmp_path, header=header))

    assert reason in str(refused.value)
    assert "gpu_memory_used_bytes" in str(refused.value), "the remedy names the columns there are"


def test_a_file_that_is_not_there_or_not_text_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the samples"):
        _rows(SampleFile(tmp_path / "none.csv"))
    (tmp_path / "binary.csv").write_bytes(HEADER.encode() + b"\n\xff\xfe\x00")
    with pytest.raises(InputError, match="give a CSV in UTF-8"):
        _rows(SampleFile(tmp_path / "binary.csv"))


def test_a_byte_order_mark_and_empty_lines_are_no_matter(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"\xef\xbb\xbf" + HEADER.encode() + b"\r\n1,n1,GPU-1,0.5,7\r\n\r\n")

    assert len(_rows(SampleFile(path))) == 1


def _readings(*rows: tuple[float, dict[Series, int | float]]) -> tuple[list[Reading], Seconds]:
    seconds = Seconds()
    made = [Row(0, round(time_s * SECOND_US), CARD, values) for time_s, values in rows]
    return list(seconds.readings(made)), seconds


def test_several_rows_of_a_second_are_merged_by_what_they_measure() -> None:
    """The mean of ratios, the most memory, the last of counters; a card that was away for a part was not up."""
    found, seconds = _readings(
        (10.0, {GPU_BUSY: 0.2, GPU_MEMORY_USED: 9, GPU_ENERGY: 100.0, GPU_UP: 1, GPU_POWER: 10}),
        (10.3, {GPU_BUSY: 0.4, GPU_MEMORY_USED: 5, GPU_ENERGY: 101.0, GPU_UP: 0}),
        (10.9, {GPU_BUSY: 0.9, GPU_MEMORY_USED: 7, GPU_ENERGY: 102.0, GPU_UP: 1, GPU_POWER: 20}),
        (11.0, {GPU_BUSY: 0.1}),
    )

    merged = {GPU_BUSY: 0.5, GPU_MEMORY_USED: 9, GPU_ENERGY: 102.0, GPU_UP: 0, GPU_POWER: 15}
    assert [each[:3] for each in found] == [(CARD, 10, 11), (CARD, 11, None)]
    assert found[0].values == pytest.approx(merged)
    assert found[1].values == {GPU_BUSY: 0.1}
    assert seconds.merged == 2


def test_a_time_between_two_seconds_belongs_to_the_earlier_one() -> None:
    found, seconds = _readings((10.999, {GPU_UP: 1}), (12.5, {GPU_UP: 1}))

    assert [(each.second_s, each.next_s) for each in found] == [(10, 12), (12, None)]
    assert seconds.merged == 0


def test_the_step_is_the_median_of_the_device_with_its_owners() -> None:
    steps = Steps()
    owner = Identity("n1", "GPU-1", "", "alloc:a")
    for second_s, next_s in ((0, 10), (10, 20), (20, 500), (500, None)):
        steps.add(Reading(CARD, second_s, next_s, {}))
    steps.add(Reading(owner, 0, None, {}))

    assert steps.median_s(CARD) == 10
    assert steps.median_s(owner) == 10, "an owner that was there once stands for as long as its device's readings"
    assert steps.median_s(Identity("n1", "GPU-2", "", "")) == 1
