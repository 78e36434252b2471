"""While a backlog waits, each newest second is pushed in its second, and the rest follows, oldest first."""

import re
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from collector.delivery.queue import BatchQueue
from collector.delivery.sender import Sender
from collector.sample_runs import one_sample
from domain.clock import MICROSECONDS, FrozenClock, SystemClock
from domain.series import GPU_MEMORY_USED
from tests.collector.doors import Proxy, proxy
from tests.collector.patience import CLOCK, PATIENCE_S, now_s
from tests.collector.sample_logs import START_S
from tests.collector.seconds import SIZE
from tests.collector.sent import marks_of, put_samples, stored_seconds
from tests.collector.stores import OwnStore, unchecked
from victoriametrics.encode import encode
from victoriametrics.push import Pusher

_STAMP = re.compile(rb'"timestamps":\[(\d+)000\]')


def _watched(door: Proxy, node: str) -> list[list[int]]:
    """The seconds of the node's card in each request from now on."""
    requests: list[list[int]] = []
    name, of_node = GPU_MEMORY_USED.name.encode(), f'"{node}"'.encode()

    def note(path: str, body: bytes) -> None:
        lines = [line for line in body.splitlines() if name in line and of_node in line]
        if path == "/api/v1/import" and lines:
            requests.append([int(stamp) for line in lines for stamp in _STAMP.findall(line)])

    door.answers = note
    return requests


def test_the_newest_seconds_go_before_those_that_have_waited(
    queue: BatchQueue, victoriametrics_url: str, unique_node: str
) -> None:
    _put_much(queue, unique_node, range(START_S, START_S + 300))
    clock = FrozenClock((START_S + 300) * MICROSECONDS)
    with proxy(victoriametrics_url) as door, Pusher(door.url) as pusher:
        requests = _watched(door, unique_node)
        sender = Sender(unique_node, queue, pusher, clock, unchecked)
        assert sender.deliver()
        put_samples(queue, unique_node, range(START_S + 300, START_S + 301))
        assert sender.deliver()
        before_s = queue.complete_until_s
        sender.drain(PATIENCE_S)

    fresh, oldest, fresh_again, older, *_ = requests
    assert fresh == list(range(START_S + 295, START_S + 300))
    assert oldest == list(range(START_S, START_S + len(oldest)))
    assert fresh_again == [START_S + 300]
    assert older[0] == oldest[-1] + 1
    assert before_s == older[-1] + 1, "the mark follows the oldest second that waits, whatever came after it"
    everything = [second for request in requests for second in request]
    assert sorted(everything) == list(range(START_S, START_S + 301)), "each once"


def test_a_live_second_is_one_request(queue: BatchQueue, victoriametrics_url: str, unique_node: str) -> None:
    """Samples and mark in one body; the store is asked how it is every five seconds."""
    clock = FrozenClock(START_S * MICROSECONDS)
    asked: list[str] = []
    with proxy(victoriametrics_url) as door, Pusher(door.url) as pusher:
        door.answers = lambda path, _body: asked.append(path)
        sender = Sender(unique_node, queue, pusher, clock, unchecked)
        for second_s in range(START_S, START_S + 20):
            put_samples(queue, unique_node, range(second_s, second_s + 1))
            assert sender.deliver()
            assert sender.deliver(), "with nothing to send it sends nothing"
            clock.advance_us(MICROSECONDS)
    assert asked.count("/api/v1/import") == 20
    assert asked.count("/metrics") == 4
    marks = marks_of(victoriametrics_url, unique_node, range(START_S, START_S + 100))
    assert marks == {second_s: second_s for second_s in range(START_S, START_S + 20, 5)}


def test_a_request_that_takes_long_is_followed_by_smaller_ones(
    queue: BatchQueue, victoriametrics_url: str, unique_node: str
) -> None:
    """On a slow line a fresh second must not wait for four MiB."""
    _put_much(queue, unique_node, range(START_S, START_S + 300))
    clock = FrozenClock((START_S + 300) * MICROSECONDS)
    sizes: list[int] = []

    def take_long(path: str, body: bytes) -> None:
        if path == "/api/v1/import":
            sizes.append(len(body))
            clock.advance_us(len(body))

    with proxy(victoriametrics_url) as door, Pusher(door.url) as pusher:
        door.answers = take_long
        Sender(unique_node, queue, pusher, clock, unchecked).drain(PATIENCE_S)
    long = [(size, following) for size, following in pairwise(sizes) if size > 500_000]
    assert long[0][0] > 4_000_000
    assert all(following <= size / 2 for size, following in long), "what takes half a second or more is halved"
    assert stored_seconds(victoriametrics_url, unique_node, range(START_S, START_S + 4_000)) == list(
        range(START_S, START_S + 300)
    )


def test_a_door_that_takes_no_large_requests_gets_small_ones(
    queue: BatchQueue, victoriametrics_url: str, unique_node: str
) -> None:
    """A proxy's own limit, 413, is no store that is away: it is found once, and kept to."""
    put_samples(queue, unique_node, range(START_S, START_S + 1_000))
    sizes: list[int] = []

    def refuse_large(path: str, body: bytes) -> tuple[int, dict[str, str]] | None:
        sizes.append(len(body))
        return (413, {}) if len(body) > 10_000 else None

    with proxy(victoriametrics_url) as door, Pusher(door.url) as pusher:
        door.answers = refuse_large
        sender = Sender(unique_node, queue, pusher, SystemClock(), unchecked)
        while len(queue):
            assert sender.deliver()
    assert 0 < len([size for size in sizes if size > 10_000]) < 8
    assert stored_seconds(victoriametrics_url, unique_node, range(START_S, START_S + 2_000)) == list(
        range(START_S, START_S + 1_000)
    )


