"""A ledger of windows as it must be: what each settled by, what it was charged, and what it is owed by now.

It knows the world, remembers what was seen of it, and rates by tests/meter/ledger_expectation.py.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from domain.clock import FrozenClock
from meter.ledger.leases_store import LEASE_S
from tests.meter.hour import START_US
from tests.meter.ledger_expectation import CONTEXT_S, Charges, Sight, charge, look, unpriced
from tests.meter.ledger_world import HOURS, Record, World

GRACE_S, DEADLINE_S, SKEW_LIMIT_S = 30, 2 * 3_600, 2

REFUSALS = {"not closed": "it is not closed", "busy": "another meter is at work", "no price": "have no price"}

Place = tuple[str, int]
"""(node, hours after the hour)."""


@dataclass(frozen=True)
class Window:
    """`frozen` None: not settled. `owed` is what charges and adjustments come to; before a close the charges."""

    state: str = "open"
    frozen: Sight | None = None
    charges: Charges | None = None
    owed: Charges | None = None
    late: int = 0


class LedgerModel:
    """All windows, and what becomes of each when a meter passes."""

    def __init__(self, world: World, clock: FrozenClock) -> None:
        self.world = world
        self.windows: dict[Place, Window] = {}
        self.closed_hours: set[int] = set()
        # Left by meters that were killed: until when, by the database's clock.
        self.leases: dict[Place, float] = {}
        self._clock = clock

    @property
    def now(self) -> float:
        """Seconds after the hour."""
        return (self._clock.now_us() - START_US) / 10**6

    def find(self) -> None:
        """Every hour that has begun and that a card stood or something was held in is a window."""
        held = [each for record in self.world.records.values() for each in record.grants]
        for hour in range(HOURS):
            begins, ends = hour * 3_600, (hour + 1) * 3_600
            until = min(ends, self.now)
            touched = {each.node for each in held if each.start < until and max(each.start, begins) < each.last}
            for node in touched | {"n1", "n2"} if begins < self.now else ():
                if hour not in self.closed_hours:
                    self.windows.setdefault((node, hour), Window())

    def is_busy(self, place: Place) -> bool:
        """Whether the lease of a meter that was killed keeps others away."""
        return self.leases.get(place, 0) > self.now

    def plan(self, place: Place, now: float) -> tuple[str, Window | None]:
        """What a pass that begins at `now` ends in, and the window after it; None: it does not change."""
        node, hour = place
        window = self.windows.get(place, Window())
        complete = self._complete(node, now)
        waits = self._waits(node, hour, complete, now)
        if window.frozen is None and complete <= hour * 3_600 and waits:
            return "waiting", None
        if self.is_busy(place):
            return "busy", None
        if window.state == "closed" and window.frozen is not None:
            late = self._look(place).late_beyond(window.frozen)
            return "closed", replace(window, late=late)
        if hour in self.closed_hours:
            return "closed", None
        is_skewed = not waits and window.frozen is None and self.world.skews.get(node, 0) > SKEW_LIMIT_S
        settles = window.frozen is not None or not (waits or is_skewed)
        until = (hour + 1) * 3_600 if settles else min((hour + 1) * 3_600, int(complete))
        if until <= hour * 3_600:
            return "waiting", None
        sight = self._richest(window, look(self.world, node, hour * 3_600, until))
        charged = self._charge(node, sight)
        after = Window("settled" if settles else "open", sight if settles else None, charged, charged)
        return "skewed" if is_skewed else after.state, after

    def close(self, hour: int) -> bool:
        """Close the hour if that may be done; whether it was."""
        its = {place: window for place, window in self.windows.items() if place[1] == hour}
        if any(window.state != "settled" or unpriced(window.charges or {}) for window in its.values()):
            return False
        if self.stale(its):
            return False
        self.windows |= {place: replace(window, state="closed") for place, window in its.items()}
        self.closed_hours.add(hour)
        return True

    def plan_correction(self, place: Place) -> tuple[str, Window | None]:
        """What a correction ends in (a key of `REFUSALS`, "same" or "corrected"), and the window after it."""
        node, hour = place
        if hour not in self.closed_hours:
            return "not closed", None
        if self.is_busy(place):
            return "busy", None
        window = self.windows.get(place, Window("closed", charges={}, owed={}))
        sight = self._richest(window, self._look(place))
        owed = self._charge(node, sight)
        if owed == window.owed and (window.frozen is None or window.frozen == sight):
            return "same", None
        if unpriced(owed):
            return "no price", None
        return "corrected", replace(window, frozen=sight, owed=owed, late=0)

    def stale(self, places: Iterable[Place]) -> set[Place]:
        """Settled and closed windows that are not what evidence, records and prices come to by now."""
        return {
            place
            for place in places
            if (window := self.windows[place]).frozen is not None
            and self._charge(place[0], window.frozen) != window.owed
        }

    def leave_lease(self, place: Place) -> None:
        """A meter is killed at work on the window."""
        self.leases[place] = self.now + LEASE_S

    def forget_lease(self, place: Place) -> None:
        """Whoever has worked on the window since has given it back."""
        self.leases.pop(place, None)

    def must_refuse(self, before: Record | None, after: Record) -> bool:
        """Whether a record says something else of a closed hour than the one before it."""
        return any(_said(before, hour) != _said(after, hour) for hour in self.closed_hours)

    def may_refuse(self, before: Record | None, after: Record) -> bool:
        """Whether one of the two speaks of a closed hour at all."""
        return any(_said(each, hour) for hour in self.closed_hours for each in (before, after))

    def _richest(self, window: Window, sight: Sight) -> Sight:
        return window.frozen if window.frozen is not None and sight.lacks(window.frozen) else sight

    def _look(self, place: Place) -> Sight:
        return look(self.world, place[0], place[1] * 3_600, (place[1] + 1) * 3_600)

    def _charge(self, node: str, sight: Sight) -> Charges:
        return charge(sight, node, self.world.records, self.world.prices)

    def _complete(self, node: str, now: float) -> float:
        past = int(now)
        return past if node == "" else min(past, self.world.marks.get(node, -(10**9)))

    def _waits(self, node: str, hour: int, complete: float, now: float) -> bool:
        ends = (hour + 1) * 3_600
        if now < ends + GRACE_S:
            return True
        if node == "" or now >= ends + DEADLINE_S:
            return False
        return complete < ends + CONTEXT_S or self.world.reports.get(node, -1) < ends


def _said(record: Record | None, hour: int) -> set[tuple[object, ...]]:
    """What a record says of an hour, grant by grant."""
    if record is None:
        return set()
    begins, ends = hour * 3_600, (hour + 1) * 3_600
    return {
        (record.tenant, record.project, each.card, each.milli, max(each.start, begins), min(each.last, ends))
        for each in record.grants
        if each.start < ends and each.last > begins and each.start < each.last
    }
