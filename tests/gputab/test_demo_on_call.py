"""The demo's on-call: shown what Alertmanager sends, and asked for when it was not told of a full card."""

from collections.abc import Iterator

import httpx
import pytest
from rich.panel import Panel

from collector.simulation.fleet import demo_fleet
from collector.simulation.workloads import Workload
from collector.simulation.world import Incident, IncidentKind, Tenancy, World
from domain.clock import SystemClock
from domain.watermarks import WATERMARKS
from gputab.demo.on_call import OnCall

START_S = 1_796_000_000
FLEET = demo_fleet(1)
CARD = FLEET.nodes["sim-4090-a"][3]
UUID = CARD.device.uuid
# A memory hog is above the highest mark from its 18th second to its 42nd.
HOG = Tenancy("a-1", UUID, None, Workload.MEMORY_HOG, START_S, None, CARD.usable_bytes)
MISSED = ["sim-4090-a/3 was above 98% of its VRAM and on-call was not paged"]


@pytest.fixture
def shown() -> list[Panel]:
    """What on-call saw."""
    return []


@pytest.fixture
def on_call(shown: list[Panel]) -> Iterator[OnCall]:
    """It listens; the store that it would ask is away."""
    with OnCall("http://127.0.0.1:9", SystemClock(), shown.append, print) as on_call:
        yield on_call


def _page(on_call: OnCall, level: str, gpu_uuid: str = UUID) -> None:
    labels = {
        "alertname": f"Vram{level.capitalize()}",
        "node": "sim-4090-a",
        "gpu_uuid": gpu_uuid,
        "severity": "critical",
        "level": level,
    }
    alert = {"status": "firing", "labels": labels, "annotations": {}, "startsAt": "2026-12-01T00:00:00Z"}
    with httpx.Client(trust_env=False) as client:
        client.post(on_call.url, json={"version": "4", "status": "firing", "alerts": [alert]}).raise_for_status()


@pytest.mark.parametrize(("live_s", "missed"), [(37, []), (38, MISSED), (100, MISSED)])
def test_a_page_that_had_to_come_and_did_not_is_missed(on_call: OnCall, live_s: int, missed: list[str]) -> None:
    """Which is once the card has been above the mark for 20 s, and not before."""
    assert on_call.missed(World(FLEET, START_S, [HOG]), START_S + live_s) == missed


def test_the_page_that_came_is_shown_and_is_not_missed(on_call: OnCall, shown: list[Panel]) -> None:
    _page(on_call, "critical")
    assert len(shown) == 1
    assert on_call.summary() == "on-call was paged 1 times: 1 firing, 0 state unknown, 0 resolved"
    assert on_call.missed(World(FLEET, START_S, [HOG]), START_S + 100) == []


@pytest.mark.parametrize("page", [("high", UUID), ("critical", FLEET.nodes["sim-4090-a"][4].device.uuid)])
def test_a_page_of_another_level_or_card_is_not_the_one(on_call: OnCall, page: tuple[str, str]) -> None:
    _page(on_call, *page)
    assert on_call.missed(World(FLEET, START_S, [HOG]), START_S + 100) == MISSED


def test_a_card_that_is_lost_on_the_way_up_brings_no_page(on_call: OnCall) -> None:
    lost = Incident(IncidentKind.LOST, UUID, START_S + 25, START_S + 33)
    assert on_call.missed(World(FLEET, START_S, [HOG], [lost]), START_S + 42) == []


def test_of_real_cards_nothing_is_known(on_call: OnCall) -> None:
    assert on_call.missed(None, START_S) == []
    assert on_call.summary() == "on-call was not paged"


def test_the_hog_does_reach_the_highest_mark() -> None:
    """Else none of this would be tried by the demo."""
    world = World(FLEET, START_S, [HOG])
    ratios = [world.used_bytes(UUID, None, None, START_S + age_s) / CARD.usable_bytes for age_s in range(60)]
    above = [age_s for age_s, ratio in enumerate(ratios) if ratio >= max(mark.used_ratio for mark in WATERMARKS)]
    assert above == list(range(18, 42))
