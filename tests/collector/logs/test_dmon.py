"""Logs of `nvidia-smi dmon`: what a column is is what the header above it says, whatever the driver."""

from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.logs.cells import UNITS as UNITS_OF_SERIES
from collector.logs.log import Log, LogCard, LogOptions, RefusedRow
from collector.logs.open_log import open_log
from domain.errors import InputError
from domain.series import (
    GPU_BUSY,
    GPU_DECODER_BUSY,
    GPU_DRAM_ACTIVE,
    GPU_ENCODER_BUSY,
    GPU_GR_ACTIVE,
    GPU_JPEG_BUSY,
    GPU_MEMORY_BUSY,
    GPU_MEMORY_CLOCK,
    GPU_MEMORY_TEMPERATURE,
    GPU_MEMORY_USED,
    GPU_OFA_BUSY,
    GPU_POWER,
    GPU_SM_ACTIVE,
    GPU_SM_CLOCK,
    GPU_SM_OCCUPANCY,
    GPU_TEMPERATURE,
    GPU_TENSOR_ACTIVE,
    Series,
)
from domain.units import MIB
from tests.collector.logs.conftest import ReadLog
from tests.collector.logs.monitor_logs import REAL_DMON, UNITS, header, rows

START_US = 1_790_000_000_000_000
SECOND_US = 1_000_000
SAID = {"start_us": START_US, "step_us": SECOND_US}
EVERYTHING = (
    *("date", "time", "gpu", "pwr", "gtemp", "mtemp", "sm", "mem", "enc", "dec", "jpg", "ofa", "mclk", "pclk"),
    *("pviol", "tviol", "fb", "bar1", "ccpm", "sbecc", "dbecc", "pci", "rxpci", "txpci"),
)
ROW = (20260816, "09:22:34", 0, 298, 61, 70, 91, 40, 7, 0, 0, "-", 10501, 2520, 3, 0, 5120, 12, 0, 4, 0, 0, 120, 80)
NOON_US = 1_786_872_154 * SECOND_US


