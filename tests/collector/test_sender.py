"""Whatever happens to the store, what was queued gets there, once."""

import os
import signal
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from collector.queue import BatchQueue
from collector.sample_runs import one_sample
from collector.sender import Sender
from domain.clock import FrozenClock, SystemClock
from domain.series import COLLECTOR_COMPLETE_UNTIL, GPU_MEMORY_USED
from machine.process import Child, free_port
from tests.fakes.clock import SettableClock
from victoriametrics import launcher
from victoriametrics.encode import encode
from victoriametrics.push import Pusher
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector

START_S = 1_790_000_000
# How long a busy machine may take for what takes a second or two.
PATIENCE_S = 60
# As 1.79 writes it, which Debian 12 has.
OLD_PAGE = (
    'flag{name="dedup.minScrapeInterval", value="1s", is_set="true"} 1\n'
    'flag{name="retentionPeriod", value="100y", is_set="true"} 1\n'
)


def _unchecked() -> None:
    """For a store that is known to be good."""


def _put(queue: BatchQueue, node: str, seconds: range) -> None:
    for second_s in seconds:
        run = one_sample(GPU_MEMORY_USED, {"node": node, "gpu_uuid": "GPU-1"}, second_s, second_s)
        queue.put(second_s, encode([run]), 0)


def _stored(url: str, node: str, seconds: range) -> list[int]:
    with Pusher(url) as pusher, Reader(url) as reader:
        pusher.flush()
        frame = reader.export(Selector((GPU_MEMORY_USED,), {"node": node}), seconds.start, seconds.stop).frame
    assert frame["second_s"].to_list() == frame["value"].cast(int).to_list()
    return frame["second_s"].to_list()


def _marks(url: str, node: str) -> dict[int, float]:
    with Pusher(url) as pusher, Reader(url) as reader:
        pusher.flush()
        selector = Selector((COLLECTOR_COMPLETE_UNTIL,), {"node": node})
        frame = reader.export(selector, START_S, START_S + 100_000).frame
    return dict(frame.select("second_s", "value").iter_rows())


def test_seconds_are_delivered_and_the_mark_follows(
    queue: BatchQueue, victoriametrics_url: str, unique_node: str
) -> None:
    clock = FrozenClock((START_S + 50) * 1_000_000)
    with Pusher(victoriametrics_url) as pusher:
        sender = Sender(unique_node, queue, pusher, clock, _unchecked)
        _put(queue, unique_node, range(START_S, START_S + 10))

        assert sender.deliver()
        clock.advance_us(3_000_000)
        queue.put(START_S + 12, b"", holes=2)
        assert sender.deliver()

    assert len(queue) == 0
    assert _stored(victoriametrics_url, unique_node, range(START_S, START_S + 100)) == list(
        range(START_S, START_S + 10)
    )
    assert _marks(victoriametrics_url, unique_node) == {START_S + 50: START_S + 10, START_S + 53: START_S + 13}


def test_a_mark_is_never_ahead_of_the_clock_and_goes_on_when_the_clock_is_right_again(
    queue: BatchQueue, victoriametrics_url: str, unique_node: str
) -> None:
    """The clock was an hour ahead. The meter takes the largest mark there is: none may vouch for a time to come."""
    clock = SettableClock((START_S + 3_600) * 1_000_000)
    with Pusher(victoriametrics_url) as pusher:
        sender = Sender(unique_node, queue, pusher, clock, _unchecked)
        _put(queue, unique_node, range(START_S + 3_600, START_S + 3_601))
        assert sender.deliver()
        clock.advance_us(5_000_000)
        clock.set_by_us(-3_600 * 1_000_000)
        queue.put(START_S + 3_602, b"", holes=1)
        assert sender.deliver()
        queue.start_again(START_S + 6, holes=0)
        for second_s in range(START_S + 6, START_S + 9):
            clock.advance_us(1_000_000)
            _put(queue, unique_node, range(second_s, second_s + 1))
            assert sender.deliver()

    marks = _marks(victoriametrics_url, unique_node)
    assert marks == {
        START_S + 3_600: START_S + 3_601,
        START_S + 5: START_S + 6,
        START_S + 6: START_S + 7,
        START_S + 7: START_S + 8,
        START_S + 8: START_S + 9,
    }
    assert all(until_s <= at_s + 1 for at_s, until_s in marks.items())


