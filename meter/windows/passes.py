"""Passes over many windows: a stretch of time once, or all that is due again and again."""

import random
from collections.abc import Callable, Iterator

from domain.clock import Clock
from domain.errors import EvidenceError, GputabError, InputError, UnavailableError
from domain.period import HOUR_US, Period, format_instant
from domain.samples import SampleRun, SampleSink
from meter.ledger.corrections_store import count_corrections
from meter.ledger.late_store import late_seconds
from meter.ledger.leases_store import LEASE_S
from meter.ledger.ledger_store import newest_rated
from meter.ledger.unclosed_store import load_unclosed
from meter.windows.backlog_store import Place, due_windows, find_windows, least_recent_windows, windows_of
from meter.windows.own_series import NodeProgress, own_series
from meter.windows.windows import Outcome, WindowRater, WindowResult
from store.access import Principal
from store.database import Database

_NAP_S = 0.2
# How much of a pass goes to windows that settled, to see whether samples came late.
_LOOK_AGAIN_SHARE = 0.1
# More than can be looked at in that share of a pass.
_LOOK_AGAIN_MOST = 100

Report = Callable[[str], None]
"""Takes one line for every window that could not be rated."""


def rate_period(
    database: Database, principal: Principal, rater: WindowRater, period: Period, clock: Clock, report: Report
) -> Iterator[WindowResult]:
    """One pass over every window that the period touches, each one whole, by hour and node.

    However the time is cut into periods, a window comes out the same. One that fails is reported and left; one that
    another meter is at work on comes last, and is waited for as long as a meter that was killed could hold it. Raises
    UnavailableError where the store is down, which it is for every window.
    """
    now_us = clock.now_us()
    find_windows(database, principal)
    begun = Period(period.start_us, max(period.start_us, min(period.end_us, now_us)))
    with database.read() as connection:
        places = windows_of(connection, principal, begun)
    patience_s = clock.monotonic_s() + LEASE_S + _NAP_S
    while places:
        busy: list[Place] = []
        for place in places:
            result = _rate(rater, place, now_us, report)
            if result is not None and result.outcome is Outcome.BUSY and clock.monotonic_s() < patience_s:
                busy.append(place)
            elif result is not None:
                yield result
        if busy:
            clock.sleep_s(_NAP_S)
        places = busy


def _rate(rater: WindowRater, place: Place, now_us: int, report: Report) -> WindowResult | None:
    """The window rated; None where it failed in a way that concerns no other, which was reported."""
    try:
        return rater.rate_window(*place, now_us)
    except UnavailableError as error:
        if not isinstance(error, EvidenceError):
            raise
        report(str(error))
    except InputError as error:
        # What is refused knows the number and not whose it is.
        node, start_us = place
        report(f"cannot rate the window {node!r} {format_instant(start_us)!r}: {error}")
    except GputabError as error:
        report(str(error))
    return None


class Follower:
    """Rates what is due, and publishes what the meter knows of itself."""

    def __init__(
        self,
        database: Database,
        principal: Principal,
        rater: WindowRater,
        sink: SampleSink,
        clock: Clock,
        report: Report,
    ) -> None:
        self._database = database
        self._principal = principal
        self._rater = rater
        self._sink = sink
        self._clock = clock
        self._report = report

    def follow(self, every_s: float, is_stopped: Callable[[], bool]) -> None:
        """Begin a pass every `every_s` seconds until stopped; a store that is down delays and loses nothing."""
        while not is_stopped():
            next_s = self._clock.monotonic_s() + every_s
            try:
                results = self.one_pass(every_s, is_stopped)
                self._sink.send(self._own_series(results))
                self._look_again(every_s * _LOOK_AGAIN_SHARE, next_s, is_stopped)
            except GputabError as error:
                self._report(str(error))
            # Short naps, so that a stop is not waited for.
            while self._clock.monotonic_s() < next_s and not is_stopped():
                self._clock.sleep_s(min(next_s - self._clock.monotonic_s(), _NAP_S))

    def one_pass(self, at_least_s: float, is_stopped: Callable[[], bool]) -> list[WindowResult]:
        """Rate what is due: the present hour first, so that what is being spent is known, then the past.

        The past gets the rest of `at_least_s`, and at least the time that the present took; what is left is due
        in the next pass. Its order is another one each time: windows that cannot settle yet, such as those of a
        node that was taken away, never keep others from their turn. One that fails is reported and left.

        Raises UnavailableError where the store is down, which it is for every window.
        """
        began_s, now_us = self._clock.monotonic_s(), self._clock.now_us()
        until_s = began_s + at_least_s
        find_windows(self._database, self._principal)
        with self._database.read() as connection:
            due = due_windows(connection, self._principal)
        random.Random(now_us).shuffle(due)  # noqa: S311 - an order, not a secret
        results = []
        for node, start_us in sorted(due, key=lambda place: place[1] + HOUR_US <= now_us):
            is_present = start_us + HOUR_US > now_us
            if is_stopped() or (not is_present and self._clock.monotonic_s() > until_s):
                break
            result = _rate(self._rater, (node, start_us), now_us, self._report)
            if result is not None:
                results.append(result)
            if is_present:
                until_s = max(until_s, 2 * self._clock.monotonic_s() - began_s)
        return results

    def _look_again(self, for_s: float, until_s: float, is_stopped: Callable[[], bool]) -> None:
        """Rate settled windows once more, those looked at longest ago first: where nothing came late nothing changes.

        Of closed ones only what came late is counted.
        """
        until_s = min(until_s, self._clock.monotonic_s() + for_s)
        with self._database.read() as connection:
            places = least_recent_windows(connection, self._principal, _LOOK_AGAIN_MOST)
        for place in places:
            if is_stopped() or self._clock.monotonic_s() >= until_s:
                break
            _rate(self._rater, place, self._clock.now_us(), self._report)

    def _own_series(self, results: list[WindowResult]) -> list[SampleRun]:
        """What is to be said of every node that was rated, or has something due, late, or in the way of a close."""
        with self._database.read() as connection:
            oldest_us = dict(reversed(due_windows(connection, self._principal)))
            late = late_seconds(connection, self._principal)
            unclosed = load_unclosed(connection, self._principal)
            blocked = {node for node, each in unclosed.items() if each.is_blocked}
            progress = [
                NodeProgress(
                    node,
                    newest_rated(connection, self._principal, node),
                    oldest_us.get(node),
                    unclosed.get(node),
                    late.get(node, 0),
                )
                for node in sorted({result.node for result in results} | set(oldest_us) | set(late) | blocked)
            ]
            corrections = count_corrections(connection, self._principal)
        return own_series(progress, results, corrections, self._clock.now_us())
