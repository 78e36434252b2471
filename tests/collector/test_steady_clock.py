"""A wall clock that steps is believed when the step has stood for ten seconds, and not before."""

import pytest
from structlog.testing import capture_logs

from collector.steady_clock import SteadyClock
from tests.fakes.clock import SettableClock

START_US = 1_700_000_000_000_000
SECOND_US = 1_000_000
YEAR_US = 365 * 86_400 * SECOND_US


@pytest.fixture
def machine() -> SettableClock:
    return SettableClock(START_US)


def test_a_clock_that_keeps_time_is_the_wall_clock_to_the_microsecond(machine: SettableClock) -> None:
    clock = SteadyClock(machine)
    for step_us in (1, 999_999, 7, 3_600 * SECOND_US):
        machine.advance_us(step_us)
        assert clock.now_us() == clock.believed_us() == machine.now_us()


def test_a_clock_that_is_slewed_is_followed_however_far_that_leads(machine: SettableClock) -> None:
    """chrony may hurry a clock by a twelfth; a step up to two seconds is no more than that."""
    clock = SteadyClock(machine)
    for _ in range(600):
        machine.advance_us(SECOND_US)
        machine.set_by_us(80_000)
        assert clock.believed_us() == machine.now_us()
    machine.set_by_us(-2 * SECOND_US)
    assert clock.believed_us() == machine.now_us()


@pytest.mark.parametrize("by_us", [YEAR_US, -YEAR_US, 3 * SECOND_US, -3 * SECOND_US])
def test_a_step_that_is_taken_back_was_never_believed(machine: SettableClock, by_us: int) -> None:
    clock = SteadyClock(machine)
    machine.set_by_us(by_us)
    with capture_logs() as logs:
        for second in range(9):
            assert clock.now_us() == START_US + second * SECOND_US, "time goes on as the monotonic clock does"
            assert clock.believed_us() is None
            machine.advance_us(SECOND_US)
        machine.set_by_us(-by_us)
        assert clock.believed_us() == machine.now_us()

    assert [(log["event"], log.get("by_seconds")) for log in logs] == [
        ("clock_stepped", by_us / SECOND_US),
        ("clock_step_taken_back", None),
    ]


@pytest.mark.parametrize("by_us", [YEAR_US, -YEAR_US])
def test_a_step_that_stands_is_believed_after_ten_seconds(machine: SettableClock, by_us: int) -> None:
    clock = SteadyClock(machine)
    machine.set_by_us(by_us)
    with capture_logs() as logs:
        assert clock.believed_us() is None
        machine.advance_us(10 * SECOND_US)
        assert clock.believed_us() == machine.now_us()

    assert [log["event"] for log in logs] == ["clock_stepped", "clock_step_believed"]


def test_a_clock_that_steps_again_and_again_is_not_believed(machine: SettableClock) -> None:
    """Each step has to stand for itself: two that disagree do not vouch for each other."""
    clock = SteadyClock(machine)
    for number in range(1, 20):
        machine.set_by_us(number * 60 * SECOND_US)
        machine.advance_us(6 * SECOND_US)
        assert clock.believed_us() is None
        assert clock.now_us() == START_US + number * 6 * SECOND_US


def test_waiting_is_the_machines(machine: SettableClock) -> None:
    clock = SteadyClock(machine)
    machine.set_by_us(YEAR_US)
    clock.sleep_s(2.5)
    assert clock.monotonic_s() == machine.monotonic_s() == 2.5


def test_each_jump_is_counted_there_and_back_and_believed_or_not(machine: SettableClock) -> None:
    """O5: a step is an event on record. A slew is none, and neither is that a step comes to be believed."""
    clock = SteadyClock(machine)
    machine.set_by_us(1_900_000)
    clock.now_us()
    assert clock.steps == 0
    machine.set_by_us(-5 * SECOND_US)
    for _ in range(12):
        machine.advance_us(SECOND_US)
        clock.now_us()
    assert clock.steps == 1, "believed by now"
    machine.set_by_us(30 * SECOND_US)
    clock.now_us()
    machine.set_by_us(-30 * SECOND_US)
    clock.now_us()
    assert clock.steps == 3
