"""Logs of `nvidia-smi pmon`: that a card answered, and nothing that only a guess could make of its processes."""

import pytest

from collector.logs.log import LogCard, LogOptions, RefusedRow
from collector.logs.open_log import open_log
from domain.errors import InputError
from domain.series import GPU_UP
from tests.collector.logs.conftest import ReadLog
from tests.collector.logs.monitor_logs import REAL_PMON, SAID, SECOND_US, START_US, rows

NAMES = ("gpu", "pid", "type", "sm", "mem", "enc", "dec", "jpg", "ofa", "fb", "ccpm", "command")
DATED = ("date", "time", *NAMES)
NOON = (20260816, "12:00:00")
NOON_US = 1_786_881_600 * SECOND_US
NOBODY = ("-",) * 11


def process(pid: int, sm: object = 5, fb: object = 300, command: str = "python") -> tuple[object, ...]:
    return (pid, "C", sm, 1, "-", "-", "-", "-", fb, 0, command)


def test_processes_say_that_their_card_was_up_and_no_more(read_log: ReadLog) -> None:
    """A2, A3: shares that sum to 260 and a process that ended seconds ago are no use of the card; nor is fb."""
    cells = [(*NOON, 0, *process(pid, sm)) for pid, sm in ((11, 99), (12, 80), (13, 81))]
    cells += [(*NOON, 1, *process(14, 100))]

    log = read_log(*rows(DATED, cells))

    assert [(row.line, row.time_us, row.card, row.values) for row in log.rows] == [
        (3, NOON_US, LogCard("0"), {GPU_UP: 1}),
        (6, NOON_US, LogCard("1"), {GPU_UP: 1}),
    ]
    assert log.refused == ()
    (note,) = log.notes
    assert note == (
        "4 rows of 4 processes say only that their card answered: what processes use is not what the card uses, and a "
        "PID proves no owner"
    )


def test_a_card_without_a_process_says_nothing(read_log: ReadLog) -> None:
    """L1: "-" is also what it prints of a card that fails to answer, so it does not make it up."""
    log = read_log(*rows(DATED, [(*NOON, 0, *NOBODY), (*NOON, 1, *process(14))]))

    assert [(row.card.index, row.values) for row in log.rows] == [("0", {}), ("1", {GPU_UP: 1})]
    assert log.notes[1] == (
        "1 times a card had no process, which may be that it failed to answer: nothing is known then"
    )


def test_what_a_process_is_called_may_have_blanks(read_log: ReadLog) -> None:
    cells = [(*NOON, 0, *process(14, command="[Not Found] - 3")), (*NOON, 1, *process(15, command="a, b"))]

    assert read_log(*rows(DATED, cells)).refused == ()
    csv = [", ".join(str(cell) for cell in row) for row in cells]
    log = read_log(f"#{', '.join(DATED)}", *csv)
    assert ([row.card.index for row in log.rows], log.refused) == (["0", "1"], ())


def test_snapshots_without_times_end_where_a_process_comes_again_or_the_index_falls(read_log: ReadLog) -> None:
    cells = [
        *((0, *process(11)), (0, *process(12)), (1, *NOBODY)),
        *((0, *process(11)), (0, *process(13)), (1, *process(20))),
        *((0, *NOBODY), (1, *process(20))),
        *((1, *process(20)),),
    ]

    log = read_log(*rows(NAMES, cells), **SAID)

    assert [(row.card.index, (row.time_us - START_US) // SECOND_US, bool(row.values)) for row in log.rows] == [
        *(("0", 0, True), ("1", 0, False), ("0", 1, True), ("1", 1, True), ("0", 2, False), ("1", 2, True)),
        ("1", 3, True),
    ]
    assert log.notes[-1].startswith("its snapshots were told apart where a process, or a card without one, came again")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("0 14 C 808334905 1 - - - - 300 0 python", "no card can have the ratio '808334905' in 'sm'"),
        ("0 14 C 5 1 - - - - 17592186044415 0 python", "no card can have the bytes '17592186044415' in 'fb'"),
        ("0 x C 5 1 - - - - 300 0 python", "cannot read 'x' as a PID"),
        ("0 14 C 5 1 -", "it has 6 cells of 12"),
        ("x 14 C 5 1 - - - - 300 0 python", "cannot read 'x' as the index of a card"),
    ],
)
def test_a_row_that_cannot_be_read_is_refused_alone(read_log: ReadLog, row: str, reason: str) -> None:
    """R1, A5: 2^64-1 bytes as MiB and an impossible share are no process."""
    log = read_log(*rows(NAMES, [(1, *process(11))]), row, **SAID)

    assert log.refused == (RefusedRow(4, reason),)
    assert [row.card.index for row in log.rows] == ["1"]


@pytest.mark.skipif(not REAL_PMON, reason="shared data is not beside the checkout")
@pytest.mark.parametrize("name", sorted(REAL_PMON))
def test_a_real_log_is_read_whole(name: str) -> None:
    path = REAL_PMON[name]
    with pytest.raises(InputError, match=r"it has no times; say when it began with --start"):
        open_log(path, LogOptions())

    log = open_log(path, LogOptions(start_us=START_US, step_us=SECOND_US))

    written = [line.split() for line in path.read_text("utf-8").splitlines() if line.strip()]
    cells = [row for row in written if row[0] != "#"]
    again = sum(row[:2] == cells[0][:2] for row in cells)
    has_processes = cells[0][1] != "-"
    assert log.refused == ()
    assert [(row.card, row.time_us) for row in log.rows] == [
        (LogCard("0"), START_US + number * SECOND_US) for number in range(again)
    ]
    assert all(row.values == ({GPU_UP: 1} if has_processes else {}) for row in log.rows)
    assert (f"{len(cells):,} rows of" in log.notes[0]) is has_processes
