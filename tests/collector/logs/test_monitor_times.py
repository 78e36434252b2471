"""When the rows of dmon and pmon were read, whichever of day and time of day they have."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.logs.log import Log
from collector.logs.monitor_times import snapshots
from domain.errors import InputError
from tests.collector.logs.conftest import ReadLog
from tests.collector.logs.monitor_logs import SECOND_US, rows


def at(text: str) -> int:
    """Microseconds of an ISO time in UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND_US


def times(log: Log) -> list[int]:
    return [row.time_us for row in log.rows]


def test_days_and_times_of_day_are_local(read_log: ReadLog) -> None:
    lines = rows(("date", "time", "gpu", "pwr"), [(20240116, "14:44:16", 0, 9), ("2024/01/16", "14:44:17", 0, 9)])

    assert times(read_log(*lines)) == [at("2024-01-16T14:44:16"), at("2024-01-16T14:44:17")]
    assert times(read_log(*lines, zone=ZoneInfo("Asia/Shanghai")))[0] == at("2024-01-16T06:44:16")


@pytest.mark.parametrize(
    ("day", "clock", "reason"),
    [
        ("20240230", "14:44:16", "its time '2024-02-30 14:44:16' is in no calendar"),
        ("20240116", "25:00:00", "is in no calendar"),
        ("2024011", "14:44:16", "cannot read '2024011 14:44:16' as a time"),
        ("-", "14:44:16", "cannot read '- 14:44:16' as a time"),
        ("20240116", "-", "cannot read '2024-01-16 -' as a time"),
        ("20240331", "02:30:00", "does not exist in Europe/Berlin"),
    ],
)
def test_a_time_that_is_none_refuses_its_row(read_log: ReadLog, day: str, clock: str, reason: str) -> None:
    lines = rows(("date", "time", "gpu", "pwr"), [("20240101", "00:00:00", 0, 9), (day, clock, 0, 9)])

    log = read_log(*lines, zone=ZoneInfo("Europe/Berlin"))

    (refused,) = log.refused
    assert refused.line == 4
    assert reason in refused.reason
    assert len(log.rows) == 1


def test_times_of_day_go_on_from_the_day_of_the_start(read_log: ReadLog) -> None:
    """Past midnight where they fall back; a row that comes a little late is of the day before."""
    clocks = ("23:59:58", "23:59:59", "00:00:00", "23:59:59", "00:00:01", "11:00:00", "10:59:59", "00:00:05")
    lines = rows(("time", "gpu", "pwr"), [(clock, number % 2, 9) for number, clock in enumerate(clocks)])

    with pytest.raises(InputError, match="its times have no day; say when it began with --start"):
        read_log(*lines)
    log = read_log(*lines, start_us=at("2024-01-16T23:59:50"))

    assert times(log) == [
        *(at("2024-01-16T23:59:58"), at("2024-01-16T23:59:59"), at("2024-01-17T00:00:00")),
        *(at("2024-01-16T23:59:59"), at("2024-01-17T00:00:01"), at("2024-01-17T11:00:00")),
        *(at("2024-01-17T10:59:59"), at("2024-01-17T00:00:05")),
    ]
    assert log.notes == (
        "its times have no day: they go on from the day of --start, and past midnight where they fall back",
    )


def test_the_first_time_of_day_is_the_one_nearest_to_the_start(read_log: ReadLog) -> None:
    lines = rows(("time", "gpu", "pwr"), [("00:00:03", 0, 9)])

    assert times(read_log(*lines, start_us=at("2024-01-16T23:59:59"))) == [at("2024-01-17T00:00:03")]
    lines = rows(("time", "gpu", "pwr"), [("23:59:59", 0, 9)])
    assert times(read_log(*lines, start_us=at("2024-01-17T00:00:00"))) == [at("2024-01-16T23:59:59")]


