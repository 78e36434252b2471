"""The clocks."""

import pytest

from domain.clock import Clock, FrozenClock, SystemClock


def test_a_frozen_clock_moves_only_when_told_to() -> None:
    clock: Clock = FrozenClock(5_000_000)
    assert clock.now_us() == clock.now_us() == 5_000_000
    clock.sleep_s(1.5)
    assert clock.now_us() == 6_500_000
    assert clock.monotonic_s() == pytest.approx(1.5)
    clock.sleep_s(-3)
    assert clock.now_us() == 6_500_000


def test_a_clock_can_be_set_back() -> None:
    clock = FrozenClock(5_000_000)
    clock.advance_us(-2_000_000)
    assert clock.now_us() == 3_000_000


def test_the_systems_clock_is_in_microseconds_and_never_goes_back_by_itself() -> None:
    clock = SystemClock()
    first, then = clock.monotonic_s(), clock.monotonic_s()
    assert then >= first
    # Between 2020 and 2100: seconds or nanoseconds would fall far outside.
    assert 1_577_836_800_000_000 < clock.now_us() < 4_102_444_800_000_000
    clock.sleep_s(-1)
