"""Times as logs write them."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.logs.log_times import LogTimes, seconds_us

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


def us(*parts: int) -> int:
    """Microseconds of a time in UTC: year, month, day, hour, minute, second, microsecond."""
    return (datetime(*parts, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)  # type: ignore[arg-type,misc]


@pytest.mark.parametrize(
    ("text", "instant_us"),
    [
        ("2026/01/03 15:36:53.507", us(2026, 1, 3, 15, 36, 53, 507_000)),
        ("2025-05-19 16:19:26", us(2025, 5, 19, 16, 19, 26)),
        ("2025-09-24T03:48:33.493Z", us(2025, 9, 24, 3, 48, 33, 493_000)),
        ("2025-09-24T11:48:33+08:00", us(2025, 9, 24, 3, 48, 33)),
        ("2025-09-23T22:18:33-0530", us(2025, 9, 24, 3, 48, 33)),
        ("2025-09-24 03:48:33 UTC", us(2025, 9, 24, 3, 48, 33)),
        ("03-11-2026 15:13:16", us(2026, 3, 11, 15, 13, 16)),
        ("3/1/2026 5:13:16", us(2026, 3, 1, 5, 13, 16)),
        ("Tue Oct 29 19:00:23 2024", us(2024, 10, 29, 19, 0, 23)),
        ("Tue Oct  1 19:00:23 2024", us(2024, 10, 1, 19, 0, 23)),
        ("1764189075", us(2025, 11, 26, 20, 31, 15)),
        ("1736203508.750246", us(2025, 1, 6, 22, 45, 8, 750_246)),
        # Finer than a microsecond is cut, not rounded, and no float comes near it.
        ("1736203919.3015809", us(2025, 1, 6, 22, 51, 59, 301_580)),
        ("2026-01-03 15:36:53.999999999", us(2026, 1, 3, 15, 36, 53, 999_999)),
    ],
)
def test_every_form_is_read_to_the_microsecond(text: str, instant_us: int) -> None:
    assert LogTimes(None, None).instant_us(text) == instant_us


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("13-01-2026 00:00:00", "its time '13-01-2026 00:00:00' has no month 13: the month stands first"),
        ("00-01-2026 00:00:00", "is in no calendar"),
        ("2025/02/29 00:00:00", "is in no calendar"),
        ("2025/02/28 24:00:00", "is in no calendar"),
        ("2025/02/28 23:59:60", "is in no calendar"),
        ("0000/01/01 00:00:00", "is in no calendar"),
        ("1969/12/31 23:59:59", "is before 1970"),
        ("2025-01-01T00:00:00+15:01", "has an offset that no clock has"),
        ("2025-01-01T00:00:00+14:60", "has an offset that no clock has"),
        # Milliseconds since 1970: seconds they are not.
        ("1736203508750", "is no number of seconds since 1970"),
        ("-5", "cannot read '-5' as a time"),
        ("1.7e9", "cannot read '1.7e9' as a time"),
        ("٢٠٢٥-01-01 00:00:00", "as a time"),
        ("10:00:00", "cannot read '10:00:00' as a time"),
        ("2025/01-01 00:00:00", "as a time"),
        ("Tue Xyz 29 19:00:23 2024", "as a time"),
        ("x" * 1_000_000, "cannot read 'xxxxxxxx"),
    ],
)
def test_what_is_no_time_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r"time") as refused:
        LogTimes(None, None).instant_us(text)
    assert reason in str(refused.value)
    assert len(str(refused.value)) < 200


def test_a_small_number_counts_from_the_start() -> None:
    times = LogTimes(None, 10**15)
    assert [times.instant_us(text) for text in ("0.0", "0.277", "599.332")] == [
        10**15,
        10**15 + 277_000,
        10**15 + 599_332_000,
    ]
    assert times.is_relative


def test_the_first_number_decides_what_all_are() -> None:
    """A time that was cut off in the middle is no time since the beginning."""
    times = LogTimes(None, None)
    times.instant_us("1764189075")
    with pytest.raises(ValueError, match="of another kind"):
        times.instant_us("17641")


def test_a_local_time_is_of_the_zone() -> None:
    assert LogTimes(ZoneInfo("Asia/Shanghai"), None).instant_us("2026/01/03 08:00:00") == us(2026, 1, 3)


def test_a_time_with_its_own_offset_is_not() -> None:
    assert LogTimes(BERLIN, None).instant_us("2026-07-03T08:00:00Z") == us(2026, 7, 3, 8)


def test_a_time_that_the_clocks_left_out_is_refused() -> None:
    times = LogTimes(BERLIN, None)
    assert times.instant_us("2026-03-29 01:59:59") == us(2026, 3, 29, 0, 59, 59)
    with pytest.raises(ValueError, match="does not exist in Europe/Berlin"):
        times.instant_us("2026-03-29 02:30:00")
    assert times.instant_us("2026-03-29 03:00:00") == us(2026, 3, 29, 1)
    assert times.guess is None


def test_an_hour_that_clocks_struck_twice_goes_on_where_the_log_was() -> None:
    """Both hours are told apart by the rows before, and a person is told of it."""
    times = LogTimes(BERLIN, None)
    local = ["01:30:00", "02:00:00", "02:30:00", "02:59:59", "02:00:00", "02:30:00", "03:00:00"]
    found = [times.instant_us(f"2026-10-25 {clock}") for clock in local]
    assert found == [
        us(2026, 10, 24, 23, 30),
        us(2026, 10, 25, 0, 0),
        us(2026, 10, 25, 0, 30),
        us(2026, 10, 25, 0, 59, 59),
        us(2026, 10, 25, 1, 0),
        us(2026, 10, 25, 1, 30),
        us(2026, 10, 25, 2, 0),
    ]
    assert times.guess is not None
    assert times.guess.startswith("5 times lie in an hour that clocks struck twice")


def test_a_row_that_is_a_little_late_does_not_jump_an_hour() -> None:
    times = LogTimes(BERLIN, None)
    assert times.instant_us("2026-10-25 02:10:00.900") == us(2026, 10, 25, 0, 10, 0, 900_000)
    assert times.instant_us("2026-10-25 02:10:00.800") == us(2026, 10, 25, 0, 10, 0, 800_000)


def test_the_ends_of_the_calendar_are_no_crash() -> None:
    for zone in (ZoneInfo("America/New_York"), ZoneInfo("Pacific/Auckland")):
        assert LogTimes(zone, None).instant_us("9999-12-31 23:59:59") > us(9999, 12, 31)
        with pytest.raises(ValueError, match="before 1970"):
            LogTimes(zone, None).instant_us("0001-01-01 00:00:00")


@given(
    st.integers(10**14, 7 * 10**15),
    st.sampled_from(["%Y/%m/%d %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S.%fZ", "%m-%d-%Y %H:%M:%S.%f"]),
)
def test_a_time_that_was_written_comes_back(instant_us: int, form: str) -> None:
    moment = EPOCH + timedelta(microseconds=instant_us)
    assert LogTimes(None, None).instant_us(moment.strftime(form)) == instant_us
    assert LogTimes(None, None).instant_us(f"{instant_us // 10**6}.{instant_us % 10**6:06}") == instant_us


@given(st.integers(1, 4 * 10**15), st.sampled_from(["Asia/Shanghai", "Europe/Berlin", "America/St_Johns"]))
def test_a_local_time_comes_back_from_where_clocks_are_not_turned(instant_us: int, name: str) -> None:
    zone = ZoneInfo(name)
    local = (EPOCH + timedelta(microseconds=instant_us)).astimezone(zone)
    times = LogTimes(zone, None)
    found = times.instant_us(local.strftime("%Y-%m-%d %H:%M:%S.%f"))
    assert found == instant_us or (times.guess and local.fold == 1)


def test_a_number_of_seconds_is_exact() -> None:
    assert [seconds_us(text) for text in ("1", "0.1", "0.000001", "60")] == [10**6, 10**5, 1, 60 * 10**6]


@pytest.mark.parametrize("text", ["", "-1", "1e3", "0.0000001", "1s", " 1"])
def test_what_is_no_number_of_seconds_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        seconds_us(text)
