"""Passes over many windows: a stretch of time once, or all that is due again and again."""

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from domain.clock import MICROSECONDS, Clock
from domain.errors import ConflictError, UnavailableError
from domain.period import HOUR_US, Period
from domain.samples import SampleRun
from domain.series import METER_LAG, METER_RESIDUAL_COMPUTE, METER_RESIDUAL_VRAM, METER_UNPRICED
from meter import ledger_store
from meter.windows import Outcome, WindowRater, WindowResult
from store.access import Principal
from store.database import Database

_NAP_S = 0.2


class SampleSink(Protocol):
    """Where the meter publishes what it knows of itself."""

    def send(self, runs: Iterable[SampleRun]) -> None:
        """Store the samples; UnavailableError where that cannot be done now."""
        ...


def rate_period(
    database: Database, principal: Principal, rater: WindowRater, period: Period, now_us: int
) -> Iterator[WindowResult]:
    """One pass over every window that the period touches, each one whole, by hour and node.

    However the time is cut into periods, a window comes out the same.
    """
    with database.read() as connection:
        busy = {
            node: ledger_store.busy_periods(connection, principal, node)
            for node in sorted(ledger_store.nodes_to_meter(connection, principal))
        }
    started = Period(period.start_us, max(period.start_us, min(period.end_us, now_us)))
    for hour in started.hours():
        for node, periods in busy.items():
            if any(each.intersect(hour) for each in periods):
                yield rater.rate_window(node, hour.start_us, now_us)


def rate_due(database: Database, principal: Principal, rater: WindowRater, now_us: int) -> Iterator[WindowResult]:
    """One pass over every window that has begun and has not settled: the present hour first, then the past.

    So what is being spent is known before the past is worked off, and a pass may be given up between two windows.
    The order is another one in each pass: windows that cannot settle yet, such as those of a node that was taken
    away, then never keep others from their turn.
    """
    with database.read() as connection:
        due = [
            (start_us, node)
            for node in ledger_store.nodes_to_meter(connection, principal)
            for start_us in ledger_store.hours_to_rate(connection, principal, node, now_us)
        ]
    random.Random(now_us).shuffle(due)  # noqa: S311 - an order, not a secret
    for start_us, node in sorted(due, key=lambda each: each[0] + HOUR_US <= now_us):
        yield rater.rate_window(node, start_us, now_us)


def follow(
    one_pass: Callable[[int], Iterable[WindowResult]],
    sink: SampleSink,
    clock: Clock,
    *,
    every_s: float,
    is_stopped: Callable[[], bool],
    report: Callable[[str], None],
) -> None:
    """Rate what is due every `every_s` seconds until stopped; a store that is down, or another meter, only delays it.

    A pass that takes longer is given up between two windows of the past, for which it has at least the time that
    the present hour took: what it leaves is due in the next.
    """
    while not is_stopped():
        began_s, now_us = clock.monotonic_s(), clock.now_us()
        until_s = began_s + every_s
        results = []
        try:
            for result in one_pass(now_us):
                results.append(result)
                if result.start_us + HOUR_US > now_us:
                    until_s = max(until_s, 2 * clock.monotonic_s() - began_s)
                if is_stopped() or clock.monotonic_s() > until_s:
                    break
            sink.send(own_series(results, clock.now_us()))
        except (UnavailableError, ConflictError) as error:
            report(str(error))
        # Short naps, so that a stop is not waited for.
        while clock.monotonic_s() < until_s and not is_stopped():
            clock.sleep_s(min(until_s - clock.monotonic_s(), _NAP_S))


def own_series(results: Iterable[WindowResult], now_us: int) -> list[SampleRun]:
    """The meter's series, from the newest window of each node that a pass rated."""
    rated = [each.window for each in results if each.window and each.outcome in (Outcome.OPEN, Outcome.SETTLED)]
    newest = {window.node: window for window in sorted(rated, key=lambda window: window.start_us)}
    second = [now_us // MICROSECONDS]
    runs = []
    for node, window in newest.items():
        values = {
            METER_LAG: (now_us - window.rated_until_us) / MICROSECONDS,
            METER_RESIDUAL_COMPUTE: window.residual_compute,
            METER_RESIDUAL_VRAM: window.residual_vram,
            METER_UNPRICED: window.unpriced_seconds,
        }
        runs += [
            SampleRun(series, {"node": node}, second, [value]) for series, value in values.items() if value is not None
        ]
    return runs
