"""A dashboard in the classic schema, version 42: the last of it, which Grafana 11 to 13 load from a file as it is."""

import json
from collections.abc import Sequence
from typing import Any

from grafanalib import core
from grafanalib._gen import DashboardEncoder

from dashboards.panels import DATASOURCE, Panel, Row
from domain.series import Series

SCHEMA_VERSION = 42

ALL = ".*"


class DataSourceVariable(core.Template):  # type: ignore[misc] # grafanalib has no types
    """Which store is asked: a data source of the Prometheus type, the default one at first."""

    def __init__(self) -> None:
        super().__init__(name="datasource", query="prometheus", label="Data source", type="datasource")

    def to_json_data(self) -> dict[str, Any]:
        """Without a current value, which would be one of the machine that it was written on."""
        return {
            "type": self.type,
            "name": self.name,
            "label": self.label,
            "query": self.query,
            "hide": 0,
            "includeAll": False,
            "multi": False,
            "options": [],
            "refresh": core.REFRESH_ON_DASHBOARD_LOAD,
            "regex": "",
            "skipUrlSync": False,
        }


class LabelVariable(core.Template):  # type: ignore[misc] # grafanalib has no types
    """Any of the values that a label of a series has in the range, all of them at first.

    "All" stands for a pattern: a list of every value of a large fleet would be longer than the store takes
    (`-search.maxQueryLen`). In a query it is written `label=~"$name"`, which Grafana's data source escapes for a
    pattern between quotes; `${name:regex}` is escaped once too little for a value with a dot in it.
    """

    def __init__(self, name: str, label: str, series: Series) -> None:
        query = f"label_values({series.name}, {name})"
        super().__init__(name=name, query=query, label=label, type="query", allValue=ALL, includeAll=True, multi=True)

    def to_json_data(self) -> dict[str, Any]:
        """Asked again whenever the range changes: what is there follows it."""
        return {
            "type": self.type,
            "name": self.name,
            "label": self.label,
            "datasource": DATASOURCE,
            "definition": self.query,
            "query": {"qryType": 1, "query": self.query, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
            "allValue": self.allValue,
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
            "hide": 0,
            "includeAll": True,
            "multi": True,
            "options": [],
            "refresh": core.REFRESH_ON_TIME_RANGE_CHANGE,
            "regex": "",
            "skipUrlSync": False,
            "sort": core.SORT_ALPHA_ASC,
        }


class Dashboard(core.Dashboard):  # type: ignore[misc] # grafanalib has no types
    """Panels under variables, by default the last fifteen minutes in the reader's own zone."""

    def __init__(
        self,
        uid: str,
        title: str,
        description: str,
        variables: Sequence[core.Template],
        panels: Sequence[Panel | Row],
    ) -> None:
        super().__init__(
            uid=uid,
            title=title,
            description=description,
            templating=core.Templating(list(variables)),
            panels=list(panels),
            time=core.Time("now-15m", "now"),
        )

    def to_json_data(self) -> dict[str, Any]:
        """Not to be edited in Grafana, where the next start would undo it."""
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.description,
            "annotations": {"list": []},
            "editable": False,
            "graphTooltip": core.GRAPH_TOOLTIP_MODE_SHARED_CROSSHAIR,
            "links": [],
            "panels": self.panels,
            "refresh": "10s",
            "schemaVersion": SCHEMA_VERSION,
            "tags": ["gputab"],
            "templating": self.templating,
            "time": self.time,
            "timepicker": {},
            "timezone": "browser",
        }

    def text(self) -> str:
        """The file: keys in order, a newline at the end, so that equal dashboards are equal bytes."""
        return json.dumps(self, cls=DashboardEncoder, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
