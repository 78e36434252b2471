"""A store answers 204 to seconds that it drops: none leaves the queue as delivered that the store would not keep."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from collector.delivery.holes import HoleReason
from collector.delivery.queue import BatchQueue
from collector.delivery.sender import Sender
from domain.clock import MICROSECONDS
from machine.process import free_port
from tests.collector.patience import now_s
from tests.collector.seconds import SIZE
from tests.collector.sent import put_samples, stored_seconds
from tests.collector.stores import unchecked
from tests.fakes.clock import SettableClock
from tests.victoriametrics_server import start
from victoriametrics.push import Pusher

DAY_S = 86_400
NODE = "node-1"


@pytest.fixture
def url(victoriametrics_binary: Path, tmp_path: Path) -> Iterator[str]:
    """A server that keeps 35 days."""
    port = free_port()
    with start(binary=victoriametrics_binary, port=port, folder=tmp_path / "store", retention="35d"):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[BatchQueue]:
    """One in which nothing waits for too long."""
    queue = BatchQueue(tmp_path / "queue.db", SIZE, max_age_s=100 * DAY_S)
    yield queue
    queue.close()


@pytest.mark.parametrize(("by_s", "words"), [(-60 * DAY_S, "1440 h behind"), (3 * DAY_S, "72 h ahead of")])
def test_nothing_leaves_the_queue_while_the_clock_is_so_wrong_that_it_would_be_dropped(
    queue: BatchQueue, url: str, by_s: int, words: str
) -> None:
    """And when it has been set: what was sampled on the wrong clock is set aside and counted, the present goes on."""
    present_s = now_s()
    clock = SettableClock(present_s * MICROSECONDS)
    clock.set_by_us(by_s * MICROSECONDS)
    wrong = range(present_s + by_s - 5, present_s + by_s)
    put_samples(queue, NODE, wrong)
    with Pusher(url) as pusher, capture_logs() as logs:
        dropped = pusher.dropped_rows()
        sender = Sender(NODE, queue, pusher, clock, unchecked)
        for _ in range(3):
            assert not sender.deliver()
            clock.advance_us(MICROSECONDS)
        assert (len(queue), queue.refused, queue.complete_until_s) == (5, 0, wrong.start)
        clock.set_by_us(-by_s * MICROSECONDS)
        queue.skip_to(present_s, 0, HoleReason.CLOCK)
        put_samples(queue, NODE, range(present_s, present_s + 3))
        assert sender.deliver()
        assert pusher.dropped_rows() == dropped

    assert (len(queue), queue.refused, queue.complete_until_s) == (0, 5, present_s + 3)
    assert stored_seconds(url, NODE, range(present_s - 100, present_s + 100)) == list(range(present_s, present_s + 3))
    assert [log["event"] for log in logs] == ["store_unavailable", "seconds_refused", "store_available"], "said once"
    assert words in logs[0]["error"]
    assert "set the node's clock" in logs[0]["error"]
    assert (logs[1]["seconds"], logs[1]["first_s"], logs[1]["last_s"]) == (5, wrong.start, wrong.stop - 1)


def test_seconds_that_waited_for_longer_than_the_store_keeps_any_do_not_block_the_others(
    queue: BatchQueue, url: str
) -> None:
    present_s = now_s()
    old = range(present_s - 36 * DAY_S, present_s - 36 * DAY_S + 3)
    put_samples(queue, NODE, old)
    put_samples(queue, NODE, range(present_s - 3, present_s))
    with Pusher(url) as pusher:
        assert Sender(NODE, queue, pusher, SettableClock(present_s * MICROSECONDS), unchecked).deliver()

    assert (len(queue), queue.refused, queue.complete_until_s) == (0, 3, present_s)
    assert stored_seconds(url, NODE, range(present_s - 100, present_s)) == list(range(present_s - 3, present_s))
