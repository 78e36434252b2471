"""Alertmanager's configuration: one notification a card for its VRAM, the highest level only, and one for each other
alert; all to one webhook."""

import re
from urllib.parse import urlsplit

from alerts.card_rules import CARD_RULES
from alerts.watermark_rules import alert_name
from alerts.yaml_text import to_yaml
from domain.errors import InputError
from domain.series import DEVICE
from domain.watermarks import WATERMARKS

RECEIVER = "on-call"
# Where `gputab alerts receive` listens unless it is told otherwise.
DEFAULT_WEBHOOK = "http://127.0.0.1:8472/alerts"
_GROUP_INTERVAL_S = 5
# Far from the group interval: Alertmanager doubles one that is about as long.
_REPEAT_INTERVAL_S = 4 * 3600
_HEADING = "Written by `gputab alerts routes` from alerts/routes.py; change it there."


def render_routes(webhook: str = DEFAULT_WEBHOOK) -> str:
    """The configuration file for Alertmanager 0.25 and newer, as YAML; equal for an equal webhook, byte for byte.

    What is told of a card's VRAM is one group, so that each notification tells all that is known of that. The other
    rules have a group for each of their cards or nodes: what changes of one does not repeat another. The first
    notification goes out at once, a change after 5 s at most, a reminder every 4 h. Raises InputError where `webhook`
    is no URL.
    """
    _refuse_no_url(webhook)
    route = {
        "receiver": RECEIVER,
        "group_by": list(DEVICE),
        "group_wait": "0s",
        "group_interval": f"{_GROUP_INTERVAL_S}s",
        "repeat_interval": f"{_REPEAT_INTERVAL_S // 3600}h",
        "routes": [
            {
                "matchers": [f'alertname =~ "{"|".join(CARD_RULES)}"'],
                "group_by": ["alertname", *DEVICE],
            }
        ],
    }
    receiver = {"name": RECEIVER, "webhook_configs": [{"url": webhook, "send_resolved": True}]}
    return to_yaml(
        {"route": route, "inhibit_rules": _inhibitions(), "receivers": [receiver]},
        heading=_HEADING,
    )


def _inhibitions() -> list[dict[str, list[str]]]:
    """Each level keeps those below it quiet, on the same card or MIG instance. That a card is silent is not hidden."""
    names = [alert_name(mark) for mark in sorted(WATERMARKS, key=lambda mark: mark.used_ratio, reverse=True)]
    return [
        {
            "source_matchers": [f'alertname = "{name}"'],
            "target_matchers": [f'alertname =~ "{"|".join(names[number:])}"'],
            "equal": list(DEVICE),
        }
        for number, name in enumerate(names[:-1], start=1)
    ]


def _refuse_no_url(webhook: str) -> None:
    try:
        parts = urlsplit(webhook)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url or re.search(r"\s", webhook):
        raise InputError(f"cannot send pages to {webhook!r}: it is no URL; write it as {DEFAULT_WEBHOOK}")