@pytest.mark.parametrize("limit", [700, 300], ids=["a few seconds", "less than a second"])
def test_fresh_seconds_go_through_a_door_that_takes_less_than_has_come_together(
    queue: BatchQueue, victoriametrics_url: str, unique_node: str, limit: int
) -> None:
    """Five seconds after an outage, or one of many cards: neither they nor what waits behind them is held up."""
    put_samples(queue, unique_node, range(START_S, START_S + 20))
    for second_s in range(START_S + 20, START_S + 25):
        queue.put(second_s, _second_of_a_node(second_s, unique_node, others=3))
    clock = FrozenClock((START_S + 25) * MICROSECONDS)
    with proxy(victoriametrics_url) as door, Pusher(door.url) as pusher:
        door.answers = lambda _path, body: (413, {}) if len(body) > limit else None
        sender = Sender(unique_node, queue, pusher, clock, unchecked)
        assert sender.deliver()
        assert queue.newest(5) == []
        for _ in range(40):
            assert sender.deliver()
        assert len(queue) == 0
        clock.advance_us(5 * MICROSECONDS)
        assert sender.deliver()
    assert (queue.holes, queue.refused, queue.quarantined) == (0, 0, 0)
    seconds = range(START_S, START_S + 100)
    assert stored_seconds(victoriametrics_url, unique_node, seconds) == list(range(START_S, START_S + 25))
    assert max(marks_of(victoriametrics_url, unique_node, seconds).values()) == START_S + 25


def test_a_door_that_takes_not_even_a_line_is_a_store_that_is_away(
    queue: BatchQueue, victoriametrics_url: str, unique_node: str
) -> None:
    """No line is to blame for it, and none is set aside."""
    put_samples(queue, unique_node, range(START_S, START_S + 3))
    with proxy(victoriametrics_url) as door, Pusher(door.url) as pusher:
        door.answers = lambda path, _body: (413, {}) if path == "/api/v1/import" else None
        sender = Sender(unique_node, queue, pusher, SystemClock(), unchecked)
        assert not sender.deliver()
        assert sender.is_failing
    assert (len(queue), queue.holes, queue.refused, queue.quarantined) == (3, 0, 0, 0)


@pytest.mark.long
def test_six_hours_are_delivered_while_fresh_seconds_flow(
    tmp_path: Path, own_store: OwnStore, *, is_soak: bool
) -> None:
    """O2: the store was down for 6 h (`make test`: 1 h); each second is there once, and a fresh one does not wait long.

    That is for one request of old ones, and for that of the second before it, where that has taken long.
    """
    backlog = 21_600 if is_soak else 3_600
    queue = BatchQueue(tmp_path / "queue.db", SIZE)
    began_s = first_s = now_s() - backlog
    # Those that begin meanwhile are old, too: more at once than are fresh would not be what a node does.
    while began_s < now_s():
        queue.put(began_s, _second_of_a_node(began_s))
        began_s += 1
    stop = threading.Event()
    sent_before: dict[int, int] = {}
    with proxy(own_store.url) as door, Pusher(door.url) as pusher:
        requests = _watched(door, "node-1")
        sender = Sender("node-1", queue, pusher, CLOCK, unchecked)
        thread = threading.Thread(target=sender.run, args=(stop,))
        thread.start()
        try:
            put_s = began_s
            while (queue.complete_until_s or 0) < began_s or put_s < began_s + 5:
                CLOCK.sleep_s(put_s - CLOCK.now_us() / MICROSECONDS)
                queue.put(put_s, _second_of_a_node(put_s))
                sent_before[put_s] = len(requests)
                sender.wake()
                put_s += 1
        finally:
            stop.set()
            sender.wake()
            thread.join(PATIENCE_S)
        sender.drain(PATIENCE_S)
    assert stored_seconds(own_store.url, "node-1", range(first_s, put_s)) == list(range(first_s, put_s))
    assert (queue.holes, queue.refused, queue.quarantined, len(queue)) == (0, 0, 0, 0)
    assert max(marks_of(own_store.url, "node-1", range(began_s, now_s() + 1)).values()) == put_s
    sent_in = {second_s: number for number, request in enumerate(requests) for second_s in request}
    for second_s, before in sent_before.items():
        waited_for = requests[before : sent_in[second_s]]
        assert sum(request[0] < began_s for request in waited_for) <= 1, (second_s, waited_for)
    queue.close()


def _second_of_a_node(second_s: int, node: str = "node-1", others: int = 10, name_bytes: int = 0) -> bytes:
    """What one card says under the node's name, and others under another, so that the second is of some size."""
    own = one_sample(GPU_MEMORY_USED, {"node": node, "gpu_uuid": "GPU-1"}, second_s, second_s)
    more = [{"node": "node-2", "gpu_uuid": f"GPU-{number}".ljust(name_bytes, "x")} for number in range(others)]
    return encode([own, *(one_sample(GPU_MEMORY_USED, labels, second_s, 7) for labels in more)])


def _put_much(queue: BatchQueue, node: str, seconds: range) -> None:
    """Seconds of some 40 kB: a request of what has waited, which is 4 MiB, holds a hundred."""
    for second_s in seconds:
        queue.put(second_s, _second_of_a_node(second_s, node, others=10, name_bytes=4_000))
