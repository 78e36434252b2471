"""What the driver samples of each process: what is new since it was last asked, and no older than two seconds."""

from collections.abc import Iterator

import pynvml
import pytest

from collector.call_times import CallTimes
from collector.nvml.driver import CardLostError, Driver
from collector.nvml.probe import Probe
from collector.nvml.process_use import ProcessUse
from domain.clock import FrozenClock, SystemClock
from domain.samples import FieldState
from tests.fakes.nvml.driver import Can, FakeDriver

SECOND_US = 1_000_000
CALLS = ("nvmlDeviceGetProcessUtilization", "nvmlDeviceGetProcessesUtilizationInfo")


@pytest.fixture
def uuid(driver: FakeDriver) -> str:
    return driver.card(0)


class Clock(FrozenClock):
    """Ours and the driver's, which stand until they are moved, a minute after boot."""

    def __init__(self, driver: FakeDriver) -> None:
        super().__init__(driver.now_us())
        self._driver = driver
        self.advance_us(60 * SECOND_US)

    def advance_us(self, by_us: int) -> None:
        super().advance_us(by_us)
        self._driver.set_clock(self.now_us())


@pytest.fixture
def clock(driver: FakeDriver) -> Clock:
    return Clock(driver)


@pytest.fixture
def calls() -> CallTimes:
    return CallTimes(SystemClock())


@pytest.fixture
def use(clock: Clock, uuid: str, calls: CallTimes) -> Iterator[ProcessUse]:
    opened = Driver(calls)
    yield ProcessUse(Probe(opened, opened.ask("DeviceGetHandleByUUID", uuid), clock))
    opened.close()


@pytest.fixture(params=CALLS)
def call(request: pytest.FixtureRequest, driver: FakeDriver) -> str:
    """The one that the driver has; the other is not supported."""
    for each in set(CALLS) - {request.param}:
        driver.fault(pynvml.NVML_ERROR_NOT_SUPPORTED, each)
    return str(request.param)


def _sample(driver: FakeDriver, pid: int, percent: int, age_us: int = 100_000) -> dict[str, int]:
    return {"pid": pid, "at_us": driver.now_us() - age_us, "sm": percent}


def test_each_process_has_its_percent(driver: FakeDriver, uuid: str, call: str, use: ProcessUse) -> None:
    driver.uses(uuid, [_sample(driver, 7, 40), _sample(driver, 8, 0), _sample(driver, 9, 100)])

    assert use.read() == {7: 40, 8: 0, 9: 100}


def test_the_driver_is_asked_for_what_is_new(driver: FakeDriver, uuid: str, call: str, use: ProcessUse) -> None:
    """A process that the driver no longer tells of has stopped computing."""
    driver.uses(uuid, [_sample(driver, 7, 40), _sample(driver, 8, 60)])
    assert use.read() == {7: 40, 8: 60}

    driver.uses(uuid, [_sample(driver, 7, 40), _sample(driver, 8, 50, age_us=0)])
    assert use.read() == {8: 50}


def test_where_nothing_is_new_what_was_said_holds_for_two_seconds(
    driver: FakeDriver, uuid: str, call: str, use: ProcessUse, clock: Clock
) -> None:
    """The period of the driver is not ours."""
    driver.uses(uuid, [_sample(driver, 7, 40, age_us=500_000)])
    told = [use.read()]
    for _ in range(2):
        clock.advance_us(SECOND_US)
        told.append(use.read())

    assert told == [{7: 40}, {7: 40}, {}]


def test_a_sample_of_nine_seconds_ago_is_ignored(driver: FakeDriver, uuid: str, call: str, use: ProcessUse) -> None:
    """A2: some drivers tell it again and again."""
    driver.quirks(process_utilization_stale=1)
    driver.uses(uuid, [_sample(driver, 7, 100, age_us=9 * SECOND_US), _sample(driver, 8, 30)])

    assert [use.read(), use.read()] == [{8: 30}] * 2


def test_a_stamp_of_the_future_or_of_no_clock_is_ignored(
    driver: FakeDriver, uuid: str, call: str, use: ProcessUse
) -> None:
    """And it does not keep later ones from being asked for."""
    for at_us in (driver.now_us() + 3_600 * SECOND_US, 2**64 - 1, 0):
        driver.uses(uuid, [{"pid": 7, "at_us": at_us, "sm": 50}])
        assert use.read() == {}
    driver.uses(uuid, [_sample(driver, 7, 20)])
    assert use.read() == {7: 20}


