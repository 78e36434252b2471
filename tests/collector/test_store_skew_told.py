"""How far the store's clock is ahead is told by a collector: on its page, and beside its samples in the store."""

import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from domain.series import COLLECTOR_STORE_SKEW
from gputab.doctor.collector_page import page_values
from machine.process import free_port
from tests.collector.collecting import Start
from tests.collector.patience import PATIENCE_S, now_s, wait_until
from tests.collector.sent import stored_samples
from tests.fakes.nvml.driver import FakeDriver
from tests.fakes.shifted_clock import ShiftedClock

# Much more than any answer takes, and much less than what a store drops.
BY_S = 1_000


@pytest.fixture
def clock(tmp_path: Path) -> Iterator[ShiftedClock]:
    """The node's own."""
    clock = ShiftedClock(tmp_path)
    yield clock
    clock.close()


@pytest.mark.parametrize("by_s", [BY_S, -BY_S], ids=["ahead", "behind"])
def test_a_node_whose_clock_is_not_the_stores_says_by_how_much(
    driver: FakeDriver, start: Start, clock: ShiftedClock, unique_node: str, victoriametrics_url: str, by_s: int
) -> None:
    """Of a real store; as far as its answer proves it, so up to a second less, and less what it took."""
    clock.set(by_s)
    driver.card(0)
    port = free_port()
    environment = {**driver.env(), **clock.env(), "GPUTAB_METRICS_PORT": str(port)}
    process = start("--node", unique_node, env=environment)
    seconds = range(now_s() + by_s - 1, now_s() + by_s + 10 * PATIENCE_S)
    wait_until(lambda: bool(_on_page(port, unique_node) and _stored(victoriametrics_url, unique_node, seconds)))
    told = [*_on_page(port, unique_node), *_stored(victoriametrics_url, unique_node, seconds)]
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0

    assert all(BY_S - PATIENCE_S <= abs(skew_s) <= BY_S and (skew_s < 0) == (by_s > 0) for skew_s in told)


def _stored(url: str, node: str, seconds: range) -> list[float]:
    """What the store has of it."""
    frame = stored_samples(url, (COLLECTOR_STORE_SKEW,), {"node": node}, seconds.start, seconds.stop)
    return frame["value"].to_list()


def _on_page(port: int, node: str) -> list[float]:
    """What the page says of it; nothing while there is no page, or it does not know."""
    with httpx.Client(trust_env=False) as client:
        return (page_values(node, port, client) or {}).get(COLLECTOR_STORE_SKEW.name, [])
