"""A store that is killed and back before anybody notices has lost what it took of late: it gets that again, first."""

from pathlib import Path

from structlog.testing import capture_logs

from collector.delivery.queue import BatchQueue
from collector.delivery.sender import Sender
from domain.clock import MICROSECONDS, Clock, FrozenClock
from domain.units import MIB
from tests.collector.doors import proxy
from tests.collector.sample_logs import START_S
from tests.collector.sent import marks_of, put_samples, stored_seconds
from tests.collector.stores import OwnStore, unchecked
from victoriametrics.push import Pusher

ALL = range(START_S, START_S + 100)


def _kill_and_start(store: OwnStore) -> None:
    store.kill()
    store.start()


def _deliver_and_kill(sender: Sender, queue: BatchQueue, store: OwnStore, seconds: int) -> None:
    """Let the store take so many seconds, and lose them."""
    put_samples(queue, "node-1", range(START_S, START_S + seconds))
    assert sender.deliver()
    _kill_and_start(store)


def _sender(queue: BatchQueue, pusher: Pusher, clock: Clock | None = None) -> Sender:
    return Sender("node-1", queue, pusher, clock or FrozenClock((START_S + 40) * MICROSECONDS), unchecked)


def test_a_store_that_is_killed_and_back_between_two_pushes_loses_nothing(
    queue: BatchQueue, own_store: OwnStore
) -> None:
    """No push fails: the client opens a new connection without a word."""
    clock = FrozenClock((START_S + 40) * MICROSECONDS)
    with Pusher(own_store.url) as pusher, capture_logs() as logs:
        sender = _sender(queue, pusher, clock)
        _deliver_and_kill(sender, queue, own_store, 30)
        put_samples(queue, "node-1", range(START_S + 30, START_S + 31))
        assert sender.deliver()
        assert len(queue) == 0, "nothing was missed yet"
        clock.advance_us(5 * MICROSECONDS)
        assert sender.deliver()

    assert stored_seconds(own_store.url, "node-1", ALL) == list(range(START_S, START_S + 31))
    assert [(log["event"], log["sent_again_seconds"]) for log in logs] == [("store_restarted", 31)]


def test_no_mark_vouches_for_seconds_that_a_killed_store_has_lost(queue: BatchQueue, own_store: OwnStore) -> None:
    clock = FrozenClock((START_S + 40) * MICROSECONDS)
    with Pusher(own_store.url) as pusher:
        sender = _sender(queue, pusher, clock)
        _deliver_and_kill(sender, queue, own_store, 10)
        put_samples(queue, "node-1", range(START_S + 10, START_S + 12))
        for _ in range(2):
            assert sender.deliver()
            assert marks_of(own_store.url, "node-1", ALL) == {}, "the store has lost those of before it was killed, too"
            clock.advance_us(5 * MICROSECONDS)

        assert stored_seconds(own_store.url, "node-1", ALL) == list(range(START_S, START_S + 12))
        assert sender.deliver()
        assert marks_of(own_store.url, "node-1", ALL) == {START_S + 50: START_S + 12}
    assert stored_seconds(own_store.url, "node-1", ALL) == list(range(START_S, START_S + 12))


def test_a_store_behind_a_proxy_that_keeps_its_connection_loses_nothing_either(
    queue: BatchQueue, own_store: OwnStore
) -> None:
    with proxy(own_store.url) as door, Pusher(door.url) as pusher:
        clock = FrozenClock((START_S + 40) * MICROSECONDS)
        sender = _sender(queue, pusher, clock)
        _deliver_and_kill(sender, queue, own_store, 30)
        # The proxy's own client notices; the collector's cannot.
        put_samples(queue, "node-1", range(START_S + 30, START_S + 31))
        clock.advance_us(5 * MICROSECONDS)
        assert sender.deliver()
        assert door.connections == 1

    assert stored_seconds(own_store.url, "node-1", ALL) == list(range(START_S, START_S + 31))


def test_a_store_that_was_killed_while_no_collector_ran_loses_nothing(own_store: OwnStore, tmp_path: Path) -> None:
    queue = BatchQueue(tmp_path / "queue.db", 64 * MIB)
    with Pusher(own_store.url) as pusher:
        put_samples(queue, "node-1", range(START_S, START_S + 30))
        assert _sender(queue, pusher).deliver()
        queue.close()
        _kill_and_start(own_store)
        queue = BatchQueue(tmp_path / "queue.db", 64 * MIB)
        assert _sender(queue, pusher).deliver()

    assert len(queue) == 0
    assert stored_seconds(own_store.url, "node-1", ALL) == list(range(START_S, START_S + 30))
    queue.close()


def test_the_mark_goes_on_from_where_it_was_when_a_collector_starts_again_amid_what_is_sent_again(
    victoriametrics_url: str, unique_node: str, tmp_path: Path
) -> None:
    """What was delivered of late waits again then, and more than one request is needed for it."""
    clock = FrozenClock(START_S * MICROSECONDS)
    queue = BatchQueue(tmp_path / "queue.db", 256 * MIB)
    with Pusher(victoriametrics_url) as pusher:
        sender = Sender(unique_node, queue, pusher, clock, unchecked)
        for second_s in range(START_S, START_S + 12):
            queue.put(second_s, b" " * MIB + b"\n", 0)
            assert sender.deliver()
            clock.advance_us(MICROSECONDS)
        assert queue.marked_until_s == START_S + 10
        queue.close()

        queue = BatchQueue(tmp_path / "queue.db", 256 * MIB)
        assert len(queue) == 0
        sender = Sender(unique_node, queue, pusher, clock, unchecked)
        assert sender.deliver()
        assert len(queue) > 0, "all that was delivered of late is more than one request"
        while len(queue):
            clock.advance_us(MICROSECONDS)
            assert sender.deliver()
        queue.put(START_S + 15, b"\n", 3)
        clock.advance_us(MICROSECONDS)
        sender.drain(1)
        queue.close()

    marks = list(marks_of(victoriametrics_url, unique_node, ALL).values())
    assert marks == [START_S, START_S + 5, START_S + 10, START_S + 16]
