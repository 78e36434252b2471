"""What a dashboard must keep: the rules of Grafana's dashboard-linter that apply to us, and our own.

Of the linter's rules those on `job` and `instance` do not apply: our samples are pushed, and have neither label.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import Any

from grafana_foundation_sdk.models import units

from dashboards.board import ALL, SCHEMA_VERSION
from dashboards.panels import DATASOURCE
from domain.errors import InputError
from domain.series import CATALOGUE, Kind
from tests.dashboards.grafana import View, all_panels, expression
from victoriametrics.expressions import series_names

Dashboard = Mapping[str, Any]
Rule = Callable[[Dashboard], Iterator[str]]

COLUMNS = 24
UNITS = {value for name, value in vars(units).items() if isinstance(value, str) and not name.startswith("_")}
# Sums of windows that overlap, or that leave samples out between them.
TOTALS = {"sum", "total"}
_BUILT_IN = {"__interval", "__range", "__rate_interval", "__url_time_range", "__data"}


def targets(dashboard: Dashboard) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(place, panel, target) of every query."""
    for panel in all_panels(dashboard):
        for target in panel.get("targets", []):
            yield f"{panel['title']} {target['refId']}", panel, target


def promql(dashboard: Dashboard, panel: Mapping[str, Any], target: Mapping[str, Any]) -> str:
    """A query as PromQL: with values for the variables, and MetricsQL's one function as that of PromQL it is like."""
    text = expression(View(0, 900), dashboard, panel, target)
    return text.replace("tlast_over_time(", "last_over_time(")


def has_a_data_source_variable(dashboard: Dashboard) -> Iterator[str]:
    """template-datasource: the reader chooses the store."""
    first: Mapping[str, Any] = next(iter(dashboard["templating"]["list"]), {})
    if (first.get("type"), first.get("query"), first.get("name")) != ("datasource", "prometheus", "datasource"):
        yield "the first variable is no data source"


def asks_the_chosen_source(dashboard: Dashboard) -> Iterator[str]:
    """panel-datasource: panels, queries and variables ask the store that was chosen."""
    for panel in all_panels(dashboard):
        if panel.get("datasource") != DATASOURCE:
            yield panel["title"]
    for place, _, target in targets(dashboard):
        if target.get("datasource") != DATASOURCE:
            yield place
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query" and variable.get("datasource") != DATASOURCE:
            yield variable["name"]


def variables_follow_the_range(dashboard: Dashboard) -> Iterator[str]:
    """template-on-time-change-reload."""
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query" and variable["refresh"] != 2:
            yield variable["name"]


def all_is_a_pattern(dashboard: Dashboard) -> Iterator[str]:
    """A list of every value is longer than a query may be."""
    for variable in dashboard["templating"]["list"]:
        if variable["includeAll"] and variable.get("allValue") != ALL:
            yield variable["name"]


def variables_are_known(dashboard: Dashboard) -> Iterator[str]:
    """Each variable of a query is one of the dashboard, without a format, which would escape it wrongly."""
    names = {variable["name"] for variable in dashboard["templating"]["list"]}
    used = set()
    for place, _, target in targets(dashboard):
        for name, braced in re.findall(r"\$([a-z_]\w*)|\$\{([^}]+)\}", target["expr"]):
            used.add(name or braced)
            if (name or braced) not in names | _BUILT_IN:
                yield f"{place}: {name or braced}"
    yield from sorted(names - used - {"datasource"})


def links_lead_somewhere(dashboard: Dashboard) -> Iterator[str]:
    """A link is to this dashboard, and sets variables that it has."""
    names = {variable["name"] for variable in dashboard["templating"]["list"]}
    for panel in all_panels(dashboard):
        for override in panel["fieldConfig"]["overrides"]:
            for each in override["properties"]:
                for link in each["value"] if each["id"] == "links" else []:
                    if not link["url"].startswith(f"/d/{dashboard['uid']}?"):
                        yield link["url"]
                    yield from (name for name in re.findall(r"var-(\w+)=", link["url"]) if name not in names)


