"""What is in the queue survives whatever is killed, and every second of it is accounted for."""

import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.delivery.holes import HoleReason
from collector.delivery.queue import KEEP_DELIVERED_US, BatchQueue
from domain.errors import UnavailableError
from tests.collector.seconds import NOW_US, SECOND_S, SIZE, bodies, body_of, noise, put_all, refuse_oldest, waiting

KILLED = """
import os, signal, sys
from pathlib import Path
from collector.delivery.holes import HoleReason
from collector.delivery.queue import BatchQueue
queue = BatchQueue(Path(sys.argv[1]), 2**26)
for second_s in range(1_700_000_000, 1_700_000_005):
    if second_s == 1_700_000_003:
        queue.skip_to(second_s, 1, HoleReason.LATE)
    queue.put(second_s, b"body %d" % second_s)
queue.delivered([1_700_000_000], 1_700_000_005_000_000)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_put_before_a_kill_is_there_after_it(tmp_path: Path) -> None:
    """O4: kill -9 between the sample and its delivery."""
    path = tmp_path / "queue.db"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL

    queue = BatchQueue(path, SIZE)

    assert bodies(queue) == {s: b"body %d" % s for s in range(SECOND_S, SECOND_S + 5)}
    assert queue.sampled_until_s == SECOND_S + 5
    assert queue.complete_until_s == SECOND_S, "one that was delivered a moment ago is sent again, which is harmless"
    assert queue.holes == queue.holes_by_reason[HoleReason.LATE] == 1
    queue.close()


def test_what_was_skipped_is_there_when_nothing_was_put_since(tmp_path: Path) -> None:
    """As by a collector that took its node over and ended before its first second."""
    path = tmp_path / "queue.db"
    with closing(BatchQueue(path, SIZE)) as queue:
        put_all(queue, range(SECOND_S, SECOND_S + 2))
        queue.skip_to(SECOND_S + 9, 7, HoleReason.STOOD_BY)
    with closing(BatchQueue(path, SIZE)) as again:
        assert (again.sampled_until_s, again.holes_by_reason[HoleReason.STOOD_BY]) == (SECOND_S + 9, 7)


def test_seconds_come_out_oldest_first_and_at_least_one_at_a_time(queue: BatchQueue) -> None:
    put_all(queue, range(SECOND_S, SECOND_S + 10))

    assert [batch.second_s for batch in queue.pending(max_bytes=1)] == [SECOND_S]
    assert [batch.second_s for batch in queue.pending(len(body_of(SECOND_S)) * 3)] == list(
        range(SECOND_S, SECOND_S + 3)
    )
    assert len(queue) == 10


def test_delivered_seconds_are_kept_a_minute_and_sent_again_when_asked(queue: BatchQueue) -> None:
    """The store says yes before its disk has the samples; what it may have lost can be sent once more."""
    put_all(queue, range(SECOND_S, SECOND_S + 4))
    queue.delivered([SECOND_S, SECOND_S + 1], NOW_US)
    queue.delivered([SECOND_S + 2], NOW_US + KEEP_DELIVERED_US + 1)

    assert queue.send_again() == 1
    assert waiting(queue) == [SECOND_S + 2, SECOND_S + 3]


def test_a_refused_second_is_set_aside_and_counted(queue: BatchQueue, tmp_path: Path) -> None:
    put_all(queue, range(SECOND_S, SECOND_S + 2))

    refuse_oldest(queue, "cannot parse line 1")

    assert waiting(queue) == [SECOND_S + 1]
    assert queue.refused == 1
    queue.close()
    with closing(sqlite3.connect(tmp_path / "queue.db")) as connection, connection:
        assert connection.execute("SELECT second_s, reason FROM refused").fetchall() == [
            (SECOND_S, "cannot parse line 1")
        ]
    connection.close()


def test_a_refused_second_is_not_sent_again_with_what_the_store_may_have_lost(queue: BatchQueue) -> None:
    put_all(queue, range(SECOND_S, SECOND_S + 3))
    queue.delivered([SECOND_S], NOW_US)
    refuse_oldest(queue, "cannot parse line 1")

    assert queue.send_again() == 1
    assert waiting(queue) == [SECOND_S, SECOND_S + 2]


def test_after_a_clock_was_set_back_the_present_counts_and_nothing_that_waits_is_lost(queue: BatchQueue) -> None:
    """Ten seconds were sampled on a clock that was an hour ahead."""
    ahead_s = SECOND_S + 3_600
    put_all(queue, range(ahead_s, ahead_s + 10))
    queue.delivered(range(ahead_s, ahead_s + 5), NOW_US)

    queue.skip_to(SECOND_S, 70, HoleReason.CLOCK)
    put_all(queue, range(SECOND_S, SECOND_S + 3))

    assert queue.sampled_until_s == SECOND_S + 3
    assert queue.holes == 70
    assert waiting(queue) == [*range(SECOND_S, SECOND_S + 3), *range(ahead_s + 5, ahead_s + 10)]
    assert queue.complete_until_s == SECOND_S
    queue.delivered(range(SECOND_S, SECOND_S + 3), NOW_US + 70 * 1_000_000)
    assert queue.complete_until_s == SECOND_S + 3, "what waits lies ahead"
    assert queue.send_again() == 3, "what was delivered more than a minute ago is not kept, whatever its stamp"


def test_a_second_that_is_put_again_replaces_the_one_of_the_wrong_clock(tmp_path: Path) -> None:
    queue = BatchQueue(tmp_path / "queue.db", 10_000)
    for second_s in range(SECOND_S, SECOND_S + 8):
        queue.put(second_s, noise(1_000))
    queue.delivered(range(SECOND_S, SECOND_S + 4), NOW_US)
    for _ in range(50):
        queue.skip_to(SECOND_S, 0, HoleReason.CLOCK)
        put_all(queue, range(SECOND_S, SECOND_S + 8))

    assert queue.holes == 0, "a row that was replaced takes no room"
    assert bodies(queue) == {s: body_of(s) for s in range(SECOND_S, SECOND_S + 8)}
    queue.close()


def test_only_the_newest_repeat_of_a_report_waits_but_every_change_does(queue: BatchQueue) -> None:
    for body, is_repeat in ((b"a", False), (b"a60", True), (b"b", False), (b"b60", True), (b"b120", True)):
        queue.reports.put(body, is_repeat=is_repeat)

    found = []
    while (report := queue.reports.first()) is not None:
        found.append(report.body)
        queue.reports.delete(report.report)
    assert found == [b"a", b"b", b"b120"]


def test_only_one_collector_can_have_a_queue(queue: BatchQueue, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="stop the other collector"):
        BatchQueue(tmp_path / "queue.db", SIZE)


def test_a_queue_of_another_format_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "queue.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA user_version = 7")
    connection.close()

    with pytest.raises(UnavailableError, match="its format is 7"):
        BatchQueue(path, SIZE)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(UnavailableError, match="check 'data_dir'"):
        BatchQueue(tmp_path / "file" / "queue.db", SIZE)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 3)),
        st.tuples(st.just("deliver"), st.integers(1, 4)),
        st.tuples(st.just("refuse"), st.just(0)),
        st.tuples(st.just("again"), st.just(0)),
        st.tuples(st.just("back"), st.integers(1, 5)),
        st.tuples(st.just("reopen"), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=settings().max_examples * 25 // 100)
@given(steps=STEPS)
def test_every_second_is_waiting_or_delivered_or_refused_or_a_hole_across_restarts(
    steps: list[tuple[str, int]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "queue.db"
        queue = BatchQueue(path, SIZE)
        next_s, holes, refused = SECOND_S, 0, 0
        due, taken = set[int](), set[int]()
        is_back = False
        for kind, number in steps:
            if kind == "put":
                next_s += number
                holes += number
                queue.skip_to(next_s, number, HoleReason.LATE)
                queue.put(next_s, body_of(next_s))
                due.add(next_s)
                taken.discard(next_s)
                next_s += 1
                is_back = False
            elif kind == "deliver":
                some = waiting(queue)[:number]
                queue.delivered(some, NOW_US)
                taken.update(some)
                due.difference_update(some)
            elif kind == "refuse" and due:
                due.remove(refuse_oldest(queue))
                refused += 1
            elif kind == "again":
                queue.send_again()
                due |= taken
                taken.clear()
            elif kind == "back" and queue.sampled_until_s is not None:
                next_s -= number
                queue.skip_to(next_s, 0, HoleReason.CLOCK)
                is_back = True
            elif kind == "reopen" and not is_back:
                queue.close()
                queue = BatchQueue(path, SIZE)
            assert waiting(queue) == sorted(due)
            assert (queue.holes, queue.refused) == (holes, refused)
            assert queue.sampled_until_s == (None if not (due or taken or refused) else next_s)
            assert queue.complete_until_s == (min([*due, next_s]) if queue.sampled_until_s else None)
        queue.close()
