"""What `gputab doctor` says of a collector by its own page."""

from pathlib import Path

import httpx

from collector.own_metrics import OwnMetrics, OwnValue
from collector.own_page import OwnPage, served
from domain.clock import MICROSECONDS, FrozenClock
from domain.series import COLLECTOR_HOLES, COLLECTOR_LATENESS
from domain.units import MIB
from gputab.doctor.collector_page import collector_findings
from machine.process import free_port


def test_holes_are_told_for_whatever_reason(tmp_path: Path) -> None:
    values = [
        OwnValue(COLLECTOR_LATENESS, 0.002),
        OwnValue(COLLECTOR_HOLES, 3, {"collector": "a", "reason": "late"}),
        OwnValue(COLLECTOR_HOLES, 40, {"collector": "a", "reason": "clock"}),
        # Another collector has sampled those.
        OwnValue(COLLECTOR_HOLES, 500, {"collector": "a", "reason": "stood_by"}),
    ]
    port, clock = free_port(), FrozenClock(1_700_000_000 * MICROSECONDS)
    own = OwnMetrics("node-1", lambda: values)
    with served(OwnPage(own.values), port), httpx.Client(trust_env=False) as client:
        found = next(collector_findings("node-1", port, client, tmp_path / "queue.db", MIB, clock))
    assert found.said == "samples, 2 ms after the second began; 43 seconds are holes"
