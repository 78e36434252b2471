"""How long the driver takes for each of its functions, and how often it fails them."""

import threading
from collections import Counter
from typing import NamedTuple

from domain.clock import Clock


class CallTime(NamedTuple):
    """All calls of one function so far: how many, how long in all, and the longest since it was last asked for."""

    calls: int
    seconds: float
    longest_seconds: float


class CallTimes:
    """Counts calls; safe to use from several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._times: dict[str, CallTime] = {}
        self._failures: Counter[tuple[str, str]] = Counter()

    def now_s(self) -> float:
        """When a call begins, to be given to `note` at its end."""
        return self._clock.monotonic_s()

    def note(self, call: str, began_s: float, error: str | None = None) -> None:
        """Count a call that has ended; `error` is the name of the error that it answered with."""
        seconds = self._clock.monotonic_s() - began_s
        with self._lock:
            before = self._times.get(call, _NONE)
            longest_seconds = max(before.longest_seconds, seconds)
            self._times[call] = CallTime(before.calls + 1, before.seconds + seconds, longest_seconds)
            if error is not None:
                self._failures[call, error] += 1

    def times(self) -> dict[str, CallTime]:
        """Each function's calls so far; the longest begins anew."""
        with self._lock:
            times = dict(self._times)
            for call, time in times.items():
                self._times[call] = time._replace(longest_seconds=0.0)
            return times

    def failures(self) -> dict[tuple[str, str], int]:
        """How many calls ended in an error, by function and error."""
        with self._lock:
            return dict(self._failures)


_NONE = CallTime(0, 0.0, 0.0)
