"""What the alerts of one subject amount to, in words for a page: firing, state unknown, or resolved.

An alert that ends is believed only with a fresh reading of its card: Alertmanager calls one resolved when it has not
heard of it for a while, too, which says nothing of the card.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from alerts.card_rules import CARD_RULES
from alerts.notification import Alert
from alerts.watermark_rules import UNKNOWN_ALERT, UNKNOWN_RUNBOOK, alert_name
from domain.watermarks import WATERMARKS, reached

MARKS = {alert_name(mark): mark for mark in sorted(WATERMARKS, key=lambda mark: mark.used_ratio)}


class Verdict(StrEnum):
    """What a page says of its subject."""

    FIRING = "firing"
    UNKNOWN = "state unknown"
    RESOLVED = "resolved"


class Standing(NamedTuple):
    """A verdict with a level: of what does not fire, the last one known; '' for none.

    The level is that of the highest watermark that was reached, the one of our other rules, or the severity of an
    alert that is none of ours.
    """

    verdict: Verdict
    level: str


class Finding(NamedTuple):
    """Where a subject stands, in the words of its rule (`annotations`), and what was found out beside them.

    `note` is a line, or ''. `is_doubtful` where Alertmanager calls it resolved and no reading confirms that.
    `started_us` is when the alert of these words began to fire, where it does; else 0.
    """

    standing: Standing
    annotations: Mapping[str, str]
    note: str = ""
    is_doubtful: bool = False
    started_us: int = 0


def rule_of(alert: Alert) -> str | None:
    """What it is about, so that the store can be asked of it: '' for how full a card is, else its rule in CARD_RULES.

    None where it is none of ours.
    """
    if alert.name in MARKS or alert.name == UNKNOWN_ALERT:
        return ""
    return alert.name if alert.name in CARD_RULES else None


def of_stranger(alert: Alert) -> Finding:
    """An alert of somebody else's rule: what Alertmanager says of it, marked as such where it ends."""
    level = alert.labels.get("severity", "")
    if alert.is_firing:
        return Finding(Standing(Verdict.FIRING, level), alert.annotations, started_us=alert.started_us)
    return Finding(Standing(Verdict.RESOLVED, level), alert.annotations, "as Alertmanager says; nobody looked")


def while_firing(alerts: Sequence[Alert]) -> Finding | None:
    """A subject with an alert that fires; None where none does, and its readings have to be asked.

    The alerts are those about how full one card is, or one of another rule of ours.
    """
    firing = [alert for alert in alerts if alert.is_firing]
    highest = _highest(firing)
    silent = next((alert for alert in firing if alert.name == UNKNOWN_ALERT), None)
    if silent is not None:
        standing = Standing(Verdict.UNKNOWN, _level(highest))
        return Finding(standing, silent.annotations, started_us=silent.started_us)
    if highest is not None:
        standing = Standing(Verdict.FIRING, _level(highest))
        return Finding(standing, highest.annotations, started_us=highest.started_us)
    return None


def by_reading(resolved: Sequence[Alert], used_ratio: float | None) -> Finding:
    """A card whose alerts all ended, and which is that full now; None where no reading is fresh."""
    if used_ratio is None:
        return unheard(resolved, "there is no fresh reading of the card")
    highest = _highest(resolved)
    annotations = highest.annotations if highest is not None else resolved[0].annotations
    ended = [MARKS[alert.name] for alert in resolved if alert.name in MARKS]
    lowest_ratio = min(mark.used_ratio for mark in ended or MARKS.values())
    mark = reached(used_ratio)
    if mark is None or used_ratio < lowest_ratio:
        now = f"{used_ratio:.1%} of the VRAM is used now"
        return Finding(Standing(Verdict.RESOLVED, _level(highest)), annotations, now)
    note = f"Alertmanager calls it resolved, but {used_ratio:.1%} of the VRAM is used: see whether vmalert runs"
    return Finding(Standing(Verdict.FIRING, mark.level), annotations, note, is_doubtful=True)


def by_condition(resolved: Sequence[Alert], holds: bool | None) -> Finding:
    """A subject of another rule of ours, whose alert ended: whether it is so now; None where that is not heard."""
    if holds is None:
        return unheard(resolved, "nothing is heard of it")
    level, annotations = _level(resolved[0]), resolved[0].annotations
    if not holds:
        return Finding(Standing(Verdict.RESOLVED, level), annotations, "it is heard of, and that is over")
    note = "Alertmanager calls it resolved, but it is as before: see whether vmalert runs"
    return Finding(Standing(Verdict.FIRING, level), annotations, note, is_doubtful=True)


def unheard(resolved: Sequence[Alert], reason: str) -> Finding:
    """A subject whose alerts all ended, of which nobody can say how it is, for a reason."""
    highest = _highest(resolved)
    annotations = highest.annotations if highest is not None else resolved[0].annotations
    note = f"Alertmanager calls it resolved, but {reason}"
    is_of_a_rule = resolved[0].name in CARD_RULES
    words = annotations if is_of_a_rule else {**annotations, "runbook_url": UNKNOWN_RUNBOOK}
    return Finding(Standing(Verdict.UNKNOWN, _level(highest)), words, note, is_doubtful=True)


def _highest(alerts: Sequence[Alert]) -> Alert | None:
    """The alert whose level counts: of those about VRAM the highest, of another rule its only one."""
    levelled = [alert for alert in alerts if alert.name in MARKS or alert.name in CARD_RULES]
    return max(levelled, key=lambda alert: MARKS[alert.name].used_ratio if alert.name in MARKS else 0, default=None)


def _level(alert: Alert | None) -> str:
    if alert is None:
        return ""
    return MARKS[alert.name].level if alert.name in MARKS else CARD_RULES[alert.name].level
