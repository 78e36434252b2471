"""How far the store's clock is ahead is told as far as its answer proves it: it tells whole seconds."""

from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.delivery.queue import BatchQueue
from collector.delivery.sender import Sender
from domain.clock import MICROSECONDS, FrozenClock, SystemClock
from tests.collector.sample_logs import START_S
from tests.collector.stores import unchecked
from victoriametrics.push import Pusher


class Clocked(HTTPServer):
    """Says of itself what a store does, at the second `now_s`."""

    now_s = START_S


class _Page(BaseHTTPRequestHandler):
    server: Clocked
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        text = b'flag{name="retentionPeriod", value="100y", is_set="true"} 1\nvm_app_start_timestamp 1790000000\n'
        self.send_response_only(200)
        self.send_header("Date", formatdate(self.server.now_s, usegmt=True))
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_request(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def clocked() -> Iterator[Clocked]:
    with Clocked(("127.0.0.1", 0), _Page) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@settings(max_examples=settings().max_examples, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(skew_us=st.integers(-5_000_000, 5_000_000), at_us=st.integers(0, 999_999))
def test_no_more_is_said_than_is_true_and_at_most_a_second_less(
    queue: BatchQueue, clocked: Clocked, skew_us: int, at_us: int
) -> None:
    clock = FrozenClock(START_S * MICROSECONDS + at_us)
    clocked.now_s = (clock.now_us() + skew_us) // MICROSECONDS
    with Pusher(f"http://127.0.0.1:{clocked.server_port}") as pusher:
        sender = Sender("node-1", queue, pusher, clock, unchecked)
        assert sender.store_skew_s is None
        assert sender.deliver()
    said_s, skew_s = sender.store_skew_s, skew_us / MICROSECONDS
    assert said_s is not None
    assert said_s == 0 or (said_s > 0) == (skew_s > 0)
    assert abs(skew_s) - 1 - 1e-5 <= abs(said_s) <= abs(skew_s) + 1e-5


def test_a_real_store_on_this_machine_is_not_ahead(queue: BatchQueue, victoriametrics_url: str) -> None:
    with Pusher(victoriametrics_url) as pusher:
        sender = Sender("node-1", queue, pusher, SystemClock(), unchecked)
        assert sender.deliver()
    assert sender.store_skew_s == 0