def test_a_clock_that_was_set_back_is_followed(
    driver: FakeDriver, uuid: str, call: str, use: ProcessUse, clock: Clock
) -> None:
    """What was last seen is an hour ahead now, and the driver has nothing newer than that."""
    driver.uses(uuid, [_sample(driver, 7, 40)])
    use.read()
    clock.advance_us(-3_600 * SECOND_US)
    driver.uses(uuid, [_sample(driver, 7, 50)])

    assert use.read() == {7: 50}


def test_stamps_by_the_time_since_boot_are_understood(
    driver: FakeDriver, uuid: str, call: str, use: ProcessUse, clock: Clock
) -> None:
    """R12, where a driver stamps processes as some stamp their other samples."""
    boot_us = clock.boot_us()
    driver.uses(uuid, [{"pid": 7, "at_us": boot_us - 100_000, "sm": 50}, {"pid": 8, "at_us": boot_us - 9_000_000}])

    assert use.read() == {7: 50}


def test_of_two_samples_of_a_process_the_later_holds(driver: FakeDriver, uuid: str, call: str, use: ProcessUse) -> None:
    driver.uses(uuid, [_sample(driver, 7, 50), _sample(driver, 7, 20, age_us=800_000)])

    assert use.read() == {7: 50}


def test_more_than_all_of_it_is_refused_and_counted(driver: FakeDriver, uuid: str, call: str, use: ProcessUse) -> None:
    driver.uses(uuid, [_sample(driver, 7, 101), _sample(driver, 8, 2**32 - 1), _sample(driver, 9, 30)])

    assert use.read() == {9: 30}
    assert use.refused == 2


@pytest.mark.parametrize("idle_code", [pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_SUCCESS])
@pytest.mark.parametrize("room", [0, 100])
def test_an_idle_card_has_no_samples_whatever_the_driver_calls_that(
    driver: FakeDriver, uuid: str, call: str, use: ProcessUse, idle_code: int, room: int
) -> None:
    """NOT_FOUND, or SUCCESS with none, of which the bindings make an error without a code."""
    driver.quirks(process_utilization_idle_code=idle_code, process_utilization_room=room)

    assert [use.read(), use.read()] == [{}] * 2


def test_a_driver_that_asks_for_room_for_a_hundred_is_given_it(
    driver: FakeDriver, uuid: str, call: str, use: ProcessUse, calls: CallTimes
) -> None:
    driver.quirks(process_utilization_room=100)
    driver.uses(uuid, [_sample(driver, 7, 40)])

    assert use.read() == {7: 40}
    assert calls.times()[call.removeprefix("nvml")].calls == 1


def test_more_samples_than_there_is_room_for_are_asked_for_again(
    driver: FakeDriver, uuid: str, call: str, use: ProcessUse, calls: CallTimes
) -> None:
    """The bindings give up where there are more in their second call than in their first."""
    driver.uses(uuid, [_sample(driver, pid, 1) for pid in range(1, 301)])

    assert use.read() == dict.fromkeys(range(1, 301), 1)
    assert calls.times()[call.removeprefix("nvml")].calls == 2


def test_a_driver_that_never_has_enough_room_is_asked_twice(
    driver: FakeDriver, uuid: str, call: str, use: ProcessUse, calls: CallTimes
) -> None:
    driver.fault(pynvml.NVML_ERROR_INSUFFICIENT_SIZE, call)

    assert use.read() is FieldState.ERROR
    assert calls.times()[call.removeprefix("nvml")].calls == 2


def test_what_a_card_cannot_sample_is_not_asked_every_second(
    driver: FakeDriver, uuid: str, use: ProcessUse, calls: CallTimes
) -> None:
    driver.deny(uuid, Can.PROCESS_UTILIZATION)

    assert [use.read() for _ in range(3)] == [FieldState.UNSUPPORTED] * 3
    assert sum(calls.failures().values()) == 2


def test_an_error_is_no_idle_card(driver: FakeDriver, uuid: str, call: str, use: ProcessUse) -> None:
    driver.fault(pynvml.NVML_ERROR_UNKNOWN, call, times=1)
    driver.uses(uuid, [_sample(driver, 7, 40)])

    assert [use.read(), use.read()] == [FieldState.ERROR, {7: 40}]


def test_a_card_that_is_lost_meanwhile_is_lost(driver: FakeDriver, call: str, use: ProcessUse) -> None:
    driver.fault(pynvml.NVML_ERROR_GPU_IS_LOST, call)

    with pytest.raises(CardLostError):
        use.read()