def told(log: Log) -> list[tuple[int, int, Mapping[Series, int | Fraction]]]:
    """The line of each row, its second after the start, and its values."""
    return [(row.line, (row.time_us - START_US) // SECOND_US, row.values) for row in log.rows]


def test_all_sections_of_a_row_are_read_and_what_no_series_is_made_of_is_not(read_log: ReadLog) -> None:
    """`-s pucvmet -o DT`: throttling, BAR1, errors and the PCIe throughput of a moment have no series."""
    log = read_log(*rows(EVERYTHING, [ROW]))

    (row,) = log.rows
    assert (row.line, row.time_us, row.card) == (3, NOON_US, LogCard("0"))
    assert row.values == {
        GPU_POWER: 298,
        GPU_TEMPERATURE: 61,
        GPU_MEMORY_TEMPERATURE: 70,
        GPU_BUSY: Fraction(91, 100),
        GPU_MEMORY_BUSY: Fraction(40, 100),
        GPU_ENCODER_BUSY: Fraction(7, 100),
        GPU_DECODER_BUSY: 0,
        GPU_JPEG_BUSY: 0,
        GPU_MEMORY_CLOCK: 10_501_000_000,
        GPU_SM_CLOCK: 2_520_000_000,
        GPU_MEMORY_USED: 5_120 * MIB,
    }
    assert (log.refused, log.notes) == ((), ())


def test_a_dash_is_missing_and_not_0(read_log: ReadLog) -> None:
    """M1: a card in MIG mode cannot tell how busy it is, whatever it draws."""
    log = read_log(*rows(("gpu", "pwr", "sm", "mem", "ofa"), [(0, 438, "-", "-", "N/A")]), **SAID)

    assert told(log) == [(3, 0, {GPU_POWER: 438})]


def test_columns_of_another_driver_are_read_by_name_and_unknown_ones_are_not(read_log: ReadLog) -> None:
    """L12: the order changes, `gtemp` was `temp`, and a column that nobody knows here is missing, not 0."""
    lines = ["# gpu  sm  fan   temp  pwr", "# Idx   %    %      C    W", "  0  50  33  61  98"]

    assert told(read_log(*lines, **SAID)) == [
        (3, 0, {GPU_BUSY: Fraction(1, 2), GPU_TEMPERATURE: 61, GPU_POWER: 98}),
    ]


def test_a_column_in_a_unit_of_another_kind_is_not_read_which_is_told(read_log: ReadLog) -> None:
    """L12: an unknown layout is missing, not 0."""
    lines = ["# gpu  sm  fb", "# Idx   %  pages", "  0  50  4096", "# gpu  sm  fb", "# Idx   %  MB", "  0  50  4096"]

    log = read_log(*lines, **SAID)

    assert [row.values.get(GPU_MEMORY_USED) for row in log.rows] == [None, 4_096 * MIB]
    assert log.notes == ("its column 'fb' is in 'pages', which is no bytes: it was not read",)


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


def test_mig_instances_have_what_is_theirs_and_the_card_the_rest(read_log: ReadLog) -> None:
    """M1: what the card says of its own use beside instances is 0 under full load. M6: a GPU instance counts once."""
    names = ("gpu", "mig_id", "gi_id", "ci_id", "pwr", "sm", "mem", "gract", "smutil", "smocc", "mmaact", "dram")
    log = read_log(
        *rows(
            names,
            [
                (0, "-", "-", "-", 438, 0, 0, 60, 50, 40, 30, 20),
                (0, 0, 2, 0, 438, 0, 0, 99, 97, 26, 13, 5),
                (0, 1, 2, 1, 438, 0, 0, 99, 97, 26, 13, 5),
                (1, "-", "-", "-", 70, 3, 1, "-", "-", "-", "-", "-"),
            ],
        ),
        **SAID,
    )

    assert [(row.card, row.values) for row in log.rows[:2]] == [
        (
            LogCard("0"),
            {
                GPU_POWER: 438,
                GPU_GR_ACTIVE: Fraction(60, 100),
                GPU_SM_ACTIVE: Fraction(50, 100),
                GPU_SM_OCCUPANCY: Fraction(40, 100),
                GPU_TENSOR_ACTIVE: Fraction(30, 100),
                GPU_DRAM_ACTIVE: Fraction(20, 100),
            },
        ),
        (
            LogCard("0", mig_uuid="MIG-0/2/0"),
            {
                GPU_GR_ACTIVE: Fraction(99, 100),
                GPU_SM_ACTIVE: Fraction(97, 100),
                GPU_SM_OCCUPANCY: Fraction(26, 100),
                GPU_TENSOR_ACTIVE: Fraction(13, 100),
                GPU_DRAM_ACTIVE: Fraction(5, 100),
            },
        ),
    ]
    assert log.rows[2].card == log.rows[1].card
    assert log.rows[3].values == {GPU_POWER: 70, GPU_BUSY: Fraction(3, 100), GPU_MEMORY_BUSY: Fraction(1, 100)}
    assert {row.time_us for row in log.rows} == {START_US}


@pytest.mark.parametrize(
    ("names", "units", "row", "reason"),
    [
        ("gpu mig_id smutil", "Idx Idx %", "0 1 5", "it is of a MIG instance, and 'gi_id' does not tell which"),
        ("gpu gi_id smutil", "Idx Idx %", "0 1000 5", "it is of a MIG instance, and 'gi_id' does not tell which"),
        ("gpu vgpu smutil", "Idx Id %", "0 3251634249 5", "it is of a part of the card by its column 'vgpu'"),
    ],
)
def test_a_row_of_a_part_without_a_name_is_not_the_cards(
    read_log: ReadLog, names: str, units: str, row: str, reason: str
) -> None:
    """M8, L12: it is refused, and not taken for the whole card."""
    log = read_log(f"# {names}", f"# {units}", row, "1 - 7", **SAID)

    (refused,) = log.refused
    assert refused.line == 3
    assert refused.reason.startswith(reason)
    assert [row.card for row in log.rows] == [LogCard("1")]


def test_options_that_were_not_needed_are_told(read_log: ReadLog) -> None:
    log = read_log(*rows(EVERYTHING, [ROW]), gpus=2, columns=("gpu", "sm"), **SAID)

    assert log.notes == (
        "--start was not needed: its times are dates",
        "--step was not needed: its rows have times",
        "--gpus was not needed: it names its cards",
        "--columns counted for rows above its first header only",
    )


SERIES = {
    "pwr": (GPU_POWER, 5_000),
    "gtemp": (GPU_TEMPERATURE, 150),
    "mtemp": (GPU_MEMORY_TEMPERATURE, 150),
    "sm": (GPU_BUSY, 100),
    "mem": (GPU_MEMORY_BUSY, 100),
    "enc": (GPU_ENCODER_BUSY, 100),
    "dec": (GPU_DECODER_BUSY, 100),
    "jpg": (GPU_JPEG_BUSY, 100),
    "ofa": (GPU_OFA_BUSY, 100),
    "mclk": (GPU_MEMORY_CLOCK, 20_000),
    "pclk": (GPU_SM_CLOCK, 20_000),
    "fb": (GPU_MEMORY_USED, 1_000_000),
    "pviol": (None, 100),
    "rxpci": (None, 100_000),
}


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[str], list[dict[str, int | str]]]:
    """Some columns in some order, and what each card says of them in each snapshot."""
    names = draw(st.lists(st.sampled_from(sorted(SERIES)), min_size=1, unique=True))
    cards = draw(st.integers(1, 4))
    snapshots = draw(st.integers(1, 5))
    found: list[dict[str, int | str]] = []
    for _ in range(snapshots):
        for index in range(cards):
            cells = {name: draw(st.one_of(st.just("-"), st.integers(0, SERIES[name][1]))) for name in names}
            found.append({"gpu": index, **cells})
    return ["gpu", *names], found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(logs(), st.integers(1, 9), st.booleans())
def test_what_is_written_is_what_is_read(
    read_log: ReadLog, log: tuple[list[str], list[dict[str, int | str]]], beat: int, is_csv: bool
) -> None:
    """Whatever the columns, their order, the dress, and how often the header comes again."""
    names, cells = log
    lines: list[str] = []
    for number, row in enumerate(cells):
        lines += rows(names, [list(row.values())])[0 if number % beat == 0 else 2 :]
    if is_csv:
        lines = [", ".join(line.split()).replace("#, ", "# ") for line in lines]

    found = read_log(*lines, **SAID)

    assert found.refused == ()
    highest = max(int(row["gpu"]) for row in cells)
    for number, (row, read) in enumerate(zip(cells, found.rows, strict=True)):
        assert read.card == LogCard(str(row["gpu"]))
        assert read.time_us == START_US + number // (highest + 1) * SECOND_US
        assert read.values == {
            series: value * UNITS_OF_SERIES[series][UNITS[name].lower()]
            for name, value in row.items()
            if name in SERIES and (series := SERIES[name][0]) is not None and isinstance(value, int)
        }


@pytest.mark.skipif(not REAL_DMON, reason="shared data is not beside the checkout")
@pytest.mark.parametrize("name", sorted(REAL_DMON))
def test_a_real_log_is_read_whole(name: str) -> None:
    """Drivers 590 to 610 and one of unknown age, idle and under load: each cell is where its header says."""
    path = REAL_DMON[name]
    with pytest.raises(InputError, match=r"it has no times; say when it began with --start, .* with --step"):
        open_log(path, LogOptions())

    log = open_log(path, LogOptions(start_us=START_US, step_us=SECOND_US))

    written = [line.split() for line in path.read_text("utf-8").splitlines() if line.strip()]
    columns = written[0][1:]
    cells = [dict(zip(columns, row, strict=True)) for row in written if row[0] != "#"]
    assert (log.refused, log.notes) == ((), ())
    assert [row.time_us for row in log.rows] == [START_US + number * SECOND_US for number in range(len(cells))]
    for row, cell in zip(log.rows, cells, strict=True):
        assert row.values.get(GPU_POWER) == int(cell["pwr"])
        assert row.values.get(GPU_BUSY) == (None if cell["sm"] == "-" else Fraction(int(cell["sm"]), 100))
        assert row.values.get(GPU_MEMORY_TEMPERATURE) == (None if cell["mtemp"] == "-" else int(cell["mtemp"]))
        assert row.values.get(GPU_SM_CLOCK) == int(cell["pclk"]) * 10**6
        told = sum(cell[each] != "-" for each in columns[1:])
        assert len(row.values) == told
