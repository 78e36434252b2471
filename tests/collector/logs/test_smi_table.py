"""The table that plain nvidia-smi prints, in a loop."""

from datetime import UTC, datetime
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest

from collector.logs.log import Log, RefusedRow
from domain.errors import InputError
from domain.series import GPU_BUSY, GPU_MEMORY_TOTAL, GPU_MEMORY_USED, GPU_POWER, GPU_TEMPERATURE
from domain.units import MIB
from tests.collector.logs.conftest import ReadLog

NOON = "Tue Oct 29 12:00:00 2024       "
NOON_US = int(datetime(2024, 10, 29, 12, tzinfo=UTC).timestamp()) * 10**6
HEADING = (
    "+-----------------------------------------------------------------------------------------+",
    "| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |",
    "|-----------------------------------------+------------------------+----------------------+",
    "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
    "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
    "|                                         |                        |               MIG M. |",
    "|=========================================+========================+======================|",
)
PROCESSES = (
    "+-----------------------------------------+------------------------+----------------------+",
    "                                                                                           ",
    "| Processes:                                                                              |",
    "|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |",
    "|=========================================================================================|",
    "|    0   N/A  N/A   3796615      C   python                                      11942MiB |",
    "+-----------------------------------------------------------------------------------------+",
)


def card(index: int, *, name: str = "NVIDIA L40S", busy: str = "93%", used: str = "11948MiB") -> tuple[str, ...]:
    return (
        f"|{index:4}  {name:<30}  On  |   00000000:4A:00.0 Off |                    0 |",
        f"| N/A   53C    P0            305W /  350W | {used:>10} /  46068MiB | {busy:>7}      Default |",
        "|                                         |                        |                  N/A |",
    )


def figures(log: Log) -> list[tuple[int, str | None, int]]:
    return [(row.line, row.card.index, (row.time_us - NOON_US) // 10**6) for row in log.rows]


def test_every_card_of_every_snapshot_is_a_reading(read_log: ReadLog) -> None:
    table = (*HEADING, *card(0), *card(1, busy="N/A"), *PROCESSES)
    log = read_log(NOON, *table, NOON.replace("12:00:00", "12:00:02"), *table)
    assert figures(log) == [(9, "0", 0), (12, "1", 0), (30, "0", 2), (33, "1", 2)]
    assert log.rows[0].card.model == "NVIDIA L40S"
    assert log.rows[0].values == {
        GPU_TEMPERATURE: 53,
        GPU_POWER: 305,
        GPU_MEMORY_USED: 11948 * MIB,
        GPU_MEMORY_TOTAL: 46068 * MIB,
        GPU_BUSY: Fraction(93, 100),
    }
    assert GPU_BUSY not in log.rows[1].values
    assert log.refused == ()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            "|   0  NVIDIA RTX A5000    On   | 00000000:01:00.0 Off |                  Off |",
            "| 30%   32C    P2    57W / 230W |   1158MiB / 24564MiB |      0%      Default |",
        ),
        (
            "|   0  NVIDIA GeForce RTX 3060 L...    Off| 00000000:01:00.0 Off |                  N/A |",
            "| N/A   61C    P0               22W /  N/A|   1158MiB /  6144MiB |      0%      Default |",
        ),
        (
            "|   0  NVIDIA GeForce RTX 2080 ...  WDDM  |   00000000:01:00.0  On |                  N/A |",
            "|  0%   43C    P8             25W /  320W |    1158MiB /  16376MiB |      0%      Default |",
        ),
    ],
)
def test_tables_of_older_drivers_and_windows_are_read(read_log: ReadLog, first: str, second: str) -> None:
    log = read_log(NOON, *HEADING, first, second)
    assert log.rows[0].values[GPU_MEMORY_USED] == 1158 * MIB
    assert log.rows[0].values[GPU_BUSY] == 0


def test_a_snapshot_without_a_card_is_one_refused_row_at_its_time(read_log: ReadLog) -> None:
    log = read_log(NOON, *HEADING, *card(0), NOON.replace("12:00:00", "12:00:01"))
    assert log.refused == (RefusedRow(12, "no card stands under this time"),)
    assert figures(log) == [(9, "0", 0)]


@pytest.mark.parametrize(
    ("lines", "refused"),
    [
        (card(1)[:1], [(12, "the line below it cannot be read")]),
        ((card(1)[0], card(1)[1][:50]), [(12, "the line below it cannot be read")]),
        (card(1, busy="120%"), [(12, "no card can have the ratio '120%'")]),
        (card(1, used="46069MiB"), [(12, "more memory is in use than the card has")]),
        ((card(1)[0], NOON), [(12, "the line below it cannot be read")]),
    ],
)
def test_a_card_that_cannot_be_read_is_refused_alone(
    read_log: ReadLog, lines: tuple[str, ...], refused: list[tuple[int, str]]
) -> None:
    log = read_log(NOON, *HEADING, *card(0), *lines)
    assert list(log.refused) == refused
    assert figures(log) == [(9, "0", 0)]


def test_a_figure_that_a_card_cannot_tell_is_missing(read_log: ReadLog) -> None:
    log = read_log(
        NOON, *HEADING, card(0)[0], "|ERR!  ERR! ERR!            N/A /  N/A  | N/A / N/A | ERR!      Default |"
    )
    assert (log.rows[0].values, log.refused) == ({}, ())


def test_mig_instances_stand_in_a_table_of_their_own_which_is_not_read(read_log: ReadLog) -> None:
    mig = (
        "| MIG devices:                                                                            |",
        "|==================+==================================+===========+=======================|",
        "|  0    2   0   0  |              26MiB / 40448MiB    | 60      0 |  3   0    3    0    3 |",
    )
    assert figures(read_log(NOON, *HEADING, *card(0), *mig)) == [(9, "0", 0)]


def test_its_times_are_local(read_log: ReadLog) -> None:
    log = read_log(NOON, *HEADING, *card(0), zone=ZoneInfo("Asia/Shanghai"))
    assert figures(log) == [(9, "0", -8 * 3_600)]


def test_a_time_that_the_zone_does_not_have_refuses_its_cards(read_log: ReadLog) -> None:
    gone = "Sun Mar 31 02:30:00 2024"
    log = read_log(NOON, *HEADING, *card(0), gone, *HEADING, *card(0), *card(1), zone=ZoneInfo("Europe/Berlin"))
    assert [row.line for row in log.refused] == [20, 23]
    assert "does not exist in Europe/Berlin" in log.refused[0].reason


def test_tables_without_a_time_are_asked_for_when_they_were_printed(read_log: ReadLog) -> None:
    table = (*HEADING, *card(0), *PROCESSES)
    with pytest.raises(InputError, match=r"no time stands above the table in line 2; .* --start, .* --step"):
        read_log(*table, *table)
    log = read_log(*table, *table, start_us=NOON_US, step_us=5 * 10**6)
    assert figures(log) == [(8, "0", 0), (25, "0", 5)]
    assert log.notes == ()


def test_options_that_were_not_needed_are_told(read_log: ReadLog) -> None:
    log = read_log(NOON, *HEADING, *card(0), start_us=0, step_us=1, gpus=2, columns=("memory.used",))
    assert len(log.notes) == 4
