"""A store that is not fit to keep every second gets none, and what it calls unusable is set aside."""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from collector.delivery.queue import BatchQueue
from collector.delivery.sender import Sender
from domain.clock import FrozenClock, SystemClock
from tests.collector.sample_logs import START_S
from tests.collector.sent import put_samples, stored_seconds
from tests.collector.stores import OwnStore, merging_store, unchecked
from victoriametrics import launcher
from victoriametrics.push import Pusher

# As 1.79 writes it, which Debian 12 has.
OLD_PAGE = (
    'flag{name="dedup.minScrapeInterval", value="1s", is_set="true"} 1\n'
    'flag{name="retentionPeriod", value="100y", is_set="true"} 1\n'
)
PAGE = f"{OLD_PAGE}vm_app_start_timestamp {START_S}\n"


def test_a_store_that_would_merge_seconds_gets_none_of_them(
    queue: BatchQueue, victoriametrics_binary: Path, tmp_path: Path
) -> None:
    put_samples(queue, "node-1", range(START_S, START_S + 20))
    with merging_store(victoriametrics_binary, tmp_path, "30s") as url:
        with Pusher(url) as pusher, capture_logs() as logs:
            sender = Sender("node-1", queue, pusher, SystemClock(), partial(launcher.check_flags, url))
            for _ in range(3):
                assert not sender.deliver()

        assert len(queue) == 20
        assert stored_seconds(url, "node-1", range(START_S, START_S + 100)) == []
    (log,) = logs
    assert log["event"] == "store_unavailable"
    assert "-dedup.minScrapeInterval is '30s'; start it with 1s" in log["error"]


def test_a_store_is_checked_once_each_time_it_starts_and_an_outage_then_is_only_an_outage(
    queue: BatchQueue, own_store: OwnStore
) -> None:
    checks: list[str] = []

    def check() -> None:
        launcher.check_flags(own_store.url)
        checks.append(own_store.url)

    own_store.child.stop()
    with Pusher(own_store.url) as pusher, capture_logs() as logs:
        sender = Sender("node-1", queue, pusher, SystemClock(), check)
        put_samples(queue, "node-1", range(START_S, START_S + 5))
        assert not sender.deliver()
        assert not sender.deliver()
        own_store.start()
        assert sender.deliver()
        assert len(checks) == 1
        own_store.child.stop()
        put_samples(queue, "node-1", range(START_S + 5, START_S + 10))
        assert not sender.deliver()
        assert not sender.deliver()
        own_store.start()
        assert sender.deliver()

    assert len(checks) == 2
    assert [log["event"] for log in logs] == [
        "store_unavailable",
        "store_available",
        "store_unavailable",
        "store_restarted",
        "store_available",
    ]
    assert stored_seconds(own_store.url, "node-1", range(START_S, START_S + 100)) == list(range(START_S, START_S + 10))


class PickyStore(ThreadingHTTPServer):
    """`taken` are status and body of what was pushed to it, `pages` the answers to the next looks at its flags."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Door)
        self.taken: list[tuple[int, bytes]] = []
        self.pages: list[tuple[int, str]] = []


class _Door(BaseHTTPRequestHandler):
    """Refuses every request that has a certain second in it, as a store does with a line it cannot read."""

    server: PickyStore

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = 400 if b"unreadable" in body else 204
        self.server.taken.append((status, body))
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        """The page of flags that the test has laid out next, or a good one."""
        pages = self.server.pages
        status, text = pages.pop(0) if pages else (200, PAGE)
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_request(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def picky_store() -> Iterator[PickyStore]:
    server = PickyStore()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_what_answers_but_is_no_store_gets_nothing_and_makes_no_second_unusable(
    queue: BatchQueue, picky_store: PickyStore
) -> None:
    """Too old, or an HTTPS port, whose 400 would set aside every second there is; each reason is said once."""
    url = f"http://127.0.0.1:{picky_store.server_port}"
    pages = [(200, OLD_PAGE), (200, OLD_PAGE), (400, "Client sent an HTTP request to an HTTPS server."), (404, "")]
    picky_store.pages = pages.copy()
    put_samples(queue, "node-1", range(START_S, START_S + 5))

    with Pusher(url) as pusher, capture_logs() as logs:
        sender = Sender("node-1", queue, pusher, SystemClock(), partial(launcher.check_flags, url))
        for _ in pages:
            assert not sender.deliver()

    assert picky_store.pages == []
    assert picky_store.taken == []
    assert (len(queue), queue.refused) == (5, 0)
    for log, words in zip(logs, ["it lacks the flag -search.maxMemoryPerQuery", "HTTPS server", "404"], strict=True):
        assert words in log["error"]


def test_a_second_that_the_store_calls_unusable_is_set_aside_and_the_others_arrive(
    queue: BatchQueue, picky_store: PickyStore
) -> None:
    """O3: one bad block among good ones."""
    for second_s in range(START_S, START_S + 5):
        queue.put(second_s, b"unreadable\n" if second_s == START_S + 2 else b"good %d\n" % second_s)

    with Pusher(f"http://127.0.0.1:{picky_store.server_port}") as pusher, capture_logs() as logs:
        sender = Sender("node-1", queue, pusher, FrozenClock((START_S + 10) * 1_000_000), unchecked)
        assert sender.deliver()
        assert sender.deliver()

    taken = [body for status, body in picky_store.taken if status == 204]
    good = [b"good %d\n" % s for s in range(START_S, START_S + 5) if s != START_S + 2]
    assert [body for body in taken if body.startswith(b"good")] == good
    assert len(queue) == 0
    assert (queue.refused, queue.quarantined) == (1, 1)
    assert queue.complete_until_s == START_S + 5
    assert [(log["event"], log["second_s"]) for log in logs] == [("samples_quarantined", START_S + 2)]
    unusable = [body for status, body in picky_store.taken if status == 400]
    assert len(unusable) == 2, "once among the others, once alone, then never again"