def test_a_clock_that_is_put_back_for_winter_starts_no_day(read_log: ReadLog) -> None:
    lines = rows(("time", "gpu", "pwr"), [("02:59:59", 0, 9), ("02:00:00", 0, 9), ("02:00:01", 0, 9)])

    log = read_log(*lines, zone=ZoneInfo("Europe/Berlin"), start_us=at("2024-10-27T00:59:59"))

    assert times(log) == [at("2024-10-27T00:59:59"), at("2024-10-27T01:00:00"), at("2024-10-27T01:00:01")]
    assert "an hour that clocks struck twice" in log.notes[1]


@pytest.mark.parametrize("clock", ["24:00:00", "12:60:00", "noon", "12:00", "-"])
def test_a_time_of_day_that_is_none_refuses_its_row(read_log: ReadLog, clock: str) -> None:
    lines = rows(("time", "gpu", "pwr"), [("12:00:00", 0, 9), (clock, 0, 9), ("12:00:01", 0, 9)])

    log = read_log(*lines, start_us=at("2024-01-16T12:00:00"))

    assert [refused.line for refused in log.refused] == [4]
    assert times(log) == [at("2024-01-16T12:00:00"), at("2024-01-16T12:00:01")]


def test_a_day_without_a_time_of_day_must_be_that_of_the_start(read_log: ReadLog) -> None:
    lines = rows(("date", "gpu", "pwr"), [(20240116, 0, 9), (20240116, 0, 9)])

    with pytest.raises(InputError, match="it has no times; say when it began with --start"):
        read_log(*lines)
    with pytest.raises(InputError, match="its first row is of the day '20240116'; give its time on that day"):
        read_log(*lines, start_us=at("2024-01-15T12:00:00"), step_us=SECOND_US)
    log = read_log(*lines, start_us=at("2024-01-15T16:00:00"), step_us=SECOND_US, zone=ZoneInfo("Asia/Shanghai"))
    assert times(log) == [at("2024-01-15T16:00:00"), at("2024-01-15T16:00:01")]


def test_rows_with_times_and_rows_without_are_not_one_log(read_log: ReadLog) -> None:
    timed = rows(("date", "time", "gpu", "pwr"), [(20240116, "14:44:16", 0, 9)])
    with pytest.raises(InputError, match="line 6 has no time, where others have one; split it where its header"):
        read_log(*timed, *rows(("gpu", "pwr"), [(0, 9)]), start_us=0, step_us=SECOND_US)


def test_a_single_snapshot_needs_no_step(read_log: ReadLog) -> None:
    lines = rows(("gpu", "pwr"), [(0, 9), (1, 9)])

    assert times(read_log(*lines, start_us=at("2024-01-16T12:00:00"))) == [at("2024-01-16T12:00:00")] * 2
    with pytest.raises(InputError, match="--step"):
        read_log(*lines, "0 9", start_us=0)


def test_a_card_that_is_away_for_a_while_keeps_its_time(read_log: ReadLog) -> None:
    """L7: what counts is the snapshot, not how many rows the card has had."""
    lines = rows(("gpu", "pwr"), [(0, 9), (1, 9), (0, 9), (0, 9), (0, 9), (1, 9)])

    log = read_log(*lines, start_us=0, step_us=SECOND_US)

    assert [(row.card.index, row.time_us // SECOND_US) for row in log.rows] == [
        ("0", 0),
        ("1", 0),
        ("0", 1),
        ("0", 2),
        ("0", 3),
        ("1", 3),
    ]


@given(st.lists(st.lists(st.integers(0, 12), min_size=1, unique=True), min_size=1))
def test_snapshots_that_share_a_card_are_told_apart(cards: list[list[int]]) -> None:
    """Whatever cards are missing of one, as long as each begins with one that is not above the last one's end."""
    told: list[tuple[str | None, None]] = []
    expected: list[int] = []
    number = -1
    highest = -1
    for snapshot in cards:
        ordered = sorted(snapshot)
        if ordered[0] > highest and number >= 0:
            continue
        number, highest = number + 1, ordered[-1]
        told += [(str(index), None) for index in ordered]
        expected += [number] * len(ordered)

    assert list(snapshots(told)) == expected
