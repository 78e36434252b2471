"""How long the driver takes for each of its functions, and how often it fails them."""

import threading
from collections import Counter, defaultdict
from typing import NamedTuple

from domain.clock import Clock

_WINDOW_SECONDS = 60


class CallTime(NamedTuple):
    """All calls of one function: how many so far, how long in all, and the longest of the last one to two minutes."""

    calls: int
    seconds: float
    longest_seconds: float


class CallTimes:
    """Counts calls; safe to use from several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._tallies: defaultdict[str, _Tally] = defaultdict(_Tally)
        self._failures: Counter[tuple[str, str]] = Counter()

    def now_s(self) -> float:
        """When a call begins, to be given to `note` at its end."""
        return self._clock.monotonic_s()

    def note(self, call: str, began_s: float, error: str | None = None) -> None:
        """Count a call that has ended; `error` is the name of the error that it answered with."""
        ended_s = self._clock.monotonic_s()
        with self._lock:
            tally = self._tallies[call]
            tally.look(ended_s)
            tally.calls += 1
            tally.seconds += ended_s - began_s
            tally.longest_seconds = max(tally.longest_seconds, ended_s - began_s)
            if error is not None:
                self._failures[call, error] += 1

    def times(self) -> dict[str, CallTime]:
        """Each function's calls so far."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            return {call: tally.look(now_s) for call, tally in self._tallies.items()}

    def failures(self) -> dict[tuple[str, str], int]:
        """How many calls ended in an error, by function and error."""
        with self._lock:
            return dict(self._failures)


class _Tally:
    """One function's calls; the longest of this minute and of the one before it are kept apart."""

    __slots__ = ("calls", "longest_before_seconds", "longest_seconds", "seconds", "window")

    def __init__(self) -> None:
        self.calls = 0
        self.seconds = 0.0
        self.window = 0
        self.longest_seconds = 0.0
        self.longest_before_seconds = 0.0

    def look(self, now_s: float) -> CallTime:
        """All there is by then; minutes that are over are forgotten."""
        window = int(now_s // _WINDOW_SECONDS)
        if window != self.window:
            self.longest_before_seconds = self.longest_seconds if window == self.window + 1 else 0.0
            self.longest_seconds = 0.0
            self.window = window
        return CallTime(self.calls, self.seconds, max(self.longest_seconds, self.longest_before_seconds))
