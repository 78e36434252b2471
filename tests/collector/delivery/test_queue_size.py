"""What does not fit is counted: a queue that is full, a disk that is, and what nobody takes."""

import sqlite3
from contextlib import closing
from pathlib import Path

from structlog.testing import capture_logs

from collector.delivery.holes import HoleReason
from collector.delivery.queue import BatchQueue
from collector.delivery.queue_file import QueueFile
from tests.collector.disks import QueueDisk
from tests.collector.seconds import NOW_US, SECOND_S, SIZE, body_of, noise, put_all, refuse_oldest, waiting


def test_a_full_queue_drops_its_oldest_seconds_and_counts_them_as_holes(tmp_path: Path) -> None:
    queue = BatchQueue(tmp_path / "queue.db", 10_000)

    for second_s in range(SECOND_S, SECOND_S + 15):
        queue.put(second_s, noise(1_000))

    kept = waiting(queue)
    assert kept == list(range(SECOND_S + 15 - len(kept), SECOND_S + 15))
    assert 8 <= len(kept) <= 10
    assert queue.holes == 15 - len(kept)
    assert queue.complete_until_s == kept[0]
    queue.close()
    again = BatchQueue(tmp_path / "queue.db", 10_000)
    assert (waiting(again), again.holes) == (kept, 15 - len(kept))
    assert again.holes_by_reason[HoleReason.QUEUE_FULL] == again.holes
    again.close()


def test_what_is_given_up_is_said_once_a_minute_and_at_the_end(tmp_path: Path) -> None:
    queue = BatchQueue(tmp_path / "queue.db", 5_000)
    with capture_logs() as logs:
        for second_s in range(SECOND_S, SECOND_S + 150):
            queue.put(second_s, noise(1_000))
        assert len(logs) == 3
        queue.close()

    assert {(log["event"], log["reason"], log["log_level"]) for log in logs} == {
        ("seconds_given_up", "queue_full", "error")
    }
    assert [log["seconds"] for log in logs] == [1, 60, 60, queue.holes - 121]
    assert 140 <= queue.holes < 150


def test_a_full_queue_gives_up_delivered_seconds_before_it_makes_holes(tmp_path: Path) -> None:
    queue = BatchQueue(tmp_path / "queue.db", 10_000)
    for second_s in range(SECOND_S, SECOND_S + 5):
        queue.put(second_s, noise(1_000))
    queue.delivered(range(SECOND_S, SECOND_S + 5), NOW_US)

    for second_s in range(SECOND_S + 5, SECOND_S + 13):
        queue.put(second_s, noise(1_000))

    assert queue.holes == 0
    assert waiting(queue) == list(range(SECOND_S + 5, SECOND_S + 13))
    queue.close()


def test_on_a_disk_that_takes_nothing_the_newest_seconds_wait_in_memory_and_the_rest_are_holes(tmp_path: Path) -> None:
    queue, disk = BatchQueue(tmp_path / "queue.db", SIZE), QueueDisk(tmp_path / "queue.db")
    put_all(queue, range(SECOND_S, SECOND_S + 2))
    disk.fail()

    with capture_logs() as logs:
        for second_s in range(SECOND_S + 2, SECOND_S + 102):
            queue.put(second_s, noise(5_000))

    said = [(log["event"], log.get("error") or log["reason"]) for log in logs]
    assert said == [("queue_not_written", "disk I/O error"), ("seconds_given_up", "disk")]
    assert waiting(queue) == [SECOND_S, SECOND_S + 1, *range(SECOND_S + 42, SECOND_S + 102)]
    assert queue.holes == queue.holes_by_reason[HoleReason.DISK] == 40
    queue.delivered(waiting(queue)[:10], NOW_US)
    assert waiting(queue) == list(range(SECOND_S + 50, SECOND_S + 102))

    disk.mend()
    queue.put(SECOND_S + 102, body_of(SECOND_S + 102))
    queue.close()

    again = BatchQueue(tmp_path / "queue.db", SIZE)
    assert waiting(again) == list(range(SECOND_S + 50, SECOND_S + 103)), "what waited in memory was saved"
    assert again.holes == 40
    again.close()