@pytest.fixture
def own_store(victoriametrics_binary: Path, tmp_path: Path) -> Iterator["OwnStore"]:
    store = OwnStore(victoriametrics_binary, tmp_path)
    yield store
    store.child.stop()


class OwnStore:
    """A server that can be stopped, killed and started again over the same data."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self._binary = binary
        self._folder = folder
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.child = self.start()

    def start(self) -> Child:
        self.child = launcher.start(
            binary=self._binary,
            port=self._port,
            data_dir=self._folder / "store",
            log=self._folder / "store.log",
            clock=SystemClock(),
        )
        return self.child

    def kill(self) -> None:
        os.kill(self.child.pid, signal.SIGKILL)
        self.child.stop()


def test_a_store_that_is_away_and_comes_back_has_everything(queue: BatchQueue, own_store: OwnStore) -> None:
    """O2: the store is down while seconds are sampled."""
    with Pusher(own_store.url) as pusher, capture_logs() as logs:
        sender = Sender("node-1", queue, pusher, SystemClock(), _unchecked)
        _put(queue, "node-1", range(START_S, START_S + 20))
        assert sender.deliver()
        own_store.child.stop()
        _put(queue, "node-1", range(START_S + 20, START_S + 400))
        assert not sender.deliver()
        assert not sender.deliver()
        waiting = len(queue)
        own_store.start()
        sender.drain(PATIENCE_S)

    assert waiting == 400, "what the store had taken of late waits again too"
    assert len(queue) == 0
    assert _stored(own_store.url, "node-1", range(START_S, START_S + 1_000)) == list(range(START_S, START_S + 400))
    assert [log["event"] for log in logs] == ["store_unavailable", "store_available"]


def test_a_store_that_is_killed_loses_nothing_it_said_yes_to(queue: BatchQueue, own_store: OwnStore) -> None:
    """It says yes up to 5 s before its disk has the samples: those are sent again."""
    with Pusher(own_store.url) as pusher:
        sender = Sender("node-1", queue, pusher, SystemClock(), _unchecked)
        _put(queue, "node-1", range(START_S, START_S + 30))
        assert sender.deliver()
        own_store.kill()
        _put(queue, "node-1", range(START_S + 30, START_S + 31))
        assert not sender.deliver()
        own_store.start()
        sender.drain(PATIENCE_S)

    assert _stored(own_store.url, "node-1", range(START_S, START_S + 100)) == list(range(START_S, START_S + 31))


@pytest.fixture
def merging_store(victoriametrics_binary: Path, tmp_path: Path) -> Iterator[str]:
    """A server that keeps one sample in half a minute."""
    port = free_port()
    words = launcher.command(binary=victoriametrics_binary, port=port, data_dir=tmp_path / "merging")
    url = f"http://127.0.0.1:{port}"
    # Of equal flags the last counts.
    with Child([*words, "-dedup.minScrapeInterval=30s"], log=tmp_path / "merging.log"):
        launcher.wait_healthy(url, timeout_s=15, clock=SystemClock())
        yield url


def test_a_store_that_would_merge_seconds_gets_none_of_them(queue: BatchQueue, merging_store: str) -> None:
    _put(queue, "node-1", range(START_S, START_S + 20))
    with Pusher(merging_store) as pusher, capture_logs() as logs:
        sender = Sender("node-1", queue, pusher, SystemClock(), partial(launcher.check_flags, merging_store))
        for _ in range(3):
            assert not sender.deliver()

    assert len(queue) == 20
    assert _stored(merging_store, "node-1", range(START_S, START_S + 100)) == []
    (log,) = logs
    assert log["event"] == "store_unavailable"
    assert "-dedup.minScrapeInterval is '30s'; start it with 1s" in log["error"]


def test_a_store_is_checked_once_and_an_outage_then_is_only_an_outage(queue: BatchQueue, own_store: OwnStore) -> None:
    checks: list[str] = []

    def check() -> None:
        launcher.check_flags(own_store.url)
        checks.append(own_store.url)

    own_store.child.stop()
    with Pusher(own_store.url) as pusher, capture_logs() as logs:
        sender = Sender("node-1", queue, pusher, SystemClock(), check)
        _put(queue, "node-1", range(START_S, START_S + 5))
        assert not sender.deliver()
        assert not sender.deliver()
        own_store.start()
        assert sender.deliver()
        own_store.child.stop()
        _put(queue, "node-1", range(START_S + 5, START_S + 10))
        assert not sender.deliver()
        assert not sender.deliver()
        own_store.start()
        assert sender.deliver()

    assert len(checks) == 1
    assert [log["event"] for log in logs] == ["store_unavailable", "store_available"] * 2
    assert _stored(own_store.url, "node-1", range(START_S, START_S + 100)) == list(range(START_S, START_S + 10))


def test_what_answers_but_is_no_store_gets_nothing_and_makes_no_second_unusable(
    queue: BatchQueue, picky_store: ThreadingHTTPServer
) -> None:
    """Too old, or an HTTPS port, whose 400 would set aside every second there is; each reason is said once."""
    url = f"http://127.0.0.1:{picky_store.server_port}"
    pages = [(200, OLD_PAGE), (200, OLD_PAGE), (400, "Client sent an HTTP request to an HTTPS server."), (404, "")]
    picky_store.pages = pages.copy()  # type: ignore[attr-defined]
    _put(queue, "node-1", range(START_S, START_S + 5))

    with Pusher(url) as pusher, capture_logs() as logs:
        sender = Sender("node-1", queue, pusher, SystemClock(), partial(launcher.check_flags, url))
        for _ in pages:
            assert not sender.deliver()

    assert picky_store.pages == []  # type: ignore[attr-defined]
    assert picky_store.taken == []  # type: ignore[attr-defined]
    assert (len(queue), queue.refused) == (5, 0)
    for log, words in zip(logs, ["it lacks the flag -search.maxMemoryPerQuery", "HTTPS server", "404"], strict=True):
        assert words in log["error"]


class _Picky(BaseHTTPRequestHandler):
    """Refuses every request that has a certain second in it, as a store does with a line it cannot read."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = 400 if b"unreadable" in body else 204
        self.server.taken.append((status, body))  # type: ignore[attr-defined]
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        """The page of flags that the test has laid out next."""
        status, text = self.server.pages.pop(0)  # type: ignore[attr-defined]
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_request(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def picky_store() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Picky)
    server.taken = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_second_that_the_store_calls_unusable_is_set_aside_and_the_others_arrive(
    queue: BatchQueue, picky_store: ThreadingHTTPServer
) -> None:
    """O3: one bad block among good ones."""
    for second_s in range(START_S, START_S + 5):
        queue.put(second_s, b"unreadable\n" if second_s == START_S + 2 else b"good %d\n" % second_s, 0)

    with Pusher(f"http://127.0.0.1:{picky_store.server_port}") as pusher, capture_logs() as logs:
        sender = Sender("node-1", queue, pusher, FrozenClock((START_S + 10) * 1_000_000), _unchecked)
        assert sender.deliver()
        assert sender.deliver()

    taken = [body for status, body in picky_store.taken if status == 204]  # type: ignore[attr-defined]
    good = [b"good %d\n" % s for s in range(START_S, START_S + 5) if s != START_S + 2]
    assert taken[:4] == good
    assert len(queue) == 0
    assert queue.refused == 1
    assert queue.complete_until_s == START_S + 5
    assert [(log["event"], log["second_s"]) for log in logs] == [("second_refused", START_S + 2)]
    unusable = [body for status, body in picky_store.taken if status == 400]  # type: ignore[attr-defined]
    assert len(unusable) == 2, "once among the others, once alone, then never again"


def test_the_sender_tries_again_by_itself(queue: BatchQueue, own_store: OwnStore) -> None:
    own_store.child.stop()
    stop = threading.Event()
    with Pusher(own_store.url) as pusher:
        sender = Sender("node-1", queue, pusher, SystemClock(), _unchecked)
        thread = threading.Thread(target=sender.run, args=(stop,))
        thread.start()
        _put(queue, "node-1", range(START_S, START_S + 3))
        sender.wake()
        own_store.start()
        clock = SystemClock()
        until_s = clock.monotonic_s() + PATIENCE_S
        while len(queue) and clock.monotonic_s() < until_s:
            clock.sleep_s(0.05)
        stop.set()
        sender.wake()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()

    assert len(queue) == 0
