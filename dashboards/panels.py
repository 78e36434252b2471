"""Panels in the form that Grafana 11 and later write themselves, over grafanalib.

grafanalib 0.7.1 writes for Grafana 6 to 8, and some of its defaults falsify numbers: `intervalFactor` 2 and
`maxDataPoints` 100 stretch the step, so that `increase(...[$__rate_interval])` shows half of what was; the first
threshold's value is the text "null", with which a panel never leaves its first colour. So nothing that it writes
goes out unless it is named here.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any, ClassVar

from grafanalib import core

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}

_PANEL_KEYS = (
    "id",
    "type",
    "title",
    "description",
    "datasource",
    "gridPos",
    "fieldConfig",
    "options",
    "targets",
    "transformations",
)


@dataclass(frozen=True, slots=True)
class Step:
    """From which value on a colour holds; None: from the least there is."""

    value: float | None
    color: str

    def to_json_data(self) -> dict[str, Any]:
        """As Grafana writes it: the first step of a scale has the value null."""
        return {"value": self.value, "color": self.color}


@dataclass(frozen=True, slots=True)
class Field:
    """How values are shown: Grafana's unit id, bounds, colours, and the text that stands where there is no value.

    `mappings` is value -> (text, colour).
    """

    no_value: str
    unit: str = "none"
    decimals: int | None = None
    least: float | None = None
    most: float | None = None
    steps: Sequence[Step] = (Step(None, "text"),)
    mappings: Mapping[int, tuple[str, str]] | None = None
    color_mode: str = "thresholds"

    def defaults(self) -> dict[str, Any]:
        """`fieldConfig.defaults` but for the thresholds, which grafanalib places."""
        values = {
            "unit": self.unit,
            "decimals": self.decimals,
            "min": self.least,
            "max": self.most,
            "noValue": self.no_value,
            "color": {"mode": self.color_mode},
            "mappings": [
                {"type": "value", "options": {str(value): {"text": text, "color": color, "index": index}}}
                for index, (value, (text, color)) in enumerate((self.mappings or {}).items())
            ],
        }
        return {key: value for key, value in values.items() if value is not None}


class Query(core.Target):  # type: ignore[misc] # grafanalib has no types
    """One PromQL query: over the range that is shown, or at its end (`instant`).

    `min_step` is the least that `$__interval` can be: 1 s, as samples come, or more where a series comes less often.
    """

    def __init__(
        self, expression: str, *, legend: str = "", instant: bool = False, table: bool = False, min_step: str = "1s"
    ) -> None:
        super().__init__(
            expr=expression,
            legendFormat=legend,
            instant=instant,
            format=core.TABLE_TARGET_FORMAT if table else core.TIME_SERIES_TARGET_FORMAT,
            interval=min_step,
            datasource=DATASOURCE,
        )

    def to_json_data(self) -> dict[str, Any]:
        """Without `step` and `intervalFactor`: the step is what Grafana makes of range and width."""
        written = super().to_json_data()
        kept = ("refId", "datasource", "expr", "format", "instant", "interval", "legendFormat")
        return {**{key: written[key] for key in kept}, "range": not self.instant, "editorMode": "code"}


class Panel(core.Panel, ABC):  # type: ignore[misc] # grafanalib has no types
    """What all panels have. `number` is its id, which links point at and which therefore never changes.

    `at` is (x, y, width, height) on the grid of 24 columns.
    """

    kind: ClassVar[str]

    def __init__(
        self,
        number: int,
        title: str,
        description: str,
        at: tuple[int, int, int, int],
        queries: Iterable[Query],
        field: Field,
        *,
        overrides: Iterable[Mapping[str, Any]] = (),
        transformations: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        x, y, width, height = at
        targets = list(queries)
        for ref_id, target in zip(ascii_uppercase, targets, strict=False):
            target.refId = ref_id
        super().__init__(
            id=number,
            title=title,
            description=description,
            gridPos=core.GridPos(h=height, w=width, x=x, y=y),
            targets=targets,
            dataSource=DATASOURCE,
            thresholds=list(field.steps),
            transformations=list(transformations),
        )
        self.field = field
        self.overrides = list(overrides)

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """The panel's own options."""

    def custom(self) -> dict[str, Any]:
        """The options of a field that only this kind of panel has."""
        return {}

    def to_json_data(self) -> dict[str, Any]:
        """The panel without what is empty, null or older than Grafana 11."""
        defaults = {**self.field.defaults(), "custom": self.custom()}
        written = self.panel_json(
            {
                "type": self.kind,
                "options": self.options(),
                "fieldConfig": {"defaults": defaults, "overrides": self.overrides},
            }
        )
        return {key: written[key] for key in _PANEL_KEYS if written[key] or key == "options"}


class Row(core.RowPanel):  # type: ignore[misc] # grafanalib has no types
    """A heading over the panels below it."""

    def __init__(self, number: int, title: str, y: int) -> None:
        super().__init__(id=number, title=title, gridPos=core.GridPos(h=1, w=24, x=0, y=y))

    def to_json_data(self) -> dict[str, Any]:
        """Open, so that its panels stand beside it in the list and not in it."""
        return {
            "id": self.id,
            "type": core.ROW_TYPE,
            "title": self.title,
            "gridPos": self.gridPos,
            "collapsed": False,
            "panels": [],
        }
