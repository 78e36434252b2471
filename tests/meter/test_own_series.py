"""What the meter publishes of itself."""

from collections.abc import Iterable
from dataclasses import replace

from domain.period import HOUR_US
from domain.samples import SampleRun
from meter.ledger.ledger_store import Window
from meter.ledger.unclosed_store import Unclosed
from meter.rating.charges import Charge
from meter.windows.own_series import NodeProgress, own_series
from meter.windows.windows import Outcome, WindowResult

US = 1_000_000


def _series(runs: Iterable[SampleRun]) -> dict[tuple[str, ...], float]:
    return {(run.series.name, *run.labels.values()): value for run in runs for value in run.values}


def test_a_node_is_published_as_far_as_it_is_rated(hour_s: int) -> None:
    """Where nothing is due nothing lags, what is closed has no residual, and of a node of which nothing is rated it is
    only known since when."""
    newest = Window("n1", hour_s * US, "open", (hour_s + 100) * US, 1, "d", 0, 0, 9, 1)
    progress = [
        NodeProgress("n1", newest, hour_s * US, Unclosed(5, 7, 0, 9), 0),
        NodeProgress("n2", replace(newest, node="n2", state="closed"), None, None, 70),
        NodeProgress("n3", None, hour_s * US - HOUR_US, None, 0),
    ]
    runs = own_series(progress, [], 3, (hour_s + 105) * US + 500_000)
    assert _series(runs) == {
        ("meter_oldest_open_window_timestamp_seconds", "n1"): hour_s,
        ("meter_lag_seconds", "n1"): 5.5,
        ("meter_residual_compute_unit_seconds", "n1"): 5,
        ("meter_residual_vram_byte_seconds", "n1"): 7,
        ("meter_unknown_windows", "n1"): 0,
        ("meter_unpriced_seconds", "n1"): 9,
        ("meter_late_device_seconds", "n1"): 0,
        ("meter_late_device_seconds", "n2"): 70,
        ("meter_corrections_total",): 3,
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
    spent = _series(own_series([], results, 0, start_us + HOUR_US // 2))
    assert {key: round(value, 9) for key, value in spent.items() if "spend" in key[0]} == {
        ("meter_spend_rate_per_hour", "acme", "CNY"): 2 * 1.2 + 10 * 1.1,
        ("meter_spend_rate_per_hour", "globex", "USD"): 0.01,
    }


def test_readings_that_no_card_can_have_made_are_told_of_the_newest_window_of_each_node(hour_s: int) -> None:
    old = Window("n1", hour_s * US, "settled", hour_s * US + HOUR_US, 1, "d", 0, 0, 0, 1)
    new = replace(old, start_us=old.start_us + HOUR_US, rated_until_us=old.rated_until_us + HOUR_US)
    results = [
        replace(_result(Outcome.OPEN, new), quarantined_samples=5),
        replace(_result(Outcome.SETTLED, old), quarantined_samples=7),
        replace(_result(Outcome.SETTLED, replace(old, node="n2")), quarantined_samples=0),
        _result(Outcome.CLOSED, replace(new, node="n3", state="closed")),
        WindowResult("n4", old.start_us, Outcome.BUSY, None, ()),
    ]
    told = _series(own_series([], results, 0, hour_s * US))
    assert {key[1]: value for key, value in told.items() if key[0] == "meter_quarantined_samples"} == {"n1": 5, "n2": 0}


def _result(outcome: Outcome, window: Window, *its_charges: Charge) -> WindowResult:
    return WindowResult(window.node, window.start_us, outcome, window, its_charges)
