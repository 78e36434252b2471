"""O3: of a body that is refused only what is refused alone stays behind: set aside with the reason, and counted."""

import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from collector.delivery.quarantine import unpack
from collector.delivery.queue import BatchQueue
from collector.delivery.sender import Sender
from collector.sample_runs import one_sample
from domain.clock import MICROSECONDS, FrozenClock
from domain.errors import InputError
from domain.series import GPU_MEMORY_USED
from tests.collector.doors import proxy
from tests.collector.sample_logs import START_S
from tests.collector.seconds import SIZE
from tests.collector.sent import put_samples, stored_seconds
from tests.collector.stores import unchecked
from victoriametrics.encode import encode
from victoriametrics.push import Pusher, pack
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector

MARKER = b"GPU-marked"
CARDS = [f"GPU-{number}" for number in range(40)]


def _body(node: str, second_s: int, *cards: str) -> bytes:
    return encode(one_sample(GPU_MEMORY_USED, {"node": node, "gpu_uuid": card}, second_s, second_s) for card in cards)


def _set_aside(path: Path) -> list[tuple[int, bytes, str]]:
    """What a closed queue has set aside: second, lines, reasons."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT second_s, body, reason FROM refused ORDER BY second_s").fetchall()
    return [(second_s, unpack(body), reason) for second_s, body, reason in rows]


def _cards_in(url: str, node: str, seconds: range) -> dict[int, set[str]]:
    """Second -> the cards that the store has a sample of."""
    with Pusher(url) as pusher, Reader(url) as reader:
        pusher.flush()
        frame = reader.export(Selector((GPU_MEMORY_USED,), {"node": node}), seconds.start, seconds.stop).frame
    found: dict[int, set[str]] = {}
    for second_s, card in frame.select("second_s", "gpu_uuid").iter_rows():
        found.setdefault(second_s, set()).add(card)
    return found


@pytest.mark.parametrize("backlog", [0, 60])
def test_one_line_that_is_refused_stays_behind_alone(
    victoriametrics_url: str, unique_node: str, tmp_path: Path, backlog: int
) -> None:
    """O3: among fresh seconds, and among those that have waited."""
    seconds = range(START_S, START_S + 12 + backlog)
    bad_s = START_S + 3
    queue = BatchQueue(tmp_path / "queue.db", SIZE)
    for second_s in seconds:
        cards = [*CARDS[:17], MARKER.decode(), *CARDS[17:]] if second_s == bad_s else CARDS
        queue.put(second_s, _body(unique_node, second_s, *cards))
    with proxy(victoriametrics_url) as door, Pusher(door.url) as pusher, capture_logs() as logs:
        door.refuses = lambda _path, body: MARKER in body
        sender = Sender(unique_node, queue, pusher, FrozenClock(seconds[-1] * MICROSECONDS), unchecked)
        while len(queue):
            assert sender.deliver()
        assert (queue.refused, queue.quarantined, queue.holes) == (0, 1, 0)
        assert queue.complete_until_s == seconds.stop
        assert queue.send_again() == len(seconds)
        requests: list[bytes] = []
        door.answers = lambda _path, body: requests.append(body)
        while len(queue):
            assert sender.deliver()
        assert not any(MARKER in body for body in requests), "it is not tried again"
    queue.close()

    assert _cards_in(victoriametrics_url, unique_node, seconds) == {second_s: set(CARDS) for second_s in seconds}
    ((second_s, lines, reason),) = _set_aside(tmp_path / "queue.db")
    assert (second_s, lines) == (bad_s, _body(unique_node, bad_s, MARKER.decode()))
    assert "missing route" in reason
    assert [(log["event"], log["second_s"], log["samples"]) for log in logs] == [("samples_quarantined", bad_s, 1)]
    assert logs[0]["reasons"] == [reason]


def test_several_lines_of_a_second_are_kept_together_also_when_they_are_refused_one_after_the_other(
    queue: BatchQueue, victoriametrics_url: str, unique_node: str, tmp_path: Path
) -> None:
    clock = FrozenClock(START_S * MICROSECONDS)
    queue.put(START_S, _body(unique_node, START_S, "GPU-marked-a", *CARDS, "GPU-marked-b"))
    with proxy(victoriametrics_url) as door, Pusher(door.url) as pusher:
        sender = Sender(unique_node, queue, pusher, clock, unchecked)
        door.refuses = lambda _path, body: MARKER in body
        assert sender.deliver()
        assert (queue.refused, queue.quarantined) == (0, 2)
        queue.send_again()
        door.refuses = lambda _path, body: b'"GPU-7"' in body
        assert sender.deliver()
        assert (queue.refused, queue.quarantined) == (0, 3)
    queue.close()
    ((second_s, lines, reason),) = _set_aside(tmp_path / "queue.db")
    assert second_s == START_S
    assert lines == _body(unique_node, START_S, "GPU-marked-a", "GPU-marked-b", "GPU-7")
    assert reason.count("missing route") == 1


def test_a_second_of_which_nothing_is_left_is_refused_as_a_whole(
    queue: BatchQueue, victoriametrics_url: str, unique_node: str
) -> None:
    put_samples(queue, unique_node, range(START_S, START_S + 1))
    queue.put(START_S + 1, _body(unique_node, START_S + 1, "GPU-marked-a", "GPU-marked-b"))
    with proxy(victoriametrics_url) as door, Pusher(door.url) as pusher:
        door.refuses = lambda _path, body: MARKER in body
        sender = Sender(unique_node, queue, pusher, FrozenClock((START_S + 2) * MICROSECONDS), unchecked)
        assert sender.deliver()
    assert (len(queue), queue.refused, queue.quarantined, queue.complete_until_s) == (0, 1, 2, START_S + 2)
    assert stored_seconds(victoriametrics_url, unique_node, range(START_S, START_S + 10)) == [START_S]


def test_a_store_takes_a_broken_line_without_a_word_and_calls_few_bodies_unusable(
    victoriametrics_url: str, unique_node: str
) -> None:
    """What the rules rest on: 204 to a line that is no JSON, 400 to what is no gzip or ends in a long line."""
    good = _body(unique_node, START_S, *CARDS[:2])
    with Pusher(victoriametrics_url) as pusher, httpx.Client(trust_env=False) as client:
        dropped = pusher.dropped_rows()
        pusher.push(good + b'{"metric":{"__name__":\n' + _body(unique_node, START_S + 1, *CARDS[:2]))
        assert pusher.dropped_rows()["malformed"] > dropped["malformed"]
        with pytest.raises(InputError, match="too long line"):
            pusher.push(b"x" * 11 * 2**20)
        packed = bytearray(pack(good))
        packed[-6] ^= 1
        for body in (b"no gzip", bytes(packed)):
            headers = {"Content-Encoding": "gzip"}
            answer = client.post(f"{victoriametrics_url}/api/v1/import", content=body, headers=headers)
            assert answer.status_code == 400
    seconds = range(START_S, START_S + 2)
    assert _cards_in(victoriametrics_url, unique_node, seconds) == {second_s: set(CARDS[:2]) for second_s in seconds}


def test_a_line_that_the_real_store_refuses_is_found_too(
    queue: BatchQueue, victoriametrics_url: str, unique_node: str
) -> None:
    """One that is too long and no JSON, which is not judged before it is sent."""
    queue.put(START_S, _body(unique_node, START_S, *CARDS) + b"x" * 11 * 2**20)
    with Pusher(victoriametrics_url) as pusher:
        sender = Sender(unique_node, queue, pusher, FrozenClock(START_S * MICROSECONDS), unchecked)
        assert sender.deliver()
    assert (len(queue), queue.quarantined) == (0, 1)
    assert _cards_in(victoriametrics_url, unique_node, range(START_S, START_S + 1)) == {START_S: set(CARDS)}
