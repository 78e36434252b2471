"""400, 429, 503, resets and hangs: nothing is lost, nothing is there twice, and fresh seconds go on being queued."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from collector.delivery.queue import BatchQueue
from collector.delivery.sender import Sender
from domain.clock import MICROSECONDS, FrozenClock, SystemClock
from tests.collector.doors import proxy
from tests.collector.patience import PATIENCE_S, wait_until
from tests.collector.sample_logs import START_S
from tests.collector.sent import marks_of, put_samples, stored_seconds
from tests.collector.stores import unchecked
from victoriametrics.push import Pusher

SECONDS = range(START_S, START_S + 300)
IMPORT = "/api/v1/import"


class CountedEvent(threading.Event):
    """Never set, and never waited for: it notes for how long somebody would have waited, and is set at the last."""

    def __init__(self, waits: int) -> None:
        super().__init__()
        self.waited_s: list[float] = []
        self._waits = waits

    def wait(self, timeout: float | None = None) -> bool:
        self.waited_s.append(timeout or 0)
        if len(self.waited_s) == self._waits:
            self.set()
        return self.is_set()


@pytest.mark.parametrize(
    ("status", "headers", "rest_s"),
    [
        (429, {"Retry-After": "7"}, 7),
        (503, {"Retry-After": "20"}, 20),
        (429, {"Retry-After": "86400"}, 60),
        (503, {"Retry-After": "Fri, 01 Jan 2100 00:00:00 GMT"}, 60),
        (503, {"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"}, None),
        (503, {"Retry-After": "soon"}, None),
        (503, {"Retry-After": "-5"}, None),
        (429, {}, None),
        (500, {"Retry-After": "7"}, None),
    ],
)
def test_a_store_that_asks_for_a_rest_has_it_within_bounds_and_loses_nothing(
    queue: BatchQueue,
    victoriametrics_url: str,
    unique_node: str,
    status: int,
    headers: dict[str, str],
    rest_s: float | None,
) -> None:
    """Without a word, or with none that can be used, it is tried again after 0.5 s, then 1 s, as ever."""
    put_samples(queue, unique_node, SECONDS)
    with proxy(victoriametrics_url) as door, Pusher(door.url) as pusher:
        sender = Sender(unique_node, queue, pusher, FrozenClock(SECONDS.stop * MICROSECONDS), unchecked)
        door.answers = lambda path, _body: (status, headers) if path == IMPORT else None
        stop = CountedEvent(2)
        sender.run(stop)
        assert stop.waited_s == [rest_s or 0.5, rest_s or 1.0]
        assert (len(queue), queue.refused, queue.quarantined, queue.holes) == (300, 0, 0, 0)
        door.answers = lambda _path, _body: None
        sender.drain(PATIENCE_S)
    assert stored_seconds(victoriametrics_url, unique_node, SECONDS) == list(SECONDS)


@pytest.mark.parametrize("resets_after", [0, 0.5, None], ids=["at once", "in the body", "after all was taken"])
def test_a_connection_that_is_reset_costs_nothing(
    queue: BatchQueue, victoriametrics_url: str, unique_node: str, resets_after: float | None
) -> None:
    """What was taken without an answer is sent again: each second is there once, with its value."""
    put_samples(queue, unique_node, SECONDS)
    clock = FrozenClock(SECONDS.stop * MICROSECONDS)
    with proxy(victoriametrics_url) as door, Pusher(door.url) as pusher:
        sender = Sender(unique_node, queue, pusher, clock, unchecked)
        # Many requests, of which some are reset.
        door.answers = lambda _path, body: (413, {}) if len(body) > 6_000 else None
        times = count()
        door.resets_after = resets_after
        # Every other request.
        door.resets = lambda path: path == IMPORT and next(times) % 2 == 0
        failed = 0
        while len(queue):
            failed += not sender.deliver()
            clock.advance_us(MICROSECONDS)
        assert failed > 2
        sender.drain(PATIENCE_S)
    assert (queue.holes, queue.refused, queue.quarantined) == (0, 0, 0)
    assert stored_seconds(victoriametrics_url, unique_node, SECONDS) == list(SECONDS)
    marks = list(marks_of(victoriametrics_url, unique_node, range(START_S, START_S + 2_000)).values())
    assert marks == sorted(marks)
    assert max(marks) <= SECONDS.stop


class HastyPusher(Pusher):
    """Waits for an answer a twentieth of the time that it is told to."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.told_s: list[float] = []

    def limit_answers(self, seconds: float) -> None:
        self.told_s.append(seconds)
        super().limit_answers(seconds / 20)


@contextmanager
def _silent_server() -> Iterator[str]:
    """The URL of what takes every connection and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_a_store_that_hangs_is_given_up_and_seconds_go_on_being_queued(
    queue: BatchQueue, victoriametrics_url: str, unique_node: str
) -> None:
    """After ten seconds, which are half a one here."""
    hangs, released, stop = threading.Event(), threading.Event(), threading.Event()

    def hang(path: str, _body: bytes) -> None:
        if path == IMPORT and not released.is_set():
            hangs.set()
            released.wait(PATIENCE_S)

    with proxy(victoriametrics_url) as door, HastyPusher(door.url) as pusher:
        door.answers = hang
        sender = Sender(unique_node, queue, pusher, SystemClock(), unchecked)
        thread = threading.Thread(target=sender.run, args=(stop,))
        thread.start()
        try:
            put_samples(queue, unique_node, range(START_S, START_S + 3))
            sender.wake()
            assert hangs.wait(PATIENCE_S)
            put_samples(queue, unique_node, range(START_S + 3, START_S + 6))
            wait_until(lambda: sender.is_failing)
            assert len(queue) == 6
            put_samples(queue, unique_node, range(START_S + 6, START_S + 9))
            released.set()
            wait_until(lambda: len(queue) == 0)
        finally:
            released.set()
            stop.set()
            sender.wake()
            thread.join(PATIENCE_S)
    assert pusher.told_s == [10]
    assert stored_seconds(victoriametrics_url, unique_node, SECONDS) == list(range(START_S, START_S + 9))


def test_what_takes_connections_and_never_answers_is_a_store_that_is_away(queue: BatchQueue, unique_node: str) -> None:
    put_samples(queue, unique_node, range(START_S, START_S + 3))
    with _silent_server() as url, Pusher(url) as pusher:
        pusher.limit_answers(0.2)
        sender = Sender(unique_node, queue, pusher, SystemClock(), unchecked)
        assert not sender.deliver()
        assert sender.is_failing
    assert (len(queue), queue.holes, queue.refused) == (3, 0, 0)
    assert sender.store_skew_s is None
