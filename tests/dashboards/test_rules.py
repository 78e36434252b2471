"""Each dashboard keeps each rule, and each rule sees a dashboard that breaks it."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.dashboards import rules
from tests.dashboards.grafana import all_panels
from tests.dashboards.rules import RULES, Rule


@pytest.mark.parametrize("rule", RULES)
def test_the_fleet_dashboard_keeps_the_rule(rule: Rule, dashboard: dict[str, Any]) -> None:
    assert list(rule(dashboard)) == []


Break = Callable[[dict[str, Any]], object]


def panel(board: dict[str, Any], number: int) -> dict[str, Any]:
    """The panel of that number."""
    found: dict[str, Any] = next(each for each in all_panels(board) if each["id"] == number)
    return found


def set_expr(number: int, expr: str) -> Break:
    """Another first query in a panel."""
    return lambda board: panel(board, number)["targets"][0].update(expr=expr)


def set_steps(steps: list[dict[str, Any]]) -> Break:
    """Other colours in the panel of watermarks."""
    return lambda board: panel(board, 11)["fieldConfig"]["defaults"]["thresholds"].update(steps=steps)


BREAKS: list[tuple[Rule, Break]] = [
    (rules.has_a_data_source_variable, lambda board: board["templating"]["list"].pop(0)),
    (rules.asks_the_chosen_source, lambda board: panel(board, 1).update(datasource={"type": "prometheus", "uid": "x"})),
    (rules.asks_the_chosen_source, lambda board: panel(board, 1)["targets"][0].pop("datasource")),
    (rules.asks_the_chosen_source, lambda board: board["templating"]["list"][1].pop("datasource")),
    (rules.variables_follow_the_range, lambda board: board["templating"]["list"][1].update(refresh=1)),
    (rules.all_is_a_pattern, lambda board: board["templating"]["list"][1].pop("allValue")),
    (rules.variables_are_known, set_expr(1, 'sum(gpu_up{node=~"$host"})')),
    (rules.variables_are_known, set_expr(1, 'sum(gpu_up{node=~"${node:regex}"})')),
    (rules.variables_are_known, lambda board: board["templating"]["list"][1].update(name="rack")),
    (
        rules.links_lead_somewhere,
        lambda board: panel(board, 12)["fieldConfig"]["overrides"][0]["properties"][0]["value"][0].update(
            url="/d/none"
        ),
    ),
    (
        rules.links_lead_somewhere,
        lambda board: panel(board, 12)["fieldConfig"]["overrides"][0]["properties"][0]["value"][0].update(
            url="/d/gputab-fleet?var-rack=1"
        ),
    ),
    (rules.panels_are_described, lambda board: panel(board, 1).update(description="Cards.")),
    (rules.panels_are_described, lambda board: panel(board, 1).update(title="")),
    (rules.panels_say_when_empty, lambda board: panel(board, 1)["fieldConfig"]["defaults"].pop("noValue")),
    (rules.panels_have_queries, lambda board: panel(board, 1).update(targets=[])),
    (rules.units_exist, lambda board: panel(board, 1)["fieldConfig"]["defaults"].update(unit="currencyCNY")),
    (rules.panels_do_not_overlap, lambda board: panel(board, 1)["gridPos"].update(w=6)),
    (rules.panels_do_not_overlap, lambda board: panel(board, 7)["gridPos"].update(w=5)),
    (rules.numbers_are_unique, lambda board: panel(board, 1).update(id=2)),
    (rules.is_not_edited_in_grafana, lambda board: board.update(editable=True)),
    (rules.is_of_the_last_classic_schema, lambda board: board.update(schemaVersion=12)),
    (rules.steps_are_grafanas_own, lambda board: panel(board, 1).update(maxDataPoints=100)),
    (rules.steps_are_grafanas_own, lambda board: panel(board, 1)["targets"][0].update(intervalFactor=2)),
    (rules.steps_are_grafanas_own, lambda board: panel(board, 1)["targets"][0].update(step=10)),
    (rules.totals_are_no_sums_of_windows, lambda board: panel(board, 22)["options"]["legend"]["calcs"].append("sum")),
    (rules.totals_are_no_sums_of_windows, set_expr(33, "sum(increase(collector_holes_total[$__rate_interval]))")),
    (rules.totals_are_no_sums_of_windows, set_expr(31, "sum(increase(collector_holes_total[$__range]))")),
    (rules.totals_are_no_sums_of_windows, set_expr(31, "sum(rate(collector_holes_total[$__interval]))")),
    (rules.counters_are_rated, set_expr(31, "sum(collector_holes_total)")),
    (rules.queries_parse, set_expr(31, "sum(gpu_up")),
    (rules.queries_parse, set_expr(31, "topk_max(3, gpu_up)")),
    (rules.series_are_in_the_catalogue, set_expr(31, "sum(gpu_is_up)")),
    (rules.selectors_use_labels_of_their_series, set_expr(31, 'sum(gpu_up{host="n"})')),
    (
        rules.heatmaps_tell_zero_from_nothing,
        lambda board: panel(board, 10)["options"].update(filterValues={"le": 1e-9}),
    ),
    (rules.heatmaps_tell_zero_from_nothing, lambda board: panel(board, 10)["options"]["yAxis"].pop("reverse")),
    (rules.heatmaps_tell_zero_from_nothing, lambda board: panel(board, 10)["options"]["color"].pop("max")),
    (rules.thresholds_begin_at_null, set_steps([{"value": "null", "color": "green"}])),
    (rules.thresholds_begin_at_null, set_steps([{"value": None, "color": "a"}, {"value": "85", "color": "b"}])),
    (
        rules.thresholds_begin_at_null,
        set_steps([{"value": None, "color": "a"}, {"value": 2, "color": "b"}, {"value": 1, "color": "c"}]),
    ),
    (rules.thresholds_begin_at_null, set_steps([])),
    (rules.nothing_else_is_null, lambda board: panel(board, 1).update(interval=None)),
]


@pytest.mark.parametrize(("rule", "spoil"), BREAKS)
def test_a_break_of_the_rule_is_seen(rule: Rule, spoil: Break, dashboard: dict[str, Any]) -> None:
    spoiled = copy.deepcopy(dashboard)
    spoil(spoiled)
    assert list(rule(spoiled)) != []


def test_every_rule_is_shown_something_that_breaks_it() -> None:
    assert {rule for rule, _ in BREAKS} == set(RULES)
