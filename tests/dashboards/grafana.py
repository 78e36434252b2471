"""What Grafana does between a dashboard and a store of the Prometheus type, by the formulae of its own sources.

Steps: pkg/promlib/intervalv2 and gtime (the rounding); variables in a query: pkg/promlib/models/query.go and
packages/grafana-prometheus/src/escaping.ts; the answer as a frame: legends only.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

# (up to this many milliseconds, rounded to), gtime.RoundInterval.
_ROUNDING_MS = (
    (10, 1), (15, 10), (35, 20), (75, 50), (150, 100), (350, 200), (750, 500), (1_500, 1_000), (3_500, 2_000),
    (7_500, 5_000), (12_500, 10_000), (17_500, 15_000), (25_000, 20_000), (45_000, 30_000), (90_000, 60_000),
    (210_000, 120_000), (450_000, 300_000), (750_000, 600_000), (1_050_000, 900_000), (1_500_000, 1_200_000),
    (2_700_000, 1_800_000), (5_400_000, 3_600_000), (9_000_000, 7_200_000), (16_200_000, 10_800_000),
    (32_400_000, 21_600_000), (86_400_000, 43_200_000), (604_800_000, 86_400_000),
)  # fmt: skip
_WEEK_MS = 604_800_000
_SAFE_POINTS = 11_000
_UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_SPECIAL = re.compile(r"[$^*{}\[\]+?.()|]")


@dataclass(frozen=True)
class View:
    """A reader's range, width of the panel in pixels, and choice of variables; None is "All"."""

    end_s: int
    range_s: int
    width: int = 1_000
    chosen: Mapping[str, Sequence[str] | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """One series of an answer, with the name it has in the legend."""

    legend: str
    labels: Mapping[str, str]
    seconds: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class Answer:
    """What the store said to one query of a panel."""

    status: int
    text: str
    lines: tuple[Line, ...]


def all_panels(dashboard: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The panels that draw something, those in closed rows included."""
    found: list[dict[str, Any]] = []
    for panel in dashboard["panels"]:
        found += [panel] if panel["type"] != "row" else panel["panels"]
    return found


def milliseconds(interval: str) -> int:
    """An interval as Grafana writes it, such as 15s."""
    number, unit = re.fullmatch(r"(\d+)([a-z]+)", interval).groups()  # type: ignore[union-attr] # or it is none
    return int(number) * _UNITS_MS[unit]


def step_ms(view: View, target: Mapping[str, Any], panel: Mapping[str, Any]) -> int:
    """The step of a query, and its `$__interval`."""
    points = panel.get("maxDataPoints") or view.width
    least = milliseconds(target.get("interval") or panel.get("interval") or "15s")
    exact = view.range_s * 1_000 // points
    calculated = least if exact < least else _rounded(exact)
    safe = _rounded(view.range_s * 1_000 // _SAFE_POINTS)
    return max(calculated, safe) * int(target.get("intervalFactor") or 1)


def expression(view: View, dashboard: Mapping[str, Any], panel: Mapping[str, Any], target: Mapping[str, Any]) -> str:
    """The query as the store gets it."""
    step = step_ms(view, target, panel)
    least = milliseconds(target.get("interval") or panel.get("interval") or "15s")
    rate = max(step + least, 4 * least)
    text = _with_variables(target["expr"], view, dashboard)
    for name, value in (
        ("__interval_ms", str(step)),
        ("__interval", _written(step)),
        ("__range_ms", str(view.range_s * 1_000)),
        ("__range_s", str(view.range_s)),
        ("__range", f"{view.range_s}s"),
        ("__rate_interval_ms", str(rate)),
        ("__rate_interval", _written(rate)),
    ):
        text = text.replace(f"${{{name}}}", value).replace(f"${name}", value)
    return text


def ask(
    url: str, view: View, dashboard: Mapping[str, Any], panel: Mapping[str, Any], target: Mapping[str, Any]
) -> Answer:
    """The answer to one query of a panel: over the range, or at its end."""
    query = expression(view, dashboard, panel, target)
    if target.get("instant"):
        response = _post(f"{url}/api/v1/query", {"query": query, "time": str(view.end_s)})
    else:
        step = step_ms(view, target, panel)
        start, end = (at_s * 1_000 // step * step / 1_000 for at_s in (view.end_s - view.range_s, view.end_s))
        times = {"start": str(start), "end": str(end), "step": str(step / 1_000)}
        response = _post(f"{url}/api/v1/query_range", {"query": query, **times})
    lines = tuple(_lines(response, target.get("legendFormat", ""))) if response.is_success else ()
    return Answer(response.status_code, response.text, lines)


def options(url: str, view: View, variable: Mapping[str, Any]) -> list[str]:
    """What a query variable offers in the range."""
    asked = variable["query"]
    metric, label = re.fullmatch(r"label_values\(([^,]+), (\w+)\)", asked["query"]).groups()  # type: ignore[union-attr]
    form = {"match[]": metric, "start": str(view.end_s - view.range_s), "end": str(view.end_s)}
    response = _post(f"{url}/api/v1/label/{label}/values", form)
    response.raise_for_status()
    found: list[str] = response.json()["data"]
    return found


def _post(url: str, form: Mapping[str, str]) -> httpx.Response:
    # nocache: what a test has just pushed is not in the store's cache of an earlier answer.
    return httpx.post(url, data={**form, "nocache": "1"}, trust_env=False, timeout=30)


def _lines(response: httpx.Response, legend: str) -> Iterator[Line]:
    for result in response.json()["data"]["result"]:
        labels = result["metric"]
        points = result.get("values") or [result["value"]]
        yield Line(
            _legend(legend, labels) or json.dumps(labels),
            labels,
            tuple(second for second, _ in points),
            tuple(float(value) for _, value in points),
        )


def _legend(text: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"{{\s*(.+?)\s*}}", lambda match: labels.get(match[1], match[0]), text)


def _with_variables(text: str, view: View, dashboard: Mapping[str, Any]) -> str:
    variables = {each["name"]: each for each in dashboard["templating"]["list"]}

    def value(match: re.Match[str]) -> str:
        variable = variables.get(match[1] or match[2])
        # What is no variable, such as the $1 of label_replace, stays as it is.
        return match[0] if variable is None else _value(variable, view.chosen.get(variable["name"]))

    return re.sub(r"\$(\w+)|\$\{(\w+)\}", value, text)


def _value(variable: Mapping[str, Any], chosen: Sequence[str] | None) -> str:
    if chosen is None:
        return str(variable["allValue"])
    escaped = [_SPECIAL.sub(r"\\\\\g<0>", each.replace("\\", "\\\\\\\\")) for each in chosen]
    return escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"


def _rounded(interval_ms: int) -> int:
    return next((rounded for up_to, rounded in _ROUNDING_MS if interval_ms <= up_to), _WEEK_MS)


def _written(interval_ms: int) -> str:
    unit = next(unit for unit, size in _UNITS_MS.items() if interval_ms >= size and interval_ms % size == 0)
    return f"{interval_ms // _UNITS_MS[unit]}{unit}"
