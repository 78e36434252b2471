"""Waiting for what takes a second or two, and much longer on a busy machine."""

import threading
from collections.abc import Callable

from collector.tasks import THREAD_NAME
from domain.clock import MICROSECONDS, SystemClock

CLOCK = SystemClock()
PATIENCE_S = 60


def now_s() -> int:
    """The second that the machine is in."""
    return CLOCK.now_us() // MICROSECONDS


def wait_until(is_true: Callable[[], bool]) -> None:
    """Ask again and again; a failure once patience is at an end."""
    until_s = CLOCK.monotonic_s() + PATIENCE_S
    while not is_true():
        assert CLOCK.monotonic_s() < until_s, "it never came"
        CLOCK.sleep_s(0.05)


def wait_for_the_last_threads() -> None:
    """Wait for the threads that a collector leaves where it was told to stop while they waited for a slow store."""
    for thread in threading.enumerate():
        if thread.name.startswith(THREAD_NAME):
            thread.join(PATIENCE_S)
