"""The allocator learns of every change, with the second it was seen in, however long it was away."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from collector.delivery.node_service import NodeService
from collector.delivery.queue import BatchQueue
from collector.delivery.reporter import Heartbeat, InventoryReporter
from collector.simulation.fleet import demo_fleet
from collector.source import ScriptedSource
from domain.clock import FrozenClock
from domain.errors import UnavailableError
from domain.inventory import Device
from tests.collector.patience import PATIENCE_S, wait_until
from tests.fakes.clock import SettableClock

START_S = 1_700_000_000
SECOND_US = 1_000_000
DEVICES = demo_fleet(1).devices("sim-h100")


class Allocator(ThreadingHTTPServer):
    """The two doors of the service; `status` is what it answers, once `answers` is set, `ahead_us` its clock's lead."""

    def __init__(self, clock: FrozenClock) -> None:
        super().__init__(("127.0.0.1", 0), _Door)
        self.clock = clock
        self.status = 200
        self.ahead_us = 0
        self.bodies: list[dict[str, Any]] = []
        self.beats = 0
        self.asked = threading.Event()
        self.answers = threading.Event()
        self.answers.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Door(BaseHTTPRequestHandler):
    server: Allocator

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.set()
        self.server.answers.wait(PATIENCE_S)
        status = self.server.status if self.headers["Authorization"] == "Bearer secret" else 401
        if status == 200 and self.path == "/v1/nodes/node-1/inventory":
            self.server.bodies.append(json.loads(body))
        elif status == 200 and self.path == "/v1/nodes/node-1/heartbeat":
            self.server.beats += 1
        answer = json.dumps({"now_us": self.server.clock.now_us() + self.server.ahead_us}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_request(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(START_S * SECOND_US)


@pytest.fixture
def allocator(clock: FrozenClock) -> Iterator[Allocator]:
    server = Allocator(clock)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def service(allocator: Allocator) -> Iterator[NodeService]:
    with httpx.Client(trust_env=False) as client:
        yield NodeService(allocator.url, "node-1", "secret", client)


@pytest.fixture
def source() -> ScriptedSource:
    return ScriptedSource(DEVICES, lambda _uuid, _second: [])


def test_the_inventory_is_reported_at_the_start_on_a_change_and_every_minute(
    source: ScriptedSource, queue: BatchQueue, clock: FrozenClock, allocator: Allocator, service: NodeService
) -> None:
    reporter = InventoryReporter(source, "node-1", queue, clock, service)
    for age_s in range(5, 101, 5):
        clock.advance_us(5 * SECOND_US)
        if age_s == 20:
            source.devices = DEVICES[1:]
        reporter.look()
        reporter.deliver()

    assert [body["observed_s"] for body in allocator.bodies] == [START_S, START_S + 20, START_S + 80]
    assert allocator.bodies[0]["devices"][2]["instances"][0]["profile"] == "3g.40gb"
    assert [len(body["devices"]) for body in allocator.bodies] == [4, 3, 3]


def test_a_clock_that_is_set_back_does_not_stop_the_reports(
    source: ScriptedSource, queue: BatchQueue, allocator: Allocator, service: NodeService
) -> None:
    clock = SettableClock(START_S * SECOND_US)
    reporter = InventoryReporter(source, "node-1", queue, clock, service)
    clock.set_by_us(-3_600 * SECOND_US)
    for _ in range(14):
        clock.advance_us(5 * SECOND_US)
        reporter.look()
        reporter.deliver()

    assert [body["observed_s"] for body in allocator.bodies] == [START_S, START_S - 3_600 + 60]


def test_reports_wait_while_the_service_is_away_and_keep_the_second_they_were_seen_in(
    source: ScriptedSource, queue: BatchQueue, clock: FrozenClock, allocator: Allocator, service: NodeService
) -> None:
    allocator.status = 503
    with capture_logs() as logs:
        reporter = InventoryReporter(source, "node-1", queue, clock, service)
        for _ in range(40):
            clock.advance_us(5 * SECOND_US)
            reporter.look()
            reporter.deliver()
        allocator.status = 200
        reporter.deliver()

    assert [body["observed_s"] for body in allocator.bodies] == [START_S, START_S + 180]
    assert [log["event"] for log in logs] == ["allocator_unavailable", "allocator_available"], "said once, not 40 times"


def test_a_report_that_the_service_refuses_for_good_does_not_block_the_next(
    source: ScriptedSource, queue: BatchQueue, clock: FrozenClock, allocator: Allocator, service: NodeService
) -> None:
    reporter = InventoryReporter(source, "node-1", queue, clock, service)
    allocator.status = 422
    with capture_logs() as logs:
        reporter.deliver()
    allocator.status = 200
    source.devices = DEVICES[1:]
    reporter.look()
    reporter.deliver()

    assert [log["event"] for log in logs] == ["inventory_refused"]
    assert [len(body["devices"]) for body in allocator.bodies] == [3]


def test_a_wrong_token_is_tried_again_since_it_can_be_mended(
    source: ScriptedSource, queue: BatchQueue, clock: FrozenClock, allocator: Allocator
) -> None:
    with httpx.Client(trust_env=False) as client, capture_logs() as logs:
        service = NodeService(allocator.url, "node-1", "wrong-secret", client)
        InventoryReporter(source, "node-1", queue, clock, service).deliver()

    assert queue.reports.first() is not None
    assert "401" in logs[0]["error"]
    assert "wrong-secret" not in str(logs)


def test_a_driver_without_an_inventory_is_an_error_at_the_start_only(queue: BatchQueue, clock: FrozenClock) -> None:
    class Broken(ScriptedSource):
        def inventory(self) -> tuple[Device, ...]:
            raise UnavailableError("cannot reach the NVIDIA driver")

    with pytest.raises(UnavailableError, match="NVIDIA driver"):
        InventoryReporter(Broken((), lambda _uuid, _second: []), "node-1", queue, clock, None)


def test_a_heartbeat_measures_the_skew_and_forgets_it_while_the_service_is_away(
    clock: FrozenClock, allocator: Allocator, service: NodeService
) -> None:
    heartbeat = Heartbeat("node-1", clock, service)
    assert heartbeat.skew_us is None

    allocator.ahead_us = 1_200_000
    heartbeat.beat()
    assert heartbeat.skew_us == 1_200_000

    allocator.status = 500
    with capture_logs() as logs:
        heartbeat.beat()
        heartbeat.beat()
    assert heartbeat.skew_us is None
    assert [log["event"] for log in logs] == ["heartbeat_failed"]
    assert allocator.beats == 1


@contextmanager
def _at_work(reporter: InventoryReporter) -> Iterator[None]:
    """The reporter on its two threads."""
    stop = threading.Event()
    threads = [threading.Thread(target=task, args=(stop,)) for task in (reporter.run, reporter.send)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_a_change_that_the_source_knows_of_is_reported_without_delay(
    source: ScriptedSource, queue: BatchQueue, clock: FrozenClock, allocator: Allocator, service: NodeService
) -> None:
    """On a clock that stands still the look of every 5 s never comes."""
    changed = threading.Event()
    reporter = InventoryReporter(source, "node-1", queue, clock, service, changed)
    with _at_work(reporter):
        wait_until(lambda: len(allocator.bodies) == 1)
        source.devices = DEVICES[1:]
        changed.set()
        wait_until(lambda: len(allocator.bodies) == 2)
    assert reporter.devices == DEVICES[1:]
    assert not changed.is_set()


def test_a_service_that_hangs_does_not_keep_changes_from_being_seen(
    source: ScriptedSource, queue: BatchQueue, clock: FrozenClock, allocator: Allocator, service: NodeService
) -> None:
    """A new MIG instance is read from the next second on, and reported with the second in which it was seen."""
    changed = threading.Event()
    allocator.answers.clear()
    reporter = InventoryReporter(source, "node-1", queue, clock, service, changed)
    with _at_work(reporter):
        wait_until(allocator.asked.is_set)
        for devices in (DEVICES[1:], DEVICES):
            clock.advance_us(SECOND_US)
            source.devices = devices
            changed.set()
            wait_until(lambda devices=devices: reporter.devices == devices)  # type: ignore[misc]
        assert allocator.bodies == []
        allocator.answers.set()
        wait_until(lambda: len(allocator.bodies) == 3)
    assert [body["observed_s"] - START_S for body in allocator.bodies] == [0, 1, 2]
