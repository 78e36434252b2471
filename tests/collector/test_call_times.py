"""Every call of the driver is counted: how many, how long in all, how long at most of late, and what they failed by."""

import threading
import time

from collector.call_times import CallTime, CallTimes
from collector.own_values import call_values
from domain.clock import FrozenClock
from domain.series import COLLECTOR_CALL_FAILURES, COLLECTOR_CALL_LONGEST, COLLECTOR_CALL_SECONDS, COLLECTOR_CALLS


def call(calls: CallTimes, clock: FrozenClock, seconds: float, error: str | None = None) -> None:
    began_s = calls.now_s()
    clock.sleep_s(seconds)
    calls.note("DeviceGetName", began_s, error)


def test_calls_their_time_and_their_failures_add_up() -> None:
    clock = FrozenClock(0)
    calls = CallTimes(clock)
    call(calls, clock, 0.5)
    call(calls, clock, 2.0, "GPU_IS_LOST")
    call(calls, clock, 0.25, "GPU_IS_LOST")

    assert calls.times() == {"DeviceGetName": CallTime(3, 2.75, 2.0)}
    assert calls.failures() == {("DeviceGetName", "GPU_IS_LOST"): 2}
    labels = {"call": "DeviceGetName"}
    assert list(call_values(calls)) == [
        (COLLECTOR_CALLS, 3, labels),
        (COLLECTOR_CALL_SECONDS, 2.75, labels),
        (COLLECTOR_CALL_LONGEST, 2.0, labels),
        (COLLECTOR_CALL_FAILURES, 2, {**labels, "error": "GPU_IS_LOST"}),
    ]


def test_the_longest_call_stands_for_a_minute_and_not_for_two_whoever_asks_how_often() -> None:
    clock = FrozenClock(0)
    calls = CallTimes(clock)
    call(calls, clock, 7.0)
    for _ in range(11):
        clock.sleep_s(10)
        assert calls.times()["DeviceGetName"].longest_seconds == 7.0
        assert calls.times()["DeviceGetName"].longest_seconds == 7.0, "asking changes nothing"
    clock.sleep_s(10)
    assert calls.times()["DeviceGetName"] == CallTime(1, 7.0, 0.0)


def test_a_longest_call_is_not_carried_over_minutes_without_any() -> None:
    clock = FrozenClock(0)
    calls = CallTimes(clock)
    call(calls, clock, 7.0)
    clock.sleep_s(130)
    call(calls, clock, 1.0)
    assert calls.times()["DeviceGetName"] == CallTime(2, 8.0, 1.0)


class _Interrupting(float):
    """A time at which another thread goes on in the middle of a sum."""

    def __sub__(self, other: float) -> float:
        time.sleep(0)
        return float(self) - other


class _BusyClock(FrozenClock):
    def monotonic_s(self) -> float:
        return _Interrupting(7)


def test_threads_that_call_at_once_lose_no_call() -> None:
    calls = CallTimes(_BusyClock(0))

    def work() -> None:
        for _ in range(500):
            calls.note("DeviceGetName", 5.0, "UNKNOWN")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls.times() == {"DeviceGetName": CallTime(2_000, 4_000, 2)}
    assert calls.failures() == {("DeviceGetName", "UNKNOWN"): 2_000}
