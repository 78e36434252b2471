"""Every query of the Fleet dashboard on a real VictoriaMetrics, as Grafana would send it, at several zooms."""

from typing import Any

import pytest

from collector.delivery.holes import HoleReason
from dashboards.fleet import UID
from domain.samples import SampleRun
from domain.series import COLLECTOR_HOLES, GPU_MEMORY_TOTAL, GPU_MEMORY_USED
from domain.units import GIB
from domain.watermarks import WATERMARKS
from tests.dashboards.conftest import Store
from tests.dashboards.fleet_samples import FLEET, Scene, large_fleet, samples
from tests.dashboards.grafana import View, all_panels, ask, expression, options, step_ms

# The widest a panel may be told to be, and what a browser still draws at once.
BYTES_MAX = 1_500_000
LINES_MAX = 40
QUERY_LENGTH_MAX = 16_384  # -search.maxQueryLen

VIEWS = [(range_s, width) for range_s in (300, 3_600, 86_400) for width in (500, 1_800)]


@pytest.fixture(scope="module")
def end_s(store: Store) -> int:
    """When the ten minutes of the demo's fleet end, in which nothing goes wrong."""
    scene = Scene(store.new_time())
    store.push(samples(scene))
    return scene.end_s


@pytest.mark.parametrize(("range_s", "width"), VIEWS)
def test_every_query_finds_something_within_its_budget(store: Store, end_s: int, range_s: int, width: int) -> None:
    view = View(end_s, range_s, width)
    for panel in all_panels(store.dashboard):
        for target in panel["targets"]:
            place = f"{panel['title']} {target['refId']}"
            answer = ask(store.url, view, store.dashboard, panel, target)
            assert answer.status == 200, (place, answer.text)
            assert 0 < len(answer.lines) <= LINES_MAX, place
            assert len(answer.text) <= BYTES_MAX, place
            assert not [line.legend for line in answer.lines if "{{" in line.legend], place
            if panel["fieldConfig"]["defaults"]["unit"] == "percentunit":
                # -1 stands in the heatmap for no value.
                assert all(value == -1 or 0 <= value <= 1 for line in answer.lines for value in line.values), place


def test_every_variable_offers_what_there_is(store: Store, end_s: int, dashboard: dict[str, Any]) -> None:
    found = {
        variable["name"]: options(store.url, View(end_s, 900), variable)
        for variable in dashboard["templating"]["list"]
        if variable["type"] == "query"
    }
    assert found == {"node": sorted(FLEET.nodes), "tenant": ["atelier", "northlab", "quantfold", "vision-7"]}


def test_a_chosen_node_is_all_there_is(store: Store, end_s: int) -> None:
    view = View(end_s, 900, chosen={"node": ["sim-h100"], "tenant": None})
    assert store.number(1, view, query=1) == 4
    assert {name.partition("/")[0] for name in store.rows(10, view)} == {"sim-h100"}
    assert {name.partition("/")[0] for name in store.rows(11, view)} == {"sim-h100"}
    assert store.number(6, view) == pytest.approx(128 / 132 / 4, abs=0.01)


def test_a_chosen_tenant_is_all_that_is_counted(store: Store, end_s: int) -> None:
    view = View(end_s, 900, chosen={"node": None, "tenant": ["atelier", "northlab"]})
    assert store.number(6, view) == pytest.approx((0.4 + 0.5 + 1) / 20)
    assert store.number(7, view) == pytest.approx(4.4 + 1.1)
    assert set(store.rows(20, view)) == {"atelier", "northlab"}


def test_thirty_chosen_nodes_are_no_query_too_long(store: Store, end_s: int) -> None:
    """A list that is written out: the store refuses a query of more than 16,384 characters with 422."""
    nodes = [f"rack-{number:02}-node-07" for number in range(30)]
    view = View(end_s, 900, chosen={"node": nodes, "tenant": [f"tenant-{number:02}" for number in range(30)]})
    for panel in all_panels(store.dashboard):
        for target in panel["targets"]:
            assert len(expression(view, store.dashboard, panel, target)) < QUERY_LENGTH_MAX, panel["title"]
            assert ask(store.url, view, store.dashboard, panel, target).status == 200, panel["title"]


def test_what_the_stats_say(store: Store, end_s: int) -> None:
    view = View(end_s, 900)
    assert [store.number(1, view, query) for query in (0, 1)] == [20, 20]
    assert (store.number(2, view), store.number(3, view)) == (0, 0)
    total = sum(each.usable_bytes for each in FLEET.cards.values())
    used = store.ask(21, view, query=1).lines[0].values[-1]
    assert store.number(5, view) == pytest.approx(used / total)
    assert store.number(7, view) == pytest.approx(4.4 + 1.1 + 9.75)