def panels_are_described(dashboard: Dashboard) -> Iterator[str]:
    """panel-title-description: what it shows and what to do takes a sentence or two."""
    for panel in all_panels(dashboard):
        if not panel.get("title") or len(panel.get("description", "")) < 80:
            yield panel.get("title", "")


def panels_say_when_empty(dashboard: Dashboard) -> Iterator[str]:
    """An empty panel has a text of its own."""
    for panel in all_panels(dashboard):
        if not panel["fieldConfig"]["defaults"].get("noValue"):
            yield panel["title"]


def panels_have_queries(dashboard: Dashboard) -> Iterator[str]:
    """panel-no-targets."""
    yield from (panel["title"] for panel in all_panels(dashboard) if not panel.get("targets"))


def units_exist(dashboard: Dashboard) -> Iterator[str]:
    """panel-units: an id that Grafana does not know is printed behind the number."""
    for panel in all_panels(dashboard):
        config = panel["fieldConfig"]
        found = [config["defaults"].get("unit")]
        found += [p["value"] for o in config["overrides"] for p in o["properties"] if p["id"] == "unit"]
        yield from (f"{panel['title']}: {unit}" for unit in found if unit not in UNITS)


def panels_do_not_overlap(dashboard: Dashboard) -> Iterator[str]:
    """On the grid, rows included; and none stands beside it."""
    places = [(each["title"], each["gridPos"]) for each in dashboard["panels"]]
    for title, at in places:
        if min(at.values()) < 0 or at["w"] < 1 or at["h"] < 1 or at["x"] + at["w"] > COLUMNS:
            yield f"{title} is off the grid"
    for (title, a), (other, b) in combinations(places, 2):
        if (
            a["x"] < b["x"] + b["w"]
            and b["x"] < a["x"] + a["w"]
            and a["y"] < b["y"] + b["h"]
            and b["y"] < a["y"] + a["h"]
        ):
            yield f"{title} overlaps {other}"


def numbers_are_unique(dashboard: Dashboard) -> Iterator[str]:
    """A panel's id is its address."""
    numbers = [panel["id"] for panel in dashboard["panels"]]
    yield from (str(number) for number in sorted(set(numbers)) if numbers.count(number) > 1)


def is_not_edited_in_grafana(dashboard: Dashboard) -> Iterator[str]:
    """uneditable: the next start would undo it."""
    if dashboard["editable"]:
        yield "editable"


def is_of_the_last_classic_schema(dashboard: Dashboard) -> Iterator[str]:
    """An older one is migrated by Grafana, as well as it can."""
    if dashboard["schemaVersion"] != SCHEMA_VERSION:
        yield str(dashboard["schemaVersion"])


def steps_are_grafanas_own(dashboard: Dashboard) -> Iterator[str]:
    """Nothing stretches the step, which would falsify increases."""
    for panel in all_panels(dashboard):
        if "maxDataPoints" in panel:
            yield f"{panel['title']}: maxDataPoints"
    for place, _, target in targets(dashboard):
        yield from (f"{place}: {key}" for key in ("intervalFactor", "step") if key in target)


def totals_are_no_sums_of_windows(dashboard: Dashboard) -> Iterator[str]:
    """target-rate-interval, and 52 to 125 % of what was: a total is an instant increase over the whole range."""
    for panel in all_panels(dashboard):
        calcs = panel["options"].get("legend", {}).get("calcs", [])
        calcs = calcs + panel["options"].get("reduceOptions", {}).get("calcs", [])
        if TOTALS & set(calcs):
            yield f"{panel['title']}: {calcs}"
    for place, _, target in targets(dashboard):
        for window in re.findall(r"\bincrease\([^\[]*\[([^\]]+)\]", target["expr"]):
            if window != "$__range" or not target["instant"]:
                yield f"{place}: increase over {window}"
        for window in re.findall(r"\bi?rate\([^\[]*\[([^\]]+)\]", target["expr"]):
            if window != "$__rate_interval":
                yield f"{place}: rate over {window}"


