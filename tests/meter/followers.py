"""A meter that follows, what it publishes and says, and raters that are slow or fail."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from domain.clock import FrozenClock
from domain.errors import GputabError, UnavailableError
from domain.samples import SampleRun
from meter.ledger.ledger_store import load_windows
from meter.windows.passes import Follower
from meter.windows.windows import Outcome, WindowRater, WindowResult
from store.access import Principal
from store.database import Database
from tests.meter.hour import hours_after


class Sink:
    """What the meter published, pass by pass; the first sends fail as often as asked for."""

    def __init__(self, failures: int = 0) -> None:
        self.passes: list[list[SampleRun]] = []
        self._failures = failures

    def send(self, runs: Iterable[SampleRun]) -> None:
        if self._failures:
            self._failures -= 1
            raise UnavailableError("cannot send: the store does not answer")
        self.passes.append(list(runs))


@dataclass
class Followed:
    """A follower, what it published and what it said."""

    database: Database
    operator: Principal
    rater: Any
    clock: FrozenClock
    sink: Sink
    said: list[str] = field(default_factory=list)

    def follow(self, seconds: float) -> None:
        """For so long, a pass every five seconds."""
        until_s = self.clock.monotonic_s() + seconds
        self._made().follow(5, lambda: self.clock.monotonic_s() >= until_s)

    def one_pass(self, at_least_s: float = 5) -> list[WindowResult]:
        return self._made().one_pass(at_least_s, lambda: False)

    def settled(self) -> set[tuple[str, int]]:
        """The windows that have settled, as (node, hours after the hour)."""
        with self.database.read() as connection:
            found = load_windows(connection, self.operator)
        return {(each.node, hours_after(each.start_us)) for each in found if each.state == "settled"}

    def _made(self) -> Follower:
        return Follower(self.database, self.operator, self.rater, self.sink, self.clock, self.said.append)


@dataclass
class Slow:
    """A rater that takes its time, and keeps when it was asked for what."""

    rater: Any
    clock: FrozenClock
    seconds: float
    asked: list[tuple[int, str, int]] = field(default_factory=list)

    def rate_window(self, node: str, start_us: int, now_us: int) -> WindowResult:
        self.asked.append((self.clock.now_us(), node, start_us))
        self.clock.sleep_s(self.seconds)
        if self.rater is None:
            return WindowResult(node, start_us, Outcome.WAITING, None, ())
        found: WindowResult = self.rater.rate_window(node, start_us, now_us)
        return found


@dataclass
class Failing:
    """A rater that fails for some of the windows, by node and hours after the hour."""

    rater: WindowRater
    errors: dict[tuple[str, int], GputabError]
    asked: list[tuple[str, int]] = field(default_factory=list)

    def rate_window(self, node: str, start_us: int, now_us: int) -> WindowResult:
        place = (node, hours_after(start_us))
        self.asked.append(place)
        if place in self.errors:
            raise self.errors[place]
        return self.rater.rate_window(node, start_us, now_us)
