"""The VRAM watermark alerts as vmalert rules: one a level, and one for a card that fell silent above a watermark.

A card that stops being heard of is not a card that is well. So a firing watermark alert stays until fresh readings
say that the card is below the mark, for up to 24 h, and another alert says meanwhile that its state is unknown. A MIG
instance that was destroyed is not in doubt.
"""

from dataclasses import dataclass
from pathlib import Path

from alerts.card_templates import FRESH, above_since, card_description, card_summary, silent_since
from alerts.destroyed_instances import destroyed_instances
from alerts.silence import while_silent
from alerts.yaml_text import to_yaml
from domain.series import DEVICE, GPU_MEMORY_USED
from domain.watermarks import WATERMARKS, Watermark, used_ratio
from victoriametrics.vmalert import EVALUATION_INTERVAL_S

GROUP = "vram-watermarks"
# As `render_rules` makes it of the usual patience; the unit tests lie beside it.
SHIPPED_RULES = Path(__file__).parent / "rules" / "vram-watermarks.yaml"
UNKNOWN_ALERT = "VramStateUnknown"
UNKNOWN_LEVEL = "unknown"
SEVERITIES = {"warning": "info", "high": "warning", "critical": "critical", UNKNOWN_LEVEL: "warning"}

_HEADING = "Written by `gputab alerts rules` from alerts/watermark_rules.py; change it there."
_BY = ", ".join(DEVICE)
_WATERMARK_RUNBOOK = "docs/runbooks/vram-watermark.md"
UNKNOWN_RUNBOOK = "docs/runbooks/vram-state-unknown.md"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a card has to be above a mark, or silent, before its alert fires; and how long it stays in doubt.

    In seconds. `keep_firing_s` is for how long after the last reading above the mark an alert goes on, so that a card
    whose use swings about a mark is one page and not ten. `evaluation_s` is what passes between two evaluations of
    vmalert's, or more.
    """

    for_s: int = 120
    keep_firing_s: int = 300
    evaluation_s: int = EVALUATION_INTERVAL_S


def render_rules(patience: Patience = Patience()) -> str:
    """The rule file, as YAML that vmalert 1.95 and newer read; equal for equal patience, byte for byte.

    The highest level comes first, so that Alertmanager knows of it before it is told of those that it inhibits. A
    reading may come to be seen between two rules, and the lower mark be passed one evaluation before the higher; so
    each level waits for one evaluation longer than the one above it.
    """
    levels = sorted(WATERMARKS, key=lambda mark: mark.used_ratio, reverse=True)
    rules = [_watermark_rule(mark, patience, longer * patience.evaluation_s) for longer, mark in enumerate(levels)]
    group = {"name": GROUP, "rules": [*rules, _unknown_rule(patience)]}
    return to_yaml({"groups": [group]}, heading=_HEADING)


def alert_name(mark: Watermark) -> str:
    """What the alert of a watermark is called, such as VramCritical."""
    return f"Vram{mark.level.capitalize()}"


def _watermark_rule(mark: Watermark, patience: Patience, longer_s: int) -> dict[str, object]:
    firing = f'ALERTS{{alertname="{alert_name(mark)}", alertstate="firing"}}'
    return {
        "alert": alert_name(mark),
        "expr": f"{_ratio(FRESH)} >= {mark.used_ratio}\nor\n{_silent(firing)}\n",
        "for": _duration(patience.for_s + longer_s),
        "keep_firing_for": _duration(patience.keep_firing_s),
        "labels": {"severity": SEVERITIES[mark.level], "level": mark.level},
        "annotations": {
            "summary": card_summary("VRAM of ", f" has reached {mark.used_ratio:.0%}"),
            "description": card_description(above_since(alert_name(mark))),
            "runbook_url": _WATERMARK_RUNBOOK,
        },
    }


def _unknown_rule(patience: Patience) -> dict[str, object]:
    names = "|".join(alert_name(mark) for mark in WATERMARKS)
    return {
        "alert": UNKNOWN_ALERT,
        "expr": _silent(f'ALERTS{{alertname=~"{names}", alertstate="firing"}}') + "\n",
        "for": _duration(patience.for_s),
        "labels": {"severity": SEVERITIES[UNKNOWN_LEVEL], "level": UNKNOWN_LEVEL},
        "annotations": {
            "summary": card_summary("state of ", " unknown: no reading since its VRAM was above a watermark"),
            "description": card_description(silent_since()),
            "runbook_url": UNKNOWN_RUNBOOK,
        },
    }


def _ratio(window: str) -> str:
    # Labels that a scrape may add are left behind: who changes them would make a new alert.
    return f"max by ({_BY}) (\n  {used_ratio(window=window)}\n)"


def _silent(firing: str) -> str:
    """0 for each card of these alerts that has no fresh reading, while its last one is remembered."""
    return while_silent(GPU_MEMORY_USED.name, firing, DEVICE, _ratio(FRESH), destroyed_instances())


def _duration(seconds: int) -> str:
    return f"{seconds // 60}m" if seconds and seconds % 60 == 0 else f"{seconds}s"
