"""Notifications as Alertmanager sends them, about cards of one node."""

import json
from collections.abc import Mapping
from typing import Any

from alerts.notification import Alert, read_notification

NODE = "gpu-7"
STARTED = "2026-11-30T03:12:40.123456789Z"


def alert(name: str, status: str, card: str = "GPU-1", started: str = STARTED, **labels: str) -> dict[str, Any]:
    """One alert of the webhook's JSON."""
    return {
        "status": status,
        "labels": {"alertname": name, "node": NODE, "gpu_uuid": card, **labels},
        "annotations": {
            "summary": f"{name} of {card}",
            "description": f"card: {NODE}/0, {card}\ntenant: acme\nused: 99GiB of 100GiB (99%)\n",
            "runbook_url": "docs/runbooks/vram-watermark.md",
        },
        "startsAt": started,
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://127.0.0.1/x",
        "fingerprint": "c0ffee",
    }


def body(*alerts: Mapping[str, Any]) -> bytes:
    """The webhook's body, version 4."""
    return json.dumps({"version": "4", "groupKey": "{}", "truncatedAlerts": 0, "alerts": alerts}).encode()


def notification(*alerts: Mapping[str, Any]) -> list[Alert]:
    """What is read from it."""
    return read_notification(body(*alerts))
