"""Rows of `nvidia-smi dmon` below their headers: in any dress, and refused alone where one cannot be read."""

from fractions import Fraction

import pytest

from collector.logs.log import RefusedRow
from domain.errors import InputError
from domain.series import GPU_BUSY, GPU_MEMORY_USED, GPU_POWER
from domain.units import MIB
from tests.collector.logs.conftest import ReadLog
from tests.collector.logs.monitor_logs import EVERYTHING, ROW, SAID, header, rows, told


@pytest.mark.parametrize("dress", ["csv", "csv,nounit", "csv,noheader", "csv,noheader,nounit", "nounit", "noheader"])
def test_every_dress_is_read_alike(read_log: ReadLog, dress: str) -> None:
    """What `noheader` leaves out is named with --columns."""
    lines = rows(EVERYTHING, [ROW, (*ROW[:2], 1, *ROW[3:])])
    if "csv" in dress:
        lines = [", ".join(line.replace("#", "# ").split()).replace("#, ", "#") for line in lines]
    kept = [
        line
        for number, line in enumerate(lines)
        if (number != 0 or "noheader" not in dress) and (number != 1 or "nounit" not in dress)
    ]
    columns = {"columns": EVERYTHING} if "noheader" in dress else {}

    log = read_log(*kept, **columns)

    plain = read_log(*rows(EVERYTHING, [ROW, (*ROW[:2], 1, *ROW[3:])]))
    assert [(row.time_us, row.card, row.values) for row in log.rows] == [
        (row.time_us, row.card, row.values) for row in plain.rows
    ]
    assert log.refused == ()


def test_rows_without_a_header_are_asked_for_their_columns(read_log: ReadLog) -> None:
    for lines in (rows(("gpu", "pwr", "sm"), [(0, 98, "-"), (0, 99, 5)])[2:], ["0, 98, -", "0, 99, 5"]):
        with pytest.raises(InputError, match=r"it has no header; name its columns .* --columns gpu,pwr,gtemp"):
            read_log(*lines, **SAID)
        assert [row.values[GPU_POWER] for row in read_log(*lines, columns=("gpu", "pwr", "-"), **SAID).rows] == [98, 99]


def test_headers_come_again_and_may_name_other_columns_then(read_log: ReadLog) -> None:
    log = read_log(
        *rows(("gpu", "pwr", "sm"), [(0, 98, 5)]),
        *rows(("gpu", "pwr", "sm"), [(0, 99, 6)]),
        *rows(("gpu", "fb", "pwr"), [(0, 300, 97)]),
        **SAID,
    )

    assert told(log) == [
        (3, 0, {GPU_POWER: 98, GPU_BUSY: Fraction(5, 100)}),
        (6, 1, {GPU_POWER: 99, GPU_BUSY: Fraction(6, 100)}),
        (9, 2, {GPU_POWER: 97, GPU_MEMORY_USED: 300 * MIB}),
    ]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("0 98", "it has 2 cells of 3"),
        ("0 98 5 7", "it has 4 cells where 3 are expected"),
        ("0 98 808334905", "no card can have the ratio '808334905' in 'sm'"),
        ("0 98 4294967295", "no card can have the ratio '4294967295' in 'sm'"),
        ("0 9223372036854775794 5", "cannot read '9223372036854775794' as watts in 'pwr'"),
        ("0 98 101", "no card can have the ratio '101' in 'sm'"),
        ("0 98 five", "cannot read 'five' as ratio in 'sm'"),
        ("0 98 -1", "no card can have the ratio '-1' in 'sm'"),
        ("x 98 5", "cannot read 'x' as the index of a card"),
        ("- 98 5", "cannot read '-' as the index of a card"),
        ("\0\0\0", "it has 1 cells of 3"),
    ],
)
def test_a_row_that_cannot_be_read_is_refused_alone(read_log: ReadLog, row: str, reason: str) -> None:
    """R1, R2: a sentinel is refused, not clamped; the rows around it stand, at their times."""
    log = read_log(*rows(("gpu", "pwr", "sm"), [(0, 98, 5)]), row, "0 99 6", **SAID)

    assert log.refused == (RefusedRow(4, reason),)
    assert [values[GPU_POWER] for _, _, values in told(log)] == [98, 99]


def test_a_refused_row_has_its_place_in_time(read_log: ReadLog) -> None:
    log = read_log(*rows(("gpu", "pwr", "sm"), [(0, 98, 5), (0, 98, 101), (0, 99, 6)]), **SAID)

    assert [second for _, second, _ in told(log)] == [0, 2]


def test_rows_above_the_header_and_below_a_cut_one_are_refused(read_log: ReadLog) -> None:
    names, units = header(("gpu", "pwr", "sm"))
    log = read_log("0 97 4", names, units, "0 98 5", names[:-4], units, "0 99 6", names, units, "0 99 7", **SAID)

    assert log.refused == (
        RefusedRow(1, "it stands above the header"),
        RefusedRow(7, "the header above it is cut"),
    )
    assert [row.line for row in log.rows] == [4, 10]


def test_comments_and_blank_lines_are_no_rows(read_log: ReadLog) -> None:
    log = read_log("# host gpu-7: dmon", "", *rows(("gpu", "pwr", "sm"), [(0, 98, 5)]), "# an idx, and words", **SAID)

    assert ([row.line for row in log.rows], log.refused) == ([5], ())


def test_a_log_of_utf_16_is_read(read_log: ReadLog) -> None:
    text = "\r\n".join(rows(("gpu", "pwr", "sm"), [(0, 98, 5)]))

    assert len(read_log(content=text.encode("utf-16"), **SAID).rows) == 1


def test_options_that_were_not_needed_are_told(read_log: ReadLog) -> None:
    log = read_log(*rows(EVERYTHING, [ROW]), gpus=2, columns=("gpu", "sm"), **SAID)

    assert log.notes == (
        "--start was not needed: its times are dates",
        "--step was not needed: its rows have times",
        "--gpus was not needed: it names its cards",
        "--columns counted for rows above its first header only",
    )
