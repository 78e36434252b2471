"""What is in the queue survives whatever is killed, and what does not fit in it is counted."""

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from collector.queue import KEEP_DELIVERED_US, BatchQueue
from domain.errors import UnavailableError
from domain.units import MIB

SECOND_S = 1_700_000_000
NOW_US = SECOND_S * 1_000_000
SIZE = 64 * MIB


def _body(second_s: int) -> bytes:
    return f'{{"second":{second_s}}}\n'.encode()


def _noise(size: int) -> bytes:
    """A body that does not shrink."""
    return os.urandom(size)


def _fill(queue: BatchQueue, seconds: range) -> None:
    for second_s in seconds:
        queue.put(second_s, _body(second_s), 0)


def _seconds(queue: BatchQueue) -> list[int]:
    return [batch.second_s for batch in queue.pending(SIZE)]


KILLED = """
import os, signal, sys
from pathlib import Path
from collector.queue import BatchQueue
queue = BatchQueue(Path(sys.argv[1]), 2**26)
for second_s in range(1_700_000_000, 1_700_000_005):
    queue.put(second_s, b"body %d" % second_s, holes=1 if second_s == 1_700_000_003 else 0)
queue.delivered([1_700_000_000], 1_700_000_005_000_000)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_put_before_a_kill_is_there_after_it(tmp_path: Path) -> None:
    """O4: kill -9 between the sample and its delivery."""
    path = tmp_path / "queue.db"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL

    queue = BatchQueue(path, SIZE)

    assert queue.pending(SIZE) == [(s, b"body %d" % s) for s in range(SECOND_S + 1, SECOND_S + 5)]
    assert queue.sampled_until_s == SECOND_S + 5
    assert queue.complete_until_s == SECOND_S + 1
    assert queue.holes == 1
    queue.close()


def test_seconds_come_out_oldest_first_and_at_least_one_at_a_time(queue: BatchQueue) -> None:
    _fill(queue, range(SECOND_S, SECOND_S + 10))

    assert [batch.second_s for batch in queue.pending(max_bytes=1)] == [SECOND_S]
    assert [batch.second_s for batch in queue.pending(len(_body(SECOND_S)) * 3)] == list(range(SECOND_S, SECOND_S + 3))
    assert len(queue) == 10


def test_a_full_queue_drops_its_oldest_seconds_and_counts_them_as_holes(tmp_path: Path) -> None:
    queue = BatchQueue(tmp_path / "queue.db", 10_000)

    for second_s in range(SECOND_S, SECOND_S + 15):
        queue.put(second_s, _noise(1_000), 0)

    kept = _seconds(queue)
    assert kept == list(range(SECOND_S + 15 - len(kept), SECOND_S + 15))
    assert 8 <= len(kept) <= 10
    assert queue.holes == 15 - len(kept)
    assert queue.complete_until_s == kept[0]
    queue.close()
    again = BatchQueue(tmp_path / "queue.db", 10_000)
    assert (_seconds(again), again.holes) == (kept, 15 - len(kept))
    again.close()


def test_a_full_queue_gives_up_delivered_seconds_before_it_makes_holes(tmp_path: Path) -> None:
    queue = BatchQueue(tmp_path / "queue.db", 10_000)
    for second_s in range(SECOND_S, SECOND_S + 5):
        queue.put(second_s, _noise(1_000), 0)
    queue.delivered(range(SECOND_S, SECOND_S + 5), NOW_US)

    for second_s in range(SECOND_S + 5, SECOND_S + 13):
        queue.put(second_s, _noise(1_000), 0)

    assert queue.holes == 0
    assert _seconds(queue) == list(range(SECOND_S + 5, SECOND_S + 13))
    queue.close()


def test_on_a_full_disk_the_newest_seconds_wait_in_memory_and_the_rest_are_holes(tmp_path: Path) -> None:
    """A page limit makes SQLite itself say "database or disk is full"."""
    queue = BatchQueue(tmp_path / "queue.db", SIZE)
    _fill(queue, range(SECOND_S, SECOND_S + 2))
    pages = queue._connection.execute("PRAGMA page_count").fetchone()[0]
    queue._connection.execute(f"PRAGMA max_page_count = {pages}")

    with capture_logs() as logs:
        for second_s in range(SECOND_S + 2, SECOND_S + 102):
            queue.put(second_s, _noise(5_000), 0)

    assert [log["event"] for log in logs] == ["queue_not_written"], "one line, not one a second"
    assert _seconds(queue) == [SECOND_S, SECOND_S + 1, *range(SECOND_S + 42, SECOND_S + 102)]
    assert queue.holes == 40
    queue.delivered(_seconds(queue)[:10], NOW_US)
    assert _seconds(queue) == list(range(SECOND_S + 50, SECOND_S + 102))

    queue._connection.execute("PRAGMA max_page_count = 1000000")
    queue.put(SECOND_S + 102, _body(SECOND_S + 102), 0)
    queue.close()

    again = BatchQueue(tmp_path / "queue.db", SIZE)
    assert _seconds(again) == list(range(SECOND_S + 50, SECOND_S + 103)), "what waited in memory was saved"
    assert again.holes == 40
    again.close()


def test_delivered_seconds_are_kept_a_minute_and_sent_again_when_asked(queue: BatchQueue) -> None:
    """The store says yes before its disk has the samples; what it may have lost can be sent once more."""
    _fill(queue, range(SECOND_S, SECOND_S + 4))
    queue.delivered([SECOND_S, SECOND_S + 1], NOW_US)
    queue.delivered([SECOND_S + 2], NOW_US + KEEP_DELIVERED_US + 1)

    assert queue.send_again() == 1
    assert _seconds(queue) == [SECOND_S + 2, SECOND_S + 3]


def test_a_refused_second_is_set_aside_and_counted(queue: BatchQueue, tmp_path: Path) -> None:
    _fill(queue, range(SECOND_S, SECOND_S + 2))

    queue.refuse(queue.pending(1)[0], "cannot parse line 1", NOW_US)

    assert _seconds(queue) == [SECOND_S + 1]
    assert queue.refused == 1
    queue.close()
    with sqlite3.connect(tmp_path / "queue.db") as connection:
        assert connection.execute("SELECT second_s, reason FROM refused").fetchall() == [
            (SECOND_S, "cannot parse line 1")
        ]
    connection.close()


def test_only_one_collector_can_have_a_queue(queue: BatchQueue, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="stop the other collector"):
        BatchQueue(tmp_path / "queue.db", SIZE)


def test_a_queue_of_another_format_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "queue.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 7")
    connection.close()

    with pytest.raises(UnavailableError, match="its format is 7"):
        BatchQueue(path, SIZE)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(UnavailableError, match="check 'data_dir'"):
        BatchQueue(tmp_path / "file" / "queue.db", SIZE)


def test_only_the_newest_repeat_of_a_report_waits_but_every_change_does(queue: BatchQueue) -> None:
    for body, is_repeat in ((b"a", False), (b"a60", True), (b"b", False), (b"b60", True), (b"b120", True)):
        queue.put_report(body, is_repeat=is_repeat)

    found = []
    while (report := queue.next_report()) is not None:
        found.append(report.body)
        queue.delete_report(report.report)
    assert found == [b"a", b"b", b"b120"]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 3)),
        st.tuples(st.just("deliver"), st.integers(1, 4)),
        st.tuples(st.just("again"), st.just(0)),
        st.tuples(st.just("reopen"), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=settings().max_examples * 25 // 100)
@given(steps=STEPS)
def test_every_second_is_waiting_or_delivered_or_a_hole_across_restarts(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "queue.db"
        queue = BatchQueue(path, SIZE)
        next_s, holes, taken = SECOND_S, 0, set[int]()
        put: list[int] = []
        for kind, number in steps:
            if kind == "put":
                next_s += number
                holes += number
                queue.put(next_s, _body(next_s), number)
                put.append(next_s)
                next_s += 1
            elif kind == "deliver":
                some = _seconds(queue)[:number]
                queue.delivered(some, NOW_US)
                taken.update(some)
            elif kind == "again":
                queue.send_again()
                taken.clear()
            else:
                queue.close()
                queue = BatchQueue(path, SIZE)
            waiting = [second_s for second_s in put if second_s not in taken]
            assert _seconds(queue) == waiting
            assert queue.holes == holes
            assert queue.complete_until_s == (waiting[0] if waiting else queue.sampled_until_s)
            assert queue.sampled_until_s == (next_s if put else None)
        queue.close()
