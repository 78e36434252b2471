"""Whatever happens to the store, what was queued gets there, once, and the mark follows."""

import threading

from structlog.testing import capture_logs

from collector.delivery.holes import HoleReason
from collector.delivery.queue import BatchQueue
from collector.delivery.sender import Sender
from domain.clock import FrozenClock, SystemClock
from tests.collector.patience import PATIENCE_S, wait_until
from tests.collector.sample_logs import START_S
from tests.collector.sent import marks_of, put_samples, stored_seconds
from tests.collector.stores import OwnStore, unchecked
from tests.fakes.clock import SettableClock
from victoriametrics.push import Pusher


def test_seconds_are_delivered_and_the_mark_follows(
    queue: BatchQueue, victoriametrics_url: str, unique_node: str
) -> None:
    clock = FrozenClock((START_S + 50) * 1_000_000)
    with Pusher(victoriametrics_url) as pusher:
        sender = Sender(unique_node, queue, pusher, clock, unchecked)
        put_samples(queue, unique_node, range(START_S, START_S + 10))

        assert sender.deliver()
        clock.advance_us(5_000_000)
        queue.skip_to(START_S + 12, 2, HoleReason.LATE)
        queue.put(START_S + 12, b"")
        assert sender.deliver()
        clock.advance_us(1_000_000)
        sender.drain(PATIENCE_S)

    assert len(queue) == 0
    seconds = range(START_S, START_S + 10)
    assert stored_seconds(victoriametrics_url, unique_node, range(START_S, START_S + 100)) == list(seconds)
    assert marks_of(victoriametrics_url, unique_node, range(START_S, START_S + 100_000)) == {
        START_S + 50: START_S,
        START_S + 55: START_S + 12,
        START_S + 56: START_S + 13,
    }, "it follows when the store was seen to be the one that took them, and at the end at once"


def test_a_mark_is_never_ahead_of_the_clock_and_goes_on_when_the_clock_is_right_again(
    queue: BatchQueue, victoriametrics_url: str, unique_node: str
) -> None:
    """The clock was an hour ahead. The meter takes the largest mark there is: none may vouch for a time to come."""
    clock = SettableClock((START_S + 3_600) * 1_000_000)
    with Pusher(victoriametrics_url) as pusher:
        sender = Sender(unique_node, queue, pusher, clock, unchecked)
        put_samples(queue, unique_node, range(START_S + 3_600, START_S + 3_601))
        assert sender.deliver()
        clock.advance_us(5_000_000)
        assert sender.deliver()
        clock.set_by_us(-3_600 * 1_000_000)
        queue.skip_to(START_S + 3_602, 1, HoleReason.LATE)
        queue.put(START_S + 3_602, b"")
        clock.advance_us(5_000_000)
        assert sender.deliver()
        queue.skip_to(START_S + 11, 0, HoleReason.CLOCK)
        for second_s in range(START_S + 11, START_S + 23):
            clock.advance_us(1_000_000)
            put_samples(queue, unique_node, range(second_s, second_s + 1))
            assert sender.deliver()

    marks = marks_of(victoriametrics_url, unique_node, range(START_S, START_S + 100_000))
    assert marks == {
        START_S + 3_600: START_S + 3_600,
        START_S + 3_605: START_S + 3_601,
        START_S + 10: START_S + 11,
        START_S + 15: START_S + 15,
        START_S + 20: START_S + 20,
    }
    assert all(until_s <= at_s + 1 for at_s, until_s in marks.items())


def test_a_store_that_is_away_and_comes_back_has_everything(queue: BatchQueue, own_store: OwnStore) -> None:
    """O2: the store is down while seconds are sampled."""
    with Pusher(own_store.url) as pusher, capture_logs() as logs:
        sender = Sender("node-1", queue, pusher, SystemClock(), unchecked)
        put_samples(queue, "node-1", range(START_S, START_S + 20))
        assert sender.deliver()
        own_store.child.stop()
        put_samples(queue, "node-1", range(START_S + 20, START_S + 400))
        assert not sender.deliver()
        assert not sender.deliver()
        waiting = len(queue)
        own_store.start()
        sender.drain(PATIENCE_S)

    assert waiting == 380
    assert len(queue) == 0
    seconds = range(START_S, START_S + 400)
    assert stored_seconds(own_store.url, "node-1", range(START_S, START_S + 1_000)) == list(seconds)
    assert [log["event"] for log in logs] == ["store_unavailable", "store_restarted", "store_available"]
    assert logs[1]["sent_again_seconds"] == 20, "it may have lost what it had taken of late"


def test_a_store_that_is_killed_loses_nothing_it_said_yes_to(queue: BatchQueue, own_store: OwnStore) -> None:
    """It says yes up to 5 s before its disk has the samples: those are sent again."""
    with Pusher(own_store.url) as pusher:
        sender = Sender("node-1", queue, pusher, SystemClock(), unchecked)
        put_samples(queue, "node-1", range(START_S, START_S + 30))
        assert sender.deliver()
        own_store.kill()
        put_samples(queue, "node-1", range(START_S + 30, START_S + 31))
        assert not sender.deliver()
        own_store.start()
        sender.drain(PATIENCE_S)

    assert stored_seconds(own_store.url, "node-1", range(START_S, START_S + 100)) == list(range(START_S, START_S + 31))


def test_the_sender_tries_again_by_itself(queue: BatchQueue, own_store: OwnStore) -> None:
    own_store.child.stop()
    stop = threading.Event()
    with Pusher(own_store.url) as pusher:
        sender = Sender("node-1", queue, pusher, SystemClock(), unchecked)
        thread = threading.Thread(target=sender.run, args=(stop,))
        thread.start()
        put_samples(queue, "node-1", range(START_S, START_S + 3))
        sender.wake()
        own_store.start()
        try:
            wait_until(lambda: len(queue) == 0)
        finally:
            stop.set()
            sender.wake()
            thread.join(PATIENCE_S)
        assert not thread.is_alive()

    assert len(queue) == 0
