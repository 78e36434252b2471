"""Passes over many windows: a stretch of time once, or all that is due again and again."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from domain.clock import MICROSECONDS, Clock
from domain.errors import UnavailableError
from domain.period import Period
from domain.samples import SampleRun
from domain.series import METER_LAG, METER_RESIDUAL_COMPUTE, METER_RESIDUAL_VRAM, METER_UNPRICED
from meter import ledger_store
from meter.windows import Outcome, WindowRater, WindowResult
from store.access import Principal
from store.database import Database


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
    """One pass over every window that has begun and has not settled, oldest first."""
    with database.read() as connection:
        due = sorted(
            (start_us, node)
            for node in ledger_store.nodes_to_meter(connection, principal)
            for start_us in ledger_store.hours_to_rate(connection, principal, node, now_us)
        )
    for start_us, node in due:
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
    """Rate what is due every `every_s` seconds until stopped; a store that is down delays and loses nothing."""
    while not is_stopped():
        began_s = clock.monotonic_s()
        try:
            results = list(one_pass(clock.now_us()))
            sink.send(own_series(results, clock.now_us()))
        except UnavailableError as error:
            report(str(error))
        remaining_s = every_s - (clock.monotonic_s() - began_s)
        # Short naps, so that a stop is not waited for.
        while remaining_s > 0 and not is_stopped():
            nap_s = min(remaining_s, 0.2)
            clock.sleep_s(nap_s)
            remaining_s -= nap_s


def own_series(results: Iterable[WindowResult], now_us: int) -> list[SampleRun]:
    """The meter's series, from the newest window of each node that a pass rated."""
    newest: dict[str, WindowResult] = {}
    for result in results:
        if result.outcome in (Outcome.OPEN, Outcome.SETTLED):
            newest[result.node] = result
    second = [now_us // MICROSECONDS]
    runs = []
    for node, result in newest.items():
        window = result.window
        if window is None:
            continue
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
