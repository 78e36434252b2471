"""Alerts of cards that are not well, and of nodes that cannot tell, as vmalert rules: one a kind.

What a kind is about may stop being heard of: then its alert goes on, for up to a day, until it is heard that all is
well. The page says so where it comes again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from alerts.card_templates import FRESH, GRANTED, card_summary, condition_description, line, node_description
from alerts.destroyed_instances import TOLD, destroyed_instances
from alerts.silence import while_silent
from alerts.yaml_text import to_yaml
from domain.samples import FieldState
from domain.series import (
    COLLECTOR_COVERAGE,
    COLLECTOR_DRIVER_STATE,
    COLLECTOR_INFO,
    DEVICE,
    GPU_FIELD_STATE,
    GPU_SM_ACTIVE,
    GPU_UP,
    GRANT_INFO,
    OWNER_MEMORY,
    Series,
)

GROUP = "card-health"
# As `render_card_rules` makes it; the unit tests lie beside it.
SHIPPED_CARD_RULES = Path(__file__).parent / "rules" / "card-health.yaml"

_HEADING = "Written by `gputab alerts card-rules` from alerts/card_rules.py; change it there."
_CARD = ("node", "gpu_uuid")
_NODE = ("node",)
# Swinging about the border is one page and not ten, as with the watermarks.
_KEEP_FIRING = "5m"
_COVERED_RATIO = 0.9
_LATELY_SECONDS = 300
# Services (`unit:`) are the machine's own.
_TENANTS = "(alloc|pod|slurm):.+"


@dataclass(frozen=True, slots=True)
class CardRule:
    """One kind of alert. A page calls it by its `level`, and so is its runbook named; it fires after `wait`.

    `holds` is PromQL for those of which it is so now, by the labels `by`; whoever is in `heard` and not in `holds` is
    well. `remembered` selects the series by which one that fell silent is known for a day. `more` are the lines of its
    description beside those of every card or node.
    """

    alert: str
    level: str
    by: Sequence[str]
    holds: str
    heard: str
    remembered: str
    summary: str
    more: str = ""
    severity: str = "warning"
    wait: str = "5m"


def render_card_rules() -> str:
    """The rule file, as YAML that vmalert 1.95 and newer read; always the same, byte for byte."""
    group = {"name": GROUP, "rules": [_rendered(rule) for rule in CARD_RULES.values()]}
    return to_yaml({"groups": [group]}, heading=_HEADING)


def _rendered(rule: CardRule) -> dict[str, object]:
    firing = f'ALERTS{{alertname="{rule.alert}", alertstate="firing"}}'
    describe = node_description if rule.by == _NODE else condition_description
    # Of one that is silent the value is 0, which the texts look at.
    return {
        "alert": rule.alert,
        "expr": f"({rule.holds}) * 0 + 1\nor\n{while_silent(rule.remembered, firing, rule.by, f'({rule.heard})')}\n",
        "for": rule.wait,
        "keep_firing_for": _KEEP_FIRING,
        "labels": {"severity": rule.severity, "level": rule.level},
        "annotations": {
            "summary": rule.summary,
            "description": describe(rule.alert, rule.more),
            "runbook_url": f"docs/runbooks/{rule.level.replace(' ', '-')}.md",
        },
    }


def _lately(series: Series, *matchers: str, window: str = FRESH) -> str:
    return f"last_over_time({series.name}{{{','.join(matchers)}}}[{window}])"


def _by(labels: Sequence[str], query: str) -> str:
    return f"max by ({', '.join(labels)}) ({query})"


def _on(labels: Sequence[str]) -> str:
    return f"on ({', '.join(labels)})"


def _missing(field: Series, state: FieldState) -> tuple[str, str]:
    """What selects the devices that say for this reason that they have no value of a series."""
    return f"field='{field.name}'", f"state='{state}'"


def _card_lost() -> CardRule:
    of_a_card = "mig_uuid=''"
    # Its MIG instances are lost with it.
    up = _by(_CARD, _lately(GPU_UP, of_a_card))
    return CardRule(
        alert="CardLost",
        level="card lost",
        severity="critical",
        # A card that is reset, or whose driver is loaded anew, is back before.
        wait="2m",
        by=_CARD,
        holds=f"{up} == 0",
        heard=up,
        remembered=f"{GPU_UP.name}{{{of_a_card}}}",
        summary=card_summary("", " is lost: its driver does not reach it"),
    )


def _card_mute() -> CardRule:
    coverage = _by(_CARD, _lately(COLLECTOR_COVERAGE))
    # One that is lost says so each second; what was missed within the hour is no news once the card answers again.
    told = _by(_CARD, f"count_over_time({GPU_UP.name}{{mig_uuid=''}}[{_LATELY_SECONDS}s])")
    let_go = _lately(COLLECTOR_DRIVER_STATE, "state='quiesced'")
    return CardRule(
        alert="CardMute",
        level="card mute",
        by=_CARD,
        holds=(
            f"{coverage} < {_COVERED_RATIO}\n"
            f"unless {_on(_CARD)} {told} >= {_COVERED_RATIO * _LATELY_SECONDS:.0f}\n"
            f"unless {_on(_NODE)} {let_go} == 1"
        ),
        heard=coverage,
        remembered=COLLECTOR_COVERAGE.name,
        summary=card_summary("", " does not answer in time"),
        more=line(
            "answered",
            _lately(COLLECTOR_COVERAGE, "%s"),
            "$card",
            "value | humanizePercentage | printf `in %s of the seconds of the last hour`",
        ),
    )


def _profiling_stuck() -> CardRule:
    stuck = _missing(GPU_SM_ACTIVE, FieldState.SUSPECT)
    return CardRule(
        alert="ProfilingStuck",
        level="profiling stuck",
        by=_CARD,
        holds=f"{_by(_CARD, _lately(GPU_FIELD_STATE, *stuck, window=TOLD))} == 1",
        heard=_by(_CARD, _lately(GPU_UP, "mig_uuid=''")),
        remembered=f"{GPU_FIELD_STATE.name}{{{','.join(stuck)}}}",
        summary=card_summary("profiling of ", " is stuck: it says 0 while the card works"),
    )


def _owners_unknown() -> CardRule:
    """Of a node, since it is a matter of where its collector runs."""
    unavailable = _missing(OWNER_MEMORY, FieldState.ATTRIBUTION_UNAVAILABLE)
    cards = f"count by (gpu_uuid) ({_lately(GPU_FIELD_STATE, *unavailable, '%s', window=TOLD)} == 1)"
    return CardRule(
        alert="OwnersUnknown",
        level="owners unknown",
        by=_NODE,
        holds=f"{_by(_NODE, _lately(GPU_FIELD_STATE, *unavailable, window=TOLD))} == 1",
        heard=_by(_NODE, _lately(OWNER_MEMORY)),
        remembered=f"{GPU_FIELD_STATE.name}{{{','.join(unavailable)}}}",
        summary="{{ $labels.node }} cannot tell whose use of its cards it is",
        more=line("cards", cards, "$node", 'label "gpu_uuid"'),
    )


def _several_collectors() -> CardRule:
    """It waits longer than the minute and a half in which two are seen where one takes over from another."""
    collectors = f"count by (node, collector) ({_lately(COLLECTOR_INFO, window=TOLD)})"
    named = f"count by (collector) ({_lately(COLLECTOR_INFO, '%s', window=TOLD)})"
    return CardRule(
        alert="SeveralCollectors",
        level="several collectors",
        by=_NODE,
        holds=f"count by (node) ({collectors}) > 1",
        heard=_by(_NODE, _lately(COLLECTOR_INFO, window=TOLD)),
        remembered=COLLECTOR_INFO.name,
        summary="several collectors tell of {{ $labels.node }}",
        more=line("queues", named, "$node", 'label "collector"'),
    )


def _unrequested_use() -> CardRule:
    """It is said only while the allocator publishes grants, and none of which it does not know the card."""
    of_a_tenant = f"owner=~'{_TENANTS}'"
    using = f"{_by(DEVICE, _lately(OWNER_MEMORY, of_a_tenant))} > 0"
    users = f"{_lately(OWNER_MEMORY, of_a_tenant, '%s')} > 0"
    granted, whole, somewhere = (
        f"{_lately(GRANT_INFO, *matchers, window=GRANTED)} == 1"
        for matchers in ((), ("mig_uuid=''",), ("gpu_uuid=''",))
    )
    grants_are_known = f"(count({granted}) unless on () {somewhere})"
    return CardRule(
        alert="UnrequestedUse",
        level="unrequested use",
        severity="info",
        by=DEVICE,
        holds=(
            # Who holds a whole card holds its MIG instances.
            f"{using}\nunless on (gpu_uuid, mig_uuid) {granted}\nunless on (gpu_uuid) {whole}\n"
            f"and on () {grants_are_known}"
        ),
        heard=(
            f"{_by(DEVICE, _lately(OWNER_MEMORY))}\nunless {_on(DEVICE)} ({using} unless on () {grants_are_known})\n"
            f"or {destroyed_instances()}"
        ),
        remembered=OWNER_MEMORY.name,
        summary=card_summary("", " is used without a grant"),
        more=line("owner", users, "$device", 'label "owner"'),
    )


# By alert name.
CARD_RULES = {
    rule.alert: rule
    for rule in (
        _card_lost(),
        _card_mute(),
        _profiling_stuck(),
        _owners_unknown(),
        _several_collectors(),
        _unrequested_use(),
    )
}
