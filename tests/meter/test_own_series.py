"""What the meter publishes of itself."""

from collections.abc import Iterable
from dataclasses import replace

from domain.period import HOUR_US
from domain.samples import SampleRun
from meter.rating.charges import Charge
from meter.windows.ledger_store import Window
from meter.windows.own_series import NodeProgress, own_series
from meter.windows.windows import Outcome, WindowResult

US = 1_000_000


def _series(runs: Iterable[SampleRun]) -> dict[tuple[str, ...], float]:
    return {(run.series.name, *run.labels.values()): value for run in runs for value in run.values}


def test_a_node_is_published_as_far_as_it_is_rated(hour_s: int) -> None:
    """A residual that is not known is not 0; where nothing is due nothing lags; and of a node of which nothing is rated
    it is only known since when."""
    newest = Window("n1", hour_s * US, "open", (hour_s + 100) * US, 1, "d", 0, 0, 9, 1)
    progress = [
        NodeProgress("n1", newest, hour_s * US),
        NodeProgress("n2", replace(newest, node="n2", residual_compute=None, residual_vram=None), None),
        NodeProgress("n3", None, hour_s * US - HOUR_US),
    ]
    runs = own_series(progress, [], (hour_s + 105) * US + 500_000)
    assert _series(runs) == {
        ("meter_oldest_open_window_timestamp_seconds", "n1"): hour_s,
        ("meter_lag_seconds", "n1"): 5.5,
        ("meter_residual_compute_unit_seconds", "n1"): 0,
        ("meter_residual_vram_byte_seconds", "n1"): 0,
        ("meter_unpriced_seconds", "n1"): 9,
        ("meter_unpriced_seconds", "n2"): 9,
        ("meter_oldest_open_window_timestamp_seconds", "n3"): hour_s - 3_600,
    }
    assert all(list(run.seconds) == [hour_s + 105] for run in runs)


def test_the_meter_publishes_what_each_tenant_spends_an_hour(hour_s: int) -> None:
    """Of all nodes of the present hour, each as far as it is rated; the past is spent."""
    past = Window("n1", hour_s * US, "settled", hour_s * US + HOUR_US, 1, "d", 0, 0, 0, 1)
    start_us = past.start_us + HOUR_US
    half = Window("n1", start_us, "open", start_us + HOUR_US // 2, 0, None, 0, 0, 0, 1)
    tenth = replace(half, node="n2", rated_until_us=start_us + HOUR_US // 10)
    nothing = replace(half, node="n3", rated_until_us=start_us)
    costs = Charge(
        *("n1", start_us, "a1", 0, "gpu", "r", "2026-03-01", "acme", "p", "s", 1, 1, 0, 0, 0, 1, 1, 1),
        currency="CNY",
        amount_nano=1_100_000_000,
    )
    results = [
        _result(Outcome.SETTLED, past, replace(costs, amount_nano=77)),
        _result(Outcome.OPEN, half, costs, replace(costs, dimension="vram", amount_nano=100_000_000)),
        _result(Outcome.OPEN, tenth, costs, replace(costs, tenant="globex", currency="USD", amount_nano=1_000_000)),
        _result(Outcome.OPEN, nothing),
        WindowResult("n4", start_us, Outcome.WAITING, None, ()),
    ]
    spent = _series(own_series([], results, start_us + HOUR_US // 2))
    assert {key: round(value, 9) for key, value in spent.items()} == {
        ("meter_spend_rate_per_hour", "acme", "CNY"): 2 * 1.2 + 10 * 1.1,
        ("meter_spend_rate_per_hour", "globex", "USD"): 0.01,
    }


def _result(outcome: Outcome, window: Window, *its_charges: Charge) -> WindowResult:
    return WindowResult(window.node, window.start_us, outcome, window, its_charges)
