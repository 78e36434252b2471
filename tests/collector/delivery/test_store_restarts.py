"""A store that is killed and back before anybody notices has lost what it took of late: it gets that again, first."""

from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from collector.delivery.holes import HoleReason
from collector.delivery.queue import BatchQueue
from collector.delivery.sender import Sender
from domain.clock import MICROSECONDS, Clock, FrozenClock
from domain.units import MIB
from tests.collector.doors import proxy
from tests.collector.patience import CLOCK, PATIENCE_S
from tests.collector.sample_logs import START_S
from tests.collector.sent import marks_of, put_samples, stored_seconds
from tests.collector.stores import OwnStore, unchecked
from tests.fakes.clock import SettableClock
from victoriametrics.launcher import check_flags
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
    """O4: what it had taken and not yet written is sent again. No push fails: the client opens a new connection."""
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


def test_what_a_store_took_just_before_the_clock_was_set_is_sent_again_when_it_has_lost_it(
    queue: BatchQueue, own_store: OwnStore
) -> None:
    """An hour ahead: nothing that it took is an hour old, and it is all the store has on no disk."""
    clock = SettableClock((START_S + 40) * MICROSECONDS)
    with Pusher(own_store.url) as pusher:
        sender = _sender(queue, pusher, clock)
        put_samples(queue, "node-1", range(START_S, START_S + 30))
        assert sender.deliver()
        for by_us in (3_600 * MICROSECONDS, -3_605 * MICROSECONDS):
            clock.set_by_us(by_us)
            last_s = queue.sampled_until_s or 0
            put_samples(queue, "node-1", range(last_s, last_s + 1))
            assert sender.deliver()
        _kill_and_start(own_store)
        clock.sleep_s(5)
        assert sender.deliver()

    assert stored_seconds(own_store.url, "node-1", ALL) == list(range(START_S, START_S + 32))


def test_a_store_that_is_started_twice_within_one_second_loses_nothing(own_store: OwnStore, tmp_path: Path) -> None:
    """It tells the same start both times, and has lost what it took between."""
    for trial in count():
        own_store.kill()
        queue = BatchQueue(tmp_path / f"queue-{trial}.db", 64 * MIB)
        clock = FrozenClock((START_S + 40) * MICROSECONDS)
        with closing(queue), Pusher(own_store.url) as pusher:
            sender = _sender(queue, pusher, clock)
            put_samples(queue, f"node-{trial}", range(START_S, START_S + 30))
            CLOCK.sleep_s(1 - CLOCK.now_us() % MICROSECONDS / MICROSECONDS)
            own_store.start_now()
            first_s = pusher.state().started_s
            assert sender.deliver()
            own_store.kill()
            own_store.start_now()
            is_same = pusher.state().started_s == first_s
            for _ in range(2):
                clock.advance_us(5 * MICROSECONDS)
                assert sender.deliver()
        if is_same:
            break
        if trial == 20:
            pytest.skip("this machine takes too long to start a store twice within one second")
    assert stored_seconds(own_store.url, f"node-{trial}", ALL) == list(range(START_S, START_S + 30))


def test_the_last_mark_of_a_collector_is_published_also_where_the_store_was_killed_just_before(
    queue: BatchQueue, own_store: OwnStore
) -> None:
    """Nothing says so but the look at the very end: what was lost is sent again, and then vouched for."""
    with Pusher(own_store.url) as pusher:
        sender = _sender(queue, pusher)
        _deliver_and_kill(sender, queue, own_store, 10)
        sender.drain(PATIENCE_S)

    assert stored_seconds(own_store.url, "node-1", ALL) == list(range(START_S, START_S + 10))
    assert marks_of(own_store.url, "node-1", ALL) == {START_S + 40: START_S + 10}


def test_a_store_that_is_started_again_with_flags_that_merge_seconds_gets_them_when_it_is_mended(
    queue: BatchQueue, own_store: OwnStore
) -> None:
    """What it took before it was looked at is sent again."""
    clock = FrozenClock((START_S + 40) * MICROSECONDS)
    check = partial(check_flags, own_store.url)
    with Pusher(own_store.url) as pusher, capture_logs() as logs:
        sender = Sender("node-1", queue, pusher, clock, check)
        put_samples(queue, "node-1", range(START_S, START_S + 10))
        assert sender.deliver()
        own_store.kill()
        own_store.start("-dedup.minScrapeInterval=30s")
        put_samples(queue, "node-1", range(START_S + 10, START_S + 12))
        assert sender.deliver()
        clock.advance_us(5 * MICROSECONDS)
        put_samples(queue, "node-1", range(START_S + 12, START_S + 15))
        assert not sender.deliver()
        assert not sender.deliver()
        assert len(queue) == 3
        own_store.kill()
        own_store.start()
        assert sender.deliver()

    assert stored_seconds(own_store.url, "node-1", ALL) == list(range(START_S, START_S + 15))
    assert [log["event"] for log in logs] == ["store_unavailable", "store_restarted", "store_available"]
    assert "-dedup.minScrapeInterval is '30s'" in logs[0]["error"]


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
            queue.put(second_s, b" " * MIB + b"\n")
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
        queue.skip_to(START_S + 15, 3, HoleReason.LATE)
        queue.put(START_S + 15, b"\n")
        clock.advance_us(MICROSECONDS)
        sender.drain(1)
        queue.close()

    marks = list(marks_of(victoriametrics_url, unique_node, ALL).values())
    assert marks == [START_S, START_S + 5, START_S + 10, START_S + 16]
