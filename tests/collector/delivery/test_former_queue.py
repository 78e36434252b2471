"""A queue that an older gputab left behind holds seconds: they are delivered by the newer one."""

import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

import pytest

from collector.delivery.holes import HoleReason
from collector.delivery.queue import BatchQueue
from collector.delivery.sender import Sender
from collector.sample_runs import one_sample
from domain.clock import MICROSECONDS, FrozenClock
from domain.series import GPU_MEMORY_USED
from tests.collector.sample_logs import START_S
from tests.collector.seconds import SIZE, refuse_oldest
from tests.collector.sent import put_samples, stored_seconds
from tests.collector.stores import unchecked
from victoriametrics.encode import encode
from victoriametrics.push import Pusher

SCHEMA = """
CREATE TABLE batches (second_s INTEGER PRIMARY KEY, body BLOB NOT NULL, delivered_us INTEGER);
CREATE TABLE refused (second_s INTEGER PRIMARY KEY, body BLOB NOT NULL, reason TEXT NOT NULL);
CREATE TABLE reports (report INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL, is_repeat INTEGER NOT NULL);
CREATE TABLE counts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""
NOW_US = (START_S + 20) * MICROSECONDS


@pytest.fixture(params=[1, 2], ids=["format 1", "format 2"])
def path(request: pytest.FixtureRequest, tmp_path: Path, unique_node: str) -> Path:
    """Twenty seconds, of which five were delivered, one was refused, and two are holes."""
    path = tmp_path / "queue.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(f"{SCHEMA}PRAGMA user_version = {request.param};")
        for second_s in range(START_S, START_S + 20):
            labels = {"node": unique_node, "gpu_uuid": "GPU-1"}
            body = zlib.compress(encode([one_sample(GPU_MEMORY_USED, labels, second_s, second_s)]), 1)
            if second_s == START_S + 7:
                connection.execute("INSERT INTO refused VALUES (?, ?, 'unusable')", (second_s, body))
            elif second_s not in (START_S + 8, START_S + 9):
                delivered_us = NOW_US - MICROSECONDS if second_s < START_S + 5 else None
                connection.execute("INSERT INTO batches VALUES (?, ?, ?)", (second_s, body, delivered_us))
        connection.execute("INSERT INTO reports (body, is_repeat) VALUES (x'7b7d', 0)")
        counts = {"sampled_until_s": START_S + 20, "holes": 2, "refused": 1, "marked_until_s": START_S + 5}
        connection.executemany("INSERT INTO counts VALUES (?, ?)", counts.items())
    return path


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433"], ids=["as text", "as gzip"])
def test_what_waited_before_an_upgrade_is_delivered_after_it(
    path: Path, victoriametrics_url: str, unique_node: str, host: str
) -> None:
    """Also packed: by its address as one number, this machine's store is taken for one of another machine."""
    queue = BatchQueue(path, SIZE)
    assert len(queue) == 12
    assert (queue.holes, queue.refused, queue.quarantined) == (2, 1, 0)
    assert queue.holes_by_reason[HoleReason.UNRECORDED] == 2
    assert (queue.marked_until_s, queue.complete_until_s, queue.oldest_s) == (START_S + 5, START_S + 5, START_S + 5)
    report = queue.reports.first()
    assert report is not None
    assert report.body == b"{}"
    put_samples(queue, unique_node, range(START_S + 20, START_S + 22))
    with Pusher(victoriametrics_url.replace("127.0.0.1", host)) as pusher:
        Sender(unique_node, queue, pusher, FrozenClock(NOW_US + 2 * MICROSECONDS), unchecked).drain(10)
    assert (len(queue), queue.complete_until_s) == (0, START_S + 22)
    queue.close()
    expected = [each for each in range(START_S, START_S + 22) if each - START_S not in (7, 8, 9)]
    assert stored_seconds(victoriametrics_url, unique_node, range(START_S, START_S + 100)) == expected


def test_the_file_says_that_an_older_gputab_cannot_read_it_any_more(path: Path) -> None:
    BatchQueue(path, SIZE).close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (3,)


def test_what_was_set_aside_of_a_second_before_stays_with_what_comes(path: Path) -> None:
    """As where a clock was set back, and the second was sampled again."""
    queue = BatchQueue(path, SIZE)
    queue.put(START_S + 20, b"one\ntwo\n")
    queue.skip_to(START_S + 7, 0, HoleReason.CLOCK)
    queue.put(START_S + 7, b"three\n")
    assert refuse_oldest(queue, "useless") == START_S + 5
    assert refuse_oldest(queue, "useless") == START_S + 6
    assert refuse_oldest(queue, "useless") == START_S + 7
    assert (queue.refused, queue.quarantined) == (4, 3)
    queue.close()
    with closing(sqlite3.connect(path)) as connection:
        question = "SELECT body, reason FROM refused WHERE second_s = ?"
        ((body, reason),) = connection.execute(question, (START_S + 7,)).fetchall()
    lines = zlib.decompress(body, 47).splitlines()
    assert len(lines) == 2
    assert GPU_MEMORY_USED.name.encode() in lines[0]
    assert (lines[1], reason) == (b"three", "unusable; useless")
