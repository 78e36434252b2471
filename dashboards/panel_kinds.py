"""The kinds of panel that our dashboards draw, each with the options it has in Grafana 11 and later."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from grafanalib import core

from dashboards.panels import Field, Panel, Query

_SHOWN_EVERYWHERE = {"legend": False, "tooltip": False, "viz": False}


class Stat(Panel):
    """One number, or one a query, as of the end of the range."""

    kind: ClassVar[str] = core.STAT_TYPE

    def options(self) -> dict[str, Any]:
        """The last value, without a line behind it: it would be of an instant query, a single point."""
        return {
            "colorMode": "value",
            "graphMode": "none",
            "justifyMode": "auto",
            "orientation": "auto",
            "percentChangeColorMode": "standard",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "showPercentChange": False,
            # "auto" would hide the name of a single value, such as the currency of an amount.
            "textMode": "value_and_name" if any(query.legendFormat for query in self.targets) else "value",
            "wideLayout": True,
        }


class RatioHeatmap(Panel):
    """A row a series, coloured from 0 to 1, in the order of the answer from the top.

    A cell of 0 is drawn, one of -1 is not: a series says -1 where it has no value, and keeps its row.
    """

    kind: ClassVar[str] = core.HEATMAP_TYPE

    def options(self) -> dict[str, Any]:
        """Fixed colours, so that one busy card does not change those of the others."""
        return {
            "calculate": False,
            "cellGap": 1,
            "cellValues": {"unit": core.PERCENT_UNIT_FORMAT, "decimals": 0},
            "color": {
                "mode": "scheme",
                "scheme": "Viridis",
                "fill": "dark-orange",
                "exponent": 0.5,
                "steps": 64,
                "reverse": False,
                "min": 0,
                "max": 1,
            },
            "exemplars": {"color": "rgba(255,0,255,0.7)"},
            # The default, 1e-9, would hide idle cards as if they had not been sampled.
            "filterValues": {"le": -1},
            "legend": {"show": True},
            "rowsFrame": {"layout": "auto"},
            "showValue": "never",
            "tooltip": {"mode": "single", "yHistogram": False, "showColorScale": True},
            # The first row would else be the lowest.
            "yAxis": {"axisPlacement": "left", "reverse": True},
        }

    def custom(self) -> dict[str, Any]:
        """Nothing is hidden, rows are of equal height."""
        return {"hideFrom": _SHOWN_EVERYWHERE, "scaleDistribution": {"type": "linear"}}


class TimeSeries(Panel):
    """Lines over time, broken where there is no value."""

    kind: ClassVar[str] = core.TIMESERIES_TYPE
    draws_thresholds: ClassVar[bool] = False
    is_stacked: ClassVar[bool] = False

    def options(self) -> dict[str, Any]:
        """Never a total in the legend: windows that overlap, or samples left out, make it wrong."""
        return {
            "legend": {
                "calcs": ["lastNotNull", "max"],
                "displayMode": "table",
                "placement": "right",
                "showLegend": True,
            },
            "tooltip": {"mode": "multi", "sort": "desc"},
        }

    def custom(self) -> dict[str, Any]:
        """A value stands for the step that ends with it."""
        return {
            "axisPlacement": "auto",
            "drawStyle": "line",
            "fillOpacity": 30 if self.is_stacked else 0,
            "gradientMode": "none",
            "hideFrom": _SHOWN_EVERYWHERE,
            "insertNulls": False,
            "lineInterpolation": "stepBefore",
            "lineWidth": 1,
            "pointSize": 4,
            "scaleDistribution": {"type": "linear"},
            "showPoints": "auto",
            "spanNulls": False,
            "stacking": {"group": "A", "mode": "normal" if self.is_stacked else "none"},
            "thresholdsStyle": {"mode": "line" if self.draws_thresholds else "off"},
        }


class ThresholdLines(TimeSeries):
    """Lines over time, and the thresholds as lines across them."""

    draws_thresholds = True


class StackedSeries(TimeSeries):
    """Parts of a whole over time, on top of one another; what is no part of it must be taken out by an override."""

    is_stacked = True


class StateTimeline(Panel):
    """A row a series, in the colour of its state: the panel's `Field` maps each value to a text and a colour."""

    kind: ClassVar[str] = core.STATE_TIMELINE_TYPE

    def options(self) -> dict[str, Any]:
        """Equal neighbours become one block; more than forty rows are paged."""
        return {
            "alignValue": "left",
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "mergeValues": True,
            "perPage": 40,
            "rowHeight": 0.9,
            "showValue": "never",
            "tooltip": {"mode": "single", "sort": "none"},
        }

    def custom(self) -> dict[str, Any]:
        """What is not there is not drawn."""
        return {
            "fillOpacity": 80,
            "hideFrom": _SHOWN_EVERYWHERE,
            "insertNulls": False,
            "lineWidth": 0,
            "spanNulls": False,
        }


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: a label, or "Value #A" for what query A found, under a title; `link` is (title, URL)."""

    source: str
    title: str
    field: Field | None = None
    is_gauge: bool = False
    link: tuple[str, str] | None = None

    def override(self) -> dict[str, Any]:
        """The column's part of the panel, by the title it has in the end."""
        properties: list[dict[str, Any]] = []
        if self.field is not None:
            shown = self.field.defaults()
            properties += [
                {"id": key, "value": shown[key]} for key in ("unit", "decimals", "min", "max") if key in shown
            ]
            steps = [step.to_json_data() for step in self.field.steps]
            properties.append({"id": "thresholds", "value": {"mode": "absolute", "steps": steps}})
            cell = {"type": "gauge", "mode": "basic"} if self.is_gauge else {"type": "color-text"}
            properties.append({"id": "custom.cellOptions", "value": cell})
        if self.link is not None:
            title, url = self.link
            properties.append({"id": "links", "value": [{"title": title, "url": url, "targetBlank": False}]})
        return {"matcher": {"id": "byName", "options": self.title}, "properties": properties}


class Table(Panel):
    """What several instant queries found, one row for equal labels, in the given columns; sorted by the first value."""

    kind: ClassVar[str] = core.TABLE_TYPE

    def __init__(
        self,
        number: int,
        title: str,
        description: str,
        at: tuple[int, int, int, int],
        expressions: Sequence[str],
        columns: Sequence[Column],
        no_value: str,
    ) -> None:
        """At least two expressions: the value of a single one would have another name."""
        names = [column.source for column in columns]
        super().__init__(
            number,
            title,
            description,
            at,
            [Query(each, instant=True, table=True) for each in expressions],
            Field(no_value),
            overrides=[override for override in map(Column.override, columns) if override["properties"]],
            transformations=[
                {"id": "merge", "options": {}},
                {"id": "filterFieldsByName", "options": {"include": {"names": names}}},
                {
                    "id": "organize",
                    "options": {
                        "excludeByName": {},
                        "indexByName": {name: index for index, name in enumerate(names)},
                        "renameByName": {column.source: column.title for column in columns},
                    },
                },
            ],
        )
        self.sorted_by = next(column.title for column in columns if column.source.startswith("Value"))

    def options(self) -> dict[str, Any]:
        """The highest first."""
        return {
            "cellHeight": "sm",
            "frameIndex": 0,
            "showHeader": True,
            "sortBy": [{"displayName": self.sorted_by, "desc": True}],
        }

    def custom(self) -> dict[str, Any]:
        """Columns can be filtered by the reader."""
        return {"align": "auto", "cellOptions": {"type": "auto"}, "filterable": True, "inspect": False}