@pytest.mark.parametrize(("range_s", "width"), VIEWS)
def test_one_full_second_shows_at_every_zoom(store: Store, range_s: int, width: int) -> None:
    """The fullest moment, never the mean: who was out of memory for a second has failed."""
    end_s = store.new_time()
    seconds = range(end_s - 240, end_s + 1)
    used = {second_s: 5 * GIB if second_s != end_s - 97 else 99 * GIB // 10 for second_s in seconds}
    labels = {"node": "n", "gpu_uuid": "GPU-1"}
    store.push(
        [
            SampleRun(GPU_MEMORY_TOTAL, labels, seconds, [10 * GIB] * len(seconds)),
            SampleRun(GPU_MEMORY_USED, labels, seconds, [used[second_s] for second_s in seconds]),
        ]
    )
    assert max(store.rows(11, View(end_s, range_s, width))["n/GPU-1"]) == pytest.approx(0.99)


def test_the_fullest_are_few_and_stay_the_same(store: Store, end_s: int) -> None:
    """Most cards are equally empty: which of them are shown must not change with each refresh."""
    view = View(end_s, 900)
    assert len({tuple(sorted(store.rows(11, view))) for _ in range(8)}) == 1
    cards = {tuple(sorted(str(line.labels) for line in store.ask(12, view, query=q).lines)) for q in (0, 1, 2) * 3}
    assert len(cards) == 1


def test_the_table_says_whose_each_card_is(store: Store, end_s: int) -> None:
    found = {(line.labels["card"], line.labels["tenant"]) for line in store.ask(12, View(end_s, 900)).lines}
    assert {
        ("sim-4090-a/00", "atelier"),
        ("sim-4090-a/00", "northlab"),
        ("sim-4090-a/01", "atelier"),
        ("sim-h100/02/gi09", "vision-7"),
        ("sim-h100/03/gi07", "not granted"),
    } <= found
    assert "sim-h100/02" not in {name for name, _ in found}


def test_a_collector_that_keeps_up_is_no_second_behind_and_one_that_is_gone_ages(store: Store, end_s: int) -> None:
    assert set(store.rows(32, View(end_s, 300))["sim-h100"]) == {0}
    ages = store.rows(32, View(end_s + 60, 60))["sim-h100"]
    assert ages == sorted(ages)
    assert ages[-1] == 59


def test_seconds_that_a_collector_stood_by_are_no_holes(store: Store) -> None:
    """Another told of the node meanwhile."""
    first_s = store.new_time()
    seconds = tuple(range(first_s, first_s + 60))
    store.push(
        SampleRun(COLLECTOR_HOLES, {"node": "node-1", "reason": reason}, seconds, tuple(by_second))
        for reason, by_second in ((HoleReason.STOOD_BY, range(60)), (HoleReason.LATE, [0] * 30 + [2] * 30))
    )
    assert store.number(33, View(seconds[-1], 50)) == 2


def test_a_grant_that_ended_falls_to_zero(store: Store, end_s: int) -> None:
    held = store.rows(20, View(end_s, 900))["quantfold"]
    assert (held[0], held[-1]) == (1, 0)
    assert set(held) == {0, 1}


def test_the_watermark_lines_are_the_alerts_own_numbers(dashboard: dict[str, Any]) -> None:
    panel = next(panel for panel in all_panels(dashboard) if panel["id"] == 11)
    defaults = panel["fieldConfig"]["defaults"]
    assert [step["value"] for step in defaults["thresholds"]["steps"]] == [None, *(w.used_ratio for w in WATERMARKS)]
    assert defaults["custom"]["thresholdsStyle"] == {"mode": "line"}
    assert all(f"{mark.level} {mark.used_ratio:.0%}" in panel["description"] for mark in WATERMARKS)


def test_a_large_fleet_has_a_row_a_card_and_few_lines(store: Store) -> None:
    scene = Scene(store.new_time(), length_s=8, fleet=large_fleet(32))
    store.push(samples(scene))
    view = View(scene.end_s, 3_600)
    rows = list(store.rows(10, view))
    assert rows == sorted(rows)
    assert len(rows) == store.number(1, view) == 256
    assert len(store.rows(11, view)) == 10
    assert len(store.ask(12, view).lines) == 20


def test_the_link_of_a_card_is_to_this_dashboard(dashboard: dict[str, Any]) -> None:
    panel = next(panel for panel in all_panels(dashboard) if panel["id"] == 12)
    properties = [each for override in panel["fieldConfig"]["overrides"] for each in override["properties"]]
    (links,) = [each["value"] for each in properties if each["id"] == "links"]
    assert links[0]["url"].startswith(f"/d/{UID}?var-node=")


@pytest.mark.parametrize(
    ("range_s", "width", "least", "step_s"),
    [(900, 1_000, "1s", 1), (3_600, 1_000, "1s", 5), (86_400, 1_000, "1s", 60), (300, 1_000, "10s", 10)],
)
def test_the_step_is_grafanas(range_s: int, width: int, least: str, step_s: int) -> None:
    """3.6 s is rounded to 5 s and 86.4 s to a minute, by the table of gtime.RoundInterval."""
    assert step_ms(View(0, range_s, width), {"interval": least}, {}) == step_s * 1_000
