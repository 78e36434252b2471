"""Columns of `nvidia-smi dmon`: what one is is what the header above it says, whatever the driver."""

from fractions import Fraction

import pytest

from collector.logs.log import LogCard
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
    GPU_POWER,
    GPU_SM_ACTIVE,
    GPU_SM_CLOCK,
    GPU_SM_OCCUPANCY,
    GPU_TEMPERATURE,
    GPU_TENSOR_ACTIVE,
)
from domain.units import MIB
from tests.collector.logs.conftest import ReadLog
from tests.collector.logs.monitor_logs import EVERYTHING, ROW, SAID, SECOND_US, START_US, rows, told

NOON_US = 1_786_872_154 * SECOND_US


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
