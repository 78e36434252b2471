"""The dashboard is what Grafana's official types know: nothing of it is dropped or changed by them."""

import copy
import json
from typing import Any

from grafanalib import core
from grafanalib._gen import DashboardEncoder

from dashboards.panel_kinds import Stat
from dashboards.panels import DATASOURCE, Field, Query
from tests.dashboards.rules import steps_are_grafanas_own, thresholds_begin_at_null
from tests.dashboards.sdk import lost, round_trip


def test_the_official_types_drop_and_change_nothing(dashboard: dict[str, Any]) -> None:
    assert list(lost(dashboard, round_trip(dashboard))) == []


def test_what_grafanalib_writes_by_itself_is_seen(dashboard: dict[str, Any]) -> None:
    """Its own number with a threshold: old keys, a stretched step, and a text where the first threshold is null."""
    target = core.Target(expr="gpu_up", refId="A", datasource=DATASOURCE)
    own = core.Stat(title="own", dataSource=DATASOURCE, targets=[target], thresholds=[core.Threshold("red", 0, 0.0)])
    panel = without_nulls(json.loads(json.dumps(own.to_json_data(), cls=DashboardEncoder)))
    spoiled = {**dashboard, "panels": [panel]}
    found = set(lost(spoiled, round_trip(spoiled)))
    step = ".panels[0].fieldConfig.defaults.thresholds.steps[0]"
    assert found >= {f".panels[0].{key}: dropped" for key in ("editable", "error", "targets[0].step")}
    assert found >= {f"{step}.{key}: dropped" for key in ("op", "line", "index", "yaxis")}
    for rule in (steps_are_grafanas_own, thresholds_begin_at_null):
        assert list(rule(spoiled)) != []


def without_nulls(value: Any) -> Any:
    """The official types cannot read a null where an object belongs."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def test_our_layer_writes_none_of_it() -> None:
    panel = Stat(1, "t", "d", (0, 0, 1, 1), [Query("gpu_up")], Field("none"))
    written = json.loads(json.dumps(panel, cls=DashboardEncoder))
    assert set(written) == {
        "id",
        "type",
        "title",
        "description",
        "datasource",
        "gridPos",
        "fieldConfig",
        "options",
        "targets",
    }
    assert not {"step", "intervalFactor", "metric", "target", "query"} & set(written["targets"][0])
    assert written["fieldConfig"]["defaults"]["thresholds"]["steps"] == [{"value": None, "color": "text"}]


def test_a_key_that_grafana_does_not_know_is_seen(dashboard: dict[str, Any]) -> None:
    spoiled = copy.deepcopy(dashboard)
    spoiled["panels"][1]["options"]["sparkline"] = True
    spoiled["panels"][1]["targets"][0]["step"] = 10
    assert list(lost(spoiled, round_trip(spoiled))) == [
        ".panels[1].options.sparkline: dropped",
        ".panels[1].targets[0].step: dropped",
    ]
