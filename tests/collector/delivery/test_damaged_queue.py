"""A queue's file that holds something else than was written is one line with the remedy, wherever it is met."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from threading import Event

import httpx
import pytest

from collector.delivery.node_service import NodeService
from collector.delivery.queue import BatchQueue
from collector.delivery.queue_file import QueueDamagedError
from collector.delivery.reporter import InventoryReporter
from collector.delivery.sender import Sender
from collector.source import ScriptedSource
from domain.clock import MICROSECONDS, FrozenClock
from domain.errors import UnavailableError
from tests.collector.seconds import SECOND_S, SIZE, noise
from tests.collector.stores import unchecked
from victoriametrics.push import Pusher

REMEDY = r"^cannot read the queue '.*queue\.db': .*; move the file away \(what waited in it is lost\)$"
PAGE_BYTES = 4_096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A queue of 200 seconds and a report."""
    queue = BatchQueue(tmp_path / "queue.db", SIZE)
    for second_s in range(SECOND_S, SECOND_S + 200):
        queue.put(second_s, noise(3_000))
    queue.reports.put(b"inventory", is_repeat=False)
    queue.close()
    return tmp_path / "queue.db"


def _root_page(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection, connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    connection.close()
    return int(page)


def _page_of(path: Path, second_s: int) -> int:
    """The page on which that second lies, alone."""
    with closing(sqlite3.connect(path)) as connection:
        (body,) = connection.execute("SELECT body FROM batches WHERE second_s = ?", (second_s,)).fetchone()
    return path.read_bytes().index(body) // PAGE_BYTES + 1


def _overwrite(path: Path, page: int, size: int) -> None:
    """Let other bytes be at the beginning of a page, which are counted from 1."""
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE_BYTES)
        file.write(os.urandom(size))


def _overwrite_in_journal(path: Path, page: int) -> None:
    """The same where the page was written since the file was opened: it is read from there.

    A frame of the journal (https://www.sqlite.org/fileformat2.html#walformat) is a header, which begins with the number
    of the page, and the page.
    """
    journal = path.with_name(f"{path.name}-wal")
    frames = range(32, journal.stat().st_size, 24 + PAGE_BYTES)
    with journal.open("r+b") as file:
        found = [frame for frame in frames if os.pread(file.fileno(), 4, frame) == page.to_bytes(4)]
        for frame in found:
            os.pwrite(file.fileno(), os.urandom(200), frame + 24)
    assert found


@pytest.mark.parametrize("table", ["batches", "refused", "counts", "reports"])
def test_a_table_that_cannot_be_read_is_found_at_the_start(path: Path, table: str) -> None:
    _overwrite(path, _root_page(path, table), 200)

    for _ in range(2):
        with pytest.raises(QueueDamagedError, match=REMEDY):
            BatchQueue(path, SIZE)


def test_a_file_that_is_no_queue_at_all_is_no_other_collectors(path: Path) -> None:
    _overwrite(path, 1, 100)

    with pytest.raises(UnavailableError, match=REMEDY):
        BatchQueue(path, SIZE)


def test_damage_that_is_met_while_reading_ends_the_sender_and_is_no_store_that_is_away(
    path: Path, victoriametrics_url: str
) -> None:
    """Its thread hands that on to the process, which ends with the line. Waiting would not mend it."""
    # Another body under the key: what SQLite itself cannot see, and what is not read at the start.
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE batches SET body = x'00ff' WHERE second_s = ?", (SECOND_S,))
    queue = BatchQueue(path, SIZE)

    with pytest.raises(QueueDamagedError, match=REMEDY):
        queue.pending(SIZE)
    with Pusher(victoriametrics_url) as pusher:
        sender = Sender("node-1", queue, pusher, FrozenClock(SECOND_S * MICROSECONDS), unchecked)
        with pytest.raises(QueueDamagedError, match=REMEDY):
            sender.deliver()
    queue.close()


def test_damage_that_is_met_while_writing_is_no_full_disk(path: Path) -> None:
    """Waiting in memory for a disk that will never take it would lose each second after the first sixty."""
    page = _page_of(path, SECOND_S)
    queue = BatchQueue(path, SIZE)
    queue.close()
    # A full one, so that the next second takes the place of the oldest. Of what it has read, the newest pages are kept.
    queue = BatchQueue(path, queue.size_bytes)
    _overwrite(path, page, 200)

    with pytest.raises(QueueDamagedError, match=REMEDY):
        queue.put(SECOND_S + 200, noise(3_000))
    queue.close()


def test_damage_that_a_report_meets_is_no_unreadable_inventory(path: Path) -> None:
    page = _root_page(path, "reports")
    queue = BatchQueue(path, SIZE)
    clock, changed = FrozenClock(SECOND_S * MICROSECONDS), Event()
    with httpx.Client() as client:
        service = NodeService("http://nobody", "node-1", "token", client)
        source = ScriptedSource((), lambda _uuid, _second: [])
        reporter = InventoryReporter(source, "node-1", queue, clock, service, changed)
        _overwrite_in_journal(path, page)
        # So many other pages that the table's is held in memory no more.
        queue.pending(SIZE)
        clock.advance_us(60 * MICROSECONDS)
        changed.set()
        with pytest.raises(QueueDamagedError, match=REMEDY):
            reporter.run(Event())
    queue.close()
