"""Passes over many windows: a stretch of time once, or all that is due again and again."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from domain.clock import MICROSECONDS, Clock
from domain.errors import GputabError, UnavailableError
from domain.money import NANO
from domain.period import HOUR_US, Period
from domain.samples import SampleRun, SampleSink
from domain.series import (
    METER_LAG,
    METER_OLDEST_OPEN,
    METER_RESIDUAL_COMPUTE,
    METER_RESIDUAL_VRAM,
    METER_SPEND_RATE,
    METER_UNPRICED,
)
from meter.backlog_store import due_windows, find_windows, windows_of
from meter.windows import Outcome, WindowRater, WindowResult
from store.access import Principal
from store.database import Database

_NAP_S = 0.2


def rate_period(
    database: Database, principal: Principal, rater: WindowRater, period: Period, now_us: int
) -> Iterator[WindowResult]:
    """One pass over every window that the period touches, each one whole, by hour and node.

    However the time is cut into periods, a window comes out the same.
    """
    find_windows(database, principal)
    begun = Period(period.start_us, max(period.start_us, min(period.end_us, now_us)))
    with database.read() as connection:
        places = windows_of(connection, principal, begun)
    for node, start_us in places:
        yield rater.rate_window(node, start_us, now_us)


class Follower:
    """Rates what is due, and publishes what the meter knows of itself."""

    def __init__(
        self,
        database: Database,
        principal: Principal,
        rater: WindowRater,
        sink: SampleSink,
        clock: Clock,
        report: Callable[[str], None],
    ) -> None:
        """`report` takes one line for every window that could not be rated."""
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
                self._sink.send(own_series(results, self._clock.now_us()))
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
            try:
                results.append(self._rater.rate_window(node, start_us, now_us))
            except UnavailableError:
                raise
            except GputabError as error:
                self._report(str(error))
            if is_present:
                until_s = max(until_s, 2 * self._clock.monotonic_s() - began_s)
        return results


def own_series(results: Iterable[WindowResult], now_us: int) -> list[SampleRun]:
    """The meter's series out of the windows of a pass: per node of its newest, per tenant of the present hour."""
    by_node: dict[str, list[WindowResult]] = defaultdict(list)
    spent_nano: dict[tuple[str, str], float] = defaultdict(float)
    for result in results:
        by_node[result.node].append(result)
        window = result.window
        if window is not None and result.start_us + HOUR_US > now_us and window.rated_until_us > window.start_us:
            share_of_hour = (window.rated_until_us - window.start_us) / HOUR_US
            for charge in result.charges:
                spent_nano[charge.tenant, charge.currency] += charge.amount_nano / share_of_hour
    second = [now_us // MICROSECONDS]
    runs = [run for node, its_results in by_node.items() for run in _node_series(node, its_results, now_us)]
    runs += [
        SampleRun(METER_SPEND_RATE, {"tenant": tenant, "currency": currency}, second, [amount / NANO])
        for (tenant, currency), amount in spent_nano.items()
    ]
    return runs


def _node_series(node: str, results: list[WindowResult], now_us: int) -> Iterator[SampleRun]:
    second = [now_us // MICROSECONDS]
    unfinished_us = [each.start_us for each in results if each.outcome in (Outcome.OPEN, Outcome.WAITING)]
    newest = max(results, key=lambda result: result.start_us).window
    if unfinished_us:
        yield SampleRun(METER_OLDEST_OPEN, {"node": node}, second, [min(unfinished_us) // MICROSECONDS])
    if newest is None:
        return
    values = {
        METER_LAG: (now_us - newest.rated_until_us) / MICROSECONDS,
        METER_RESIDUAL_COMPUTE: newest.residual_compute,
        METER_RESIDUAL_VRAM: newest.residual_vram,
        METER_UNPRICED: newest.unpriced_seconds,
    }
    for series, value in values.items():
        if value is not None:
            yield SampleRun(series, {"node": node}, second, [value])
