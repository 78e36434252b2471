"""What the meter publishes of itself: how far it is, what it cannot account for, and what is being spent."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from domain.clock import MICROSECONDS
from domain.money import NANO
from domain.period import HOUR_US
from domain.samples import SampleRun
from domain.series import (
    METER_CORRECTIONS,
    METER_LAG,
    METER_LATE,
    METER_OLDEST_OPEN,
    METER_QUARANTINED,
    METER_RESIDUAL_COMPUTE,
    METER_RESIDUAL_VRAM,
    METER_SPEND_RATE,
    METER_UNKNOWN,
    METER_UNPRICED,
    Series,
)
from meter.ledger.ledger_store import Window
from meter.ledger.unclosed_store import Unclosed
from meter.windows.windows import Outcome, WindowResult


@dataclass(frozen=True, slots=True)
class NodeProgress:
    """How far a node is: its newest window of which anything is rated, and its oldest hour that is due. None: none.

    `unclosed` is of its rated windows that are not closed, None where there are none; `late_seconds` are device-seconds
    of which samples came after the close.
    """

    node: str
    newest: Window | None
    oldest_due_us: int | None
    unclosed: Unclosed | None
    late_seconds: int


def own_series(
    progress: Iterable[NodeProgress], results: Sequence[WindowResult], corrections: int, now_us: int
) -> list[SampleRun]:
    """The meter's series: per node how far it is, per tenant what the present hour of `results` costs an hour, and how
    many corrections there are."""
    second = [now_us // MICROSECONDS]
    runs = [run for each in progress for run in _node_series(each, now_us)]
    runs.append(SampleRun(METER_CORRECTIONS, {}, second, [corrections]))
    runs += [
        SampleRun(METER_QUARANTINED, {"node": result.node}, second, [result.quarantined_samples])
        for result in _newest(results)
    ]
    runs += [
        SampleRun(METER_SPEND_RATE, {"tenant": tenant, "currency": currency}, second, [amount / NANO])
        for (tenant, currency), amount in _spent_nano_per_hour(results, now_us).items()
    ]
    return runs


def _node_series(progress: NodeProgress, now_us: int) -> Iterator[SampleRun]:
    values: dict[Series, float | None] = {}
    if progress.oldest_due_us is not None:
        values[METER_OLDEST_OPEN] = progress.oldest_due_us // MICROSECONDS
    newest = progress.newest
    # Where nothing is due nothing lags: a node that is gone, records that have ended.
    if newest is not None and progress.oldest_due_us is not None:
        values[METER_LAG] = (now_us - newest.rated_until_us) / MICROSECONDS
    if newest is not None:
        values[METER_LATE] = progress.late_seconds
    if progress.unclosed is not None:
        values |= {
            METER_RESIDUAL_COMPUTE: progress.unclosed.residual_compute,
            METER_RESIDUAL_VRAM: progress.unclosed.residual_vram,
            METER_UNKNOWN: progress.unclosed.unknown_windows,
            METER_UNPRICED: progress.unclosed.unpriced_seconds,
        }
    for series, value in values.items():
        if value is not None:
            yield SampleRun(series, {"node": progress.node}, [now_us // MICROSECONDS], [value])


def _newest(results: Iterable[WindowResult]) -> Iterable[WindowResult]:
    """Of each node the newest window that was rated."""
    rated = [each for each in results if each.window is not None and each.outcome is not Outcome.CLOSED]
    return {each.node: each for each in sorted(rated, key=lambda each: each.start_us)}.values()


def _spent_nano_per_hour(results: Iterable[WindowResult], now_us: int) -> dict[tuple[str, str], float]:
    """By tenant and currency, at the rate of the present hour so far."""
    spent_nano: dict[tuple[str, str], float] = defaultdict(float)
    for result in results:
        window = result.window
        if window is not None and result.start_us + HOUR_US > now_us and window.rated_until_us > window.start_us:
            share_of_hour = (window.rated_until_us - window.start_us) / HOUR_US
            for charge in result.charges:
                spent_nano[charge.tenant, charge.currency] += charge.amount_nano / share_of_hour
    return spent_nano
