"""What a collector says of itself: pushed with each second, and the same on a page for a scraper."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from collector.call_times import CallTimes
from collector.delivery.queue import BatchQueue
from collector.own_metrics import RARE_SECONDS, OwnMetrics, OwnValue
from collector.own_page import OwnPage, served
from collector.own_values import call_values
from domain.clock import FrozenClock
from domain.samples import DeviceReading
from domain.series import (
    CATALOGUE,
    COLLECTOR_CALLS,
    COLLECTOR_COVERAGE,
    COLLECTOR_LATENESS,
    COLLECTOR_QUEUE_BYTES,
    GPU_UP,
    Kind,
    collector,
)
from domain.series.series import Series
from machine.process import free_port
from tests.collector.patience import CLOCK, wait_until
from tests.collector.rig import MakeRig, answer
from tests.collector.running import collecting_from, one_card
from victoriametrics.encode import encode
from victoriametrics.push import Pusher

SECOND_S = 1_700_000_010  # a multiple of 15

# What tells one sample from another: its name and its labels.
Sample = tuple[str, frozenset[tuple[str, str]]]


def scrape(port: int) -> dict[Sample, float]:
    """The page, whose families have the names, types and labels of the catalogue."""
    response = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False)
    assert response.status_code == 200
    return samples_of(response.text)


def samples_of(page: str) -> dict[Sample, float]:
    found: dict[Sample, float] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            series = CATALOGUE[sample.name]
            assert family.type == ("counter" if series.kind is Kind.COUNTER else "gauge")
            assert family.documentation == series.help
            assert set(sample.labels) == set(series.labels)
            found[sample.name, frozenset(sample.labels.items())] = sample.value
    return found


def pushed(body: bytes) -> dict[Sample, float]:
    """What a push says of the collector itself."""
    own = {series.name for series in vars(collector).values() if isinstance(series, Series)}
    found: dict[Sample, float] = {}
    for line in body.splitlines():
        run = json.loads(line)
        name = run["metric"].pop("__name__")
        if name in own:
            (found[name, frozenset(run["metric"].items())],) = run["values"]
    return found


def test_a_scrape_says_what_was_pushed(make_rig: MakeRig) -> None:
    def answers(gpu_uuid: str, second_s: int) -> list[DeviceReading]:
        if gpu_uuid == "GPU-1" and second_s % 2:
            raise OSError("no answer")
        if gpu_uuid == "GPU-2":
            return [DeviceReading(gpu_uuid, None, {GPU_UP: 7}, {})]
        return answer(gpu_uuid, second_s)

    rig = make_rig(answers)
    rig.skew_us = -1_500_000
    rig.run(4)
    # So that the queue is empty both when the second is sampled and when it is scraped.
    rig.queue.delivered([batch.second_s for batch in rig.queue.pending(2**30)], rig.clock.now_us())
    rig.run(1)
    (batch,) = rig.queue.pending(1)
    rig.queue.delivered([batch.second_s], rig.clock.now_us())

    port = free_port()
    with served(OwnPage(rig.own.values), port):
        shown = scrape(port)

    said = pushed(batch.body)
    waiting = COLLECTOR_QUEUE_BYTES.name, frozenset({("node", "node-1")})
    assert shown.pop(waiting) > said.pop(waiting), "by now the second itself is in the queue"
    assert shown == said
    assert {name for name, _ in shown} >= {COLLECTOR_LATENESS.name, COLLECTOR_COVERAGE.name}
    coverage = {dict(labels)["gpu_uuid"]: value for (name, labels), value in shown.items() if "coverage" in name}
    assert coverage == {"GPU-0": 1, "GPU-1": 0.4, "GPU-2": 0}


def test_every_number_of_a_collector_has_its_catalogues_name_on_the_page() -> None:
    """Whatever is told: the library puts `_total` behind counters, and nothing else behind anything."""
    mine = [series for series in vars(collector).values() if isinstance(series, Series)]
    registry = CollectorRegistry()

    def tell() -> Iterator[OwnValue]:
        for number, series in enumerate(mine):
            yield OwnValue(series, number, {label: f'a "{label}"\\' for label in series.labels if label != "node"})

    own = OwnMetrics("node-1", tell)
    registry.register(OwnPage(own.values))
    shown = samples_of(generate_latest(registry).decode())

    assert [name for name, _ in shown] == [series.name for series in mine]
    assert shown == pushed(encode(own.runs(SECOND_S)))


def test_the_drivers_functions_are_pushed_every_fifteen_seconds_and_shown_at_any_time() -> None:
    clock = FrozenClock(0)
    calls = CallTimes(clock)
    for call in ("DeviceGetName", "DeviceGetUUID"):
        calls.note(call, calls.now_s(), "UNKNOWN")
    own = OwnMetrics("node-1", tuple, lambda: call_values(calls))

    seconds = [second_s for second_s in range(SECOND_S - 20, SECOND_S + 20) if list(own.runs(second_s))]
    assert seconds == [SECOND_S - RARE_SECONDS, SECOND_S, SECOND_S + RARE_SECONDS]
    assert len(own.values()) == 8
    assert OwnValue(COLLECTOR_CALLS, 1, {"node": "node-1", "call": "DeviceGetName"}) in own.values()


@contextmanager
def collecting_with_a_page(queue: BatchQueue, store_url: str, node: str, metrics_port: int) -> Iterator[None]:
    """A collector of one card at work, with its page."""
    calls = CallTimes(CLOCK)
    with (
        Pusher(store_url) as pusher,
        collecting_from(one_card(node), node, queue, pusher, metrics_port=metrics_port, calls=calls),
    ):
        yield


def test_a_collector_shows_its_page_while_it_runs_and_not_after(
    queue: BatchQueue, victoriametrics_url: str, unique_node: str
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/metrics"
    with collecting_with_a_page(queue, victoriametrics_url, unique_node, port):
        wait_until(lambda: queue.sampled_until_s is not None)
        shown = scrape(port)
        assert shown[COLLECTOR_COVERAGE.name, frozenset({"node": unique_node, "gpu_uuid": unique_node}.items())] == 1
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, trust_env=False)


def test_a_port_that_is_taken_costs_the_page_and_not_the_collector(
    queue: BatchQueue, victoriametrics_url: str, unique_node: str
) -> None:
    port = free_port()
    with served(OwnPage(list), port), capture_logs() as logs:
        with collecting_with_a_page(queue, victoriametrics_url, unique_node, port):
            wait_until(lambda: queue.sampled_until_s is not None)
        assert scrape(port) == {}, "the page of whoever had the port first"
    (said,) = [log for log in logs if log["event"] == "metrics_page_unavailable"]
    assert said["port"] == port
    assert "metrics_port" in said["remedy"]