def test_a_change_that_a_full_disk_does_not_take_is_made_whole_or_not_at_all(tmp_path: Path) -> None:
    """A page limit makes SQLite itself say "database or disk is full", amid the change."""
    with closing(QueueFile(tmp_path / "queue.db")) as file, capture_logs() as logs:
        ((pages,),) = file.read("PRAGMA page_count")
        file.read(f"PRAGMA max_page_count = {pages}")

        def change() -> None:
            file.execute("INSERT INTO counts VALUES ('holes', 1)")
            file.execute("INSERT INTO batches (second_s, body) VALUES (?, ?)", (SECOND_S, noise(50_000)))

        assert not file.write(change)
        assert not file.write(change)
        assert file.read("SELECT * FROM counts") == []
        file.read("PRAGMA max_page_count = 1000000")
        assert file.write(change)
        assert file.read("SELECT value, length(body) FROM counts, batches") == [(1, 50_000)]
    assert [(log["event"], log.get("error")) for log in logs] == [
        ("queue_not_written", "database or disk is full"),
        ("queue_written_again", None),
    ]


def test_a_store_that_refuses_everything_does_not_fill_the_disk(tmp_path: Path) -> None:
    """A proxy that answers 400, a second a second: what is set aside has a place in the queue's size, and the last."""
    queue = BatchQueue(tmp_path / "queue.db", 10_000)
    for second_s in range(SECOND_S, SECOND_S + 100):
        queue.put(second_s, noise(1_000))
        refuse_oldest(queue)

    assert (queue.refused, queue.holes, len(queue)) == (100, 0, 0)
    for second_s in range(SECOND_S + 100, SECOND_S + 105):
        queue.put(second_s, noise(1_000))
    assert queue.holes == 0, "what was refused makes room first"
    queue.close()
    with closing(sqlite3.connect(tmp_path / "queue.db")) as connection, connection:
        kept = [row[0] for row in connection.execute("SELECT second_s FROM refused ORDER BY second_s")]
        (size,) = connection.execute(
            "SELECT sum(length(body)) FROM (SELECT body FROM refused UNION ALL SELECT body FROM batches)"
        ).fetchone()
    connection.close()
    assert kept == list(range(SECOND_S + 100 - len(kept), SECOND_S + 100)), "the newest"
    assert 3 <= len(kept) <= 5
    assert size <= 10_000

    again = BatchQueue(tmp_path / "queue.db", 10_000)
    for second_s in range(SECOND_S + 105, SECOND_S + 109):
        again.put(second_s, noise(1_000))
    assert (len(again), again.holes) == (9, 0), "its size is known after a restart, too"
    again.close()


def test_of_what_is_refused_the_newest_hour_is_kept(queue: BatchQueue, tmp_path: Path) -> None:
    queue.close()
    with closing(sqlite3.connect(tmp_path / "queue.db")) as connection, connection:
        rows = [(second_s, b"x", "unusable") for second_s in range(SECOND_S, SECOND_S + 3_600)]
        connection.executemany("INSERT INTO refused VALUES (?, ?, ?)", rows)
    connection.close()
    queue = BatchQueue(tmp_path / "queue.db", SIZE)

    for second_s in range(SECOND_S + 3_600, SECOND_S + 3_605):
        put_all(queue, range(second_s, second_s + 1))
        refuse_oldest(queue)

    queue.close()
    with closing(sqlite3.connect(tmp_path / "queue.db")) as connection, connection:
        kept = [row[0] for row in connection.execute("SELECT second_s FROM refused ORDER BY second_s")]
    connection.close()
    assert kept == list(range(SECOND_S + 5, SECOND_S + 3_605))


def test_reports_that_nobody_takes_do_not_fill_the_disk(queue: BatchQueue) -> None:
    with capture_logs() as logs:
        for number in range(1_003):
            queue.reports.put(b"%d" % number, is_repeat=False)

    report = queue.reports.first()
    assert report is not None
    assert report.body == b"3"
    assert [log["reports"] for log in logs] == [1, 1, 1]