def counters_are_rated(dashboard: Dashboard) -> Iterator[str]:
    """target-counter-agg: a counter by itself says nothing."""
    counters = [series.name for series in CATALOGUE.values() if series.kind is Kind.COUNTER]
    for place, _, target in targets(dashboard):
        for function, name in re.findall(rf"(\w*)\(?({'|'.join(counters)})", target["expr"]):
            if function not in {"rate", "irate", "increase"}:
                yield f"{place}: {name}"


def queries_parse(dashboard: Dashboard) -> Iterator[str]:
    """target-promql."""
    for place, panel, target in targets(dashboard):
        try:
            series_names(promql(dashboard, panel, target))
        except InputError as error:
            yield f"{place}: {error}"


def series_are_in_the_catalogue(dashboard: Dashboard) -> Iterator[str]:
    """A series that nobody writes finds nothing, for ever."""
    for place, panel, target in targets(dashboard):
        names = series_names(promql(dashboard, panel, target))
        yield from (f"{place}: {name}" for name in sorted(names - CATALOGUE.keys()))


def selectors_use_labels_of_their_series(dashboard: Dashboard) -> Iterator[str]:
    """A label that a series cannot have matches nothing, or everything."""
    for place, _, target in targets(dashboard):
        for name, matchers in re.findall(r"(\w+)\{([^}]*)\}", target["expr"]):
            for label in re.findall(r"(\w+)(?:=~|!~|!=|=)", matchers):
                if name in CATALOGUE and label not in CATALOGUE[name].labels:
                    yield f"{place}: {name}{{{label}}}"


def heatmaps_tell_zero_from_nothing(dashboard: Dashboard) -> Iterator[str]:
    """The default hides zeros; free colours change with whatever else is shown; the first row is the lowest."""
    for panel in all_panels(dashboard):
        if panel["type"] == "heatmap":
            options = panel["options"]
            if not (options["filterValues"]["le"] < 0 and options["yAxis"].get("reverse") and not options["calculate"]):
                yield f"{panel['title']}: rows"
            if (options["color"].get("min"), options["color"].get("max")) != (0, 1):
                yield f"{panel['title']}: colours"


def thresholds_begin_at_null(dashboard: Dashboard) -> Iterator[str]:
    """The first step has the value null and no other has: no text, no missing value, in rising order."""
    for panel in all_panels(dashboard):
        config = panel["fieldConfig"]
        scales = [config["defaults"]["thresholds"]["steps"]]
        scales += [p["value"]["steps"] for o in config["overrides"] for p in o["properties"] if p["id"] == "thresholds"]
        for steps in scales:
            values = [step["value"] for step in steps]
            if (
                not steps
                or values[0] is not None
                or values[1:] != sorted(v for v in values[1:] if type(v) in (int, float))
            ):
                yield f"{panel['title']}: {values}"


def nothing_else_is_null(dashboard: Dashboard) -> Iterator[str]:
    """A null stops the official types, and Grafana's migrations."""
    yield from _nulls(dashboard, "")


def _nulls(value: object, place: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _nulls(each, f"{place}.{key}")
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _nulls(each, f"{place}[{index}]")
    elif value is None and not place.endswith("steps[0].value"):
        yield place


RULES: tuple[Rule, ...] = (
    has_a_data_source_variable,
    asks_the_chosen_source,
    variables_follow_the_range,
    all_is_a_pattern,
    variables_are_known,
    links_lead_somewhere,
    panels_are_described,
    panels_say_when_empty,
    panels_have_queries,
    units_exist,
    panels_do_not_overlap,
    numbers_are_unique,
    is_not_edited_in_grafana,
    is_of_the_last_classic_schema,
    steps_are_grafanas_own,
    totals_are_no_sums_of_windows,
    counters_are_rated,
    queries_parse,
    series_are_in_the_catalogue,
    selectors_use_labels_of_their_series,
    heatmaps_tell_zero_from_nothing,
    thresholds_begin_at_null,
    nothing_else_is_null,
)
