"""The queue on disk between sampling and delivery: what is in it survives whatever is killed.

One SQLite file per node, one row per sampled second. A row is committed to disk before the second counts as
sampled, and leaves only some time after the store has taken it: VictoriaMetrics says yes before its own disk
has the samples, so what it took in the last minute is sent again when it comes back after a failure.
"""

import sqlite3
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import structlog

from collector.queue_file import open_queue_file, transaction

# Twelve times the 5 s after which VictoriaMetrics writes what it took to its disk.
KEEP_DELIVERED_US = 60 * 1_000_000
# What is held in memory while the disk takes nothing.
_UNSAVED_BATCHES = 60
# What nobody takes must not fill the disk: an hour of seconds to look into, and far more changes than a node sees.
_KEPT_REFUSED = 3_600
_KEPT_REPORTS = 1_000
# Text of labels and numbers shrinks twelvefold at the fastest level, which costs some 20 microseconds.
_COMPRESSION = 1
_DELETE_BATCH = "DELETE FROM batches WHERE second_s = ?"
_DELETE_REFUSED = "DELETE FROM refused WHERE second_s = ?"

log = structlog.get_logger()


class Batch(NamedTuple):
    """The encoded samples of one second."""

    second_s: int
    body: bytes


class Report(NamedTuple):
    """An inventory on its way to the allocator."""

    report: int
    body: bytes


class BatchQueue:
    """Seconds waiting for the store, and reports waiting for the allocator; safe to use from several threads.

    At most `max_bytes` of seconds are kept. Beyond that those that were refused go first, then those that were
    delivered, then the oldest that wait, which become holes. While the disk is full the newest 60 wait in memory.
    Only one process can have a queue open.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        """Opens or makes the file. UnavailableError where it cannot be used, as by another collector."""
        self._path = path
        self._max_bytes = max_bytes
        self._lock = threading.RLock()
        self._unsaved: deque[Batch] = deque()
        self._is_failing = False
        self._taken_back: set[int] = set()
        self._connection = open_queue_file(path)
        self._counts: dict[str, int] = dict(self._connection.execute("SELECT name, value FROM counts"))
        sizes = self._connection.execute("SELECT second_s, length(body), delivered_us FROM batches ORDER BY second_s")
        # By second, the size of each row; what waits is in the order of time.
        self._pending: dict[int, int] = {}
        self._delivered: dict[int, int] = {}
        for second_s, size, delivered_us in sizes:
            (self._pending if delivered_us is None else self._delivered)[second_s] = size
        refused = self._connection.execute("SELECT second_s, length(body) FROM refused ORDER BY second_s")
        self._refused: dict[int, int] = dict(refused)
        self._size = sum(sum(rows.values()) for rows in (self._pending, self._delivered, self._refused))

    @property
    def sampled_until_s(self) -> int | None:
        """Every second before this one is in the queue, was delivered, or is a hole; None before the first."""
        return self._counts.get("sampled_until_s")

    @property
    def holes(self) -> int:
        """Seconds without samples since the queue was made: not sampled, or dropped from a full queue."""
        return self._counts.get("holes", 0)

    @property
    def refused(self) -> int:
        """Seconds the store called unusable since the queue was made."""
        return self._counts.get("refused", 0)

    @property
    def complete_until_s(self) -> int | None:
        """Every second before this one was delivered, refused by the store, or is a hole; None before the first."""
        with self._lock:
            until_s = self.sampled_until_s
            if until_s is None:
                return None
            # After a clock was set back, what waits may lie ahead of it.
            return min(next(iter(self._pending), until_s), *(batch.second_s for batch in self._unsaved), until_s)

    def __len__(self) -> int:
        """How many seconds wait for the store."""
        return len(self._pending) + len(self._unsaved)

    def put(self, second_s: int, body: bytes, holes: int) -> None:
        """Keep a second, and count `holes` seconds that were missed before it.

        It is `sampled_until_s` or later. One that was kept before a clock was set back is replaced.
        """
        packed = zlib.compress(body, _COMPRESSION)
        with self._lock:
            given_up = self._make_room(len(packed))
            self._counts |= {"sampled_until_s": second_s + 1, "holes": self.holes + holes}
            # What waits in memory goes first: it is older, and the disk may take it again.
            batches = [*self._unsaved, Batch(second_s, packed)]

            def save() -> None:
                given_up()
                rows = [(batch.second_s, batch.body) for batch in batches]
                self._connection.executemany("INSERT OR REPLACE INTO batches (second_s, body) VALUES (?, ?)", rows)

            if self._write(save):
                for batch in batches:
                    self._add(batch)
                self._unsaved.clear()
                return
            self._unsaved.append(batches[-1])
            if len(self._unsaved) > _UNSAVED_BATCHES:
                self._unsaved.popleft()
                self._counts["holes"] += 1

    def start_again(self, second_s: int, holes: int) -> None:
        """Let the next second be `second_s`, though later ones were put: their clock was wrong.

        `holes` seconds passed meanwhile without a sample. On disk with the next second.
        """
        with self._lock:
            self._counts |= {"sampled_until_s": second_s, "holes": self.holes + holes}

    def pending(self, max_bytes: int) -> list[Batch]:
        """The oldest waiting seconds, at least one and then as many as `max_bytes` of text hold."""
        batches: list[Batch] = []
        size = 0
        with self._lock:
            for second_s, packed in self._waiting():
                body = zlib.decompress(packed)
                size += len(body)
                if batches and size > max_bytes:
                    break
                batches.append(Batch(second_s, body))
        return batches

    def delivered(self, seconds: Iterable[int], now_us: int) -> None:
        """The store has taken these seconds. They are kept for `KEEP_DELIVERED_US` more."""
        with self._lock:
            taken = set(seconds)
            self._delivered |= {second_s: self._pending.pop(second_s) for second_s in taken & self._pending.keys()}
            self._unsaved = deque(batch for batch in self._unsaved if batch.second_s not in taken)
            self._taken_back |= taken

            def mark() -> None:
                rows = [(now_us, second_s) for second_s in self._taken_back]
                self._connection.executemany("UPDATE batches SET delivered_us = ? WHERE second_s = ?", rows)
                # One of a time to come was delivered before a clock was set back.
                old = self._connection.execute(
                    "DELETE FROM batches WHERE delivered_us NOT BETWEEN ? AND ? RETURNING second_s",
                    (now_us - KEEP_DELIVERED_US, now_us),
                )
                for (second_s,) in old.fetchall():
                    self._size -= self._delivered.pop(second_s, 0)

            if self._write(mark):
                self._taken_back.clear()

    def send_again(self) -> int:
        """Put what was delivered of late back among what waits; how many seconds that is."""
        with self._lock:
            again = len(self._delivered)
            if again and self._write(lambda: self._connection.execute("UPDATE batches SET delivered_us = NULL")):
                self._pending = dict(sorted((self._pending | self._delivered).items()))
                self._delivered.clear()
            return again

    def refuse(self, batch: Batch, reason: str) -> None:
        """Set a second aside that the store called unusable, and count it. The newest 3,600 are kept."""
        second_s, packed = batch.second_s, zlib.compress(batch.body, _COMPRESSION)
        with self._lock:
            self._counts["refused"] = self.refused + 1
            self._drop(second_s)
            self._unsaved = deque(each for each in self._unsaved if each.second_s != second_s)
            self._size += len(packed) - self._refused.pop(second_s, 0)
            self._refused[second_s] = len(packed)
            oldest = list(self._refused)[:-_KEPT_REFUSED]
            self._size -= sum(self._refused.pop(each) for each in oldest)

            def move() -> None:
                self._connection.execute(_DELETE_BATCH, (second_s,))
                self._connection.executemany(_DELETE_REFUSED, zip(oldest))
                row = (second_s, packed, reason)
                self._connection.execute("INSERT OR REPLACE INTO refused VALUES (?, ?, ?)", row)

            self._write(move)

    def put_report(self, body: bytes, *, is_repeat: bool) -> None:
        """Keep an inventory report. A repeat replaces the waiting repeat: only changes and the newest matter.

        Of the changes the newest 1,000 are kept.
        """

        def save() -> None:
            if is_repeat:
                self._connection.execute("DELETE FROM reports WHERE is_repeat")
            self._connection.execute("INSERT INTO reports (body, is_repeat) VALUES (?, ?)", (body, is_repeat))
            oldest = "DELETE FROM reports WHERE report NOT IN (SELECT report FROM reports ORDER BY report DESC LIMIT ?)"
            if dropped := self._connection.execute(oldest, (_KEPT_REPORTS,)).rowcount:
                log.warning("oldest_reports_dropped", path=str(self._path), reports=dropped)

        with self._lock:
            self._write(save)

    def next_report(self) -> Report | None:
        """The oldest waiting report."""
        with self._lock:
            row = self._connection.execute("SELECT report, body FROM reports ORDER BY report LIMIT 1").fetchone()
        return None if row is None else Report(*row)

    def delete_report(self, report: int) -> None:
        """The allocator has taken the report, or never will."""
        with self._lock:
            self._write(lambda: self._connection.execute("DELETE FROM reports WHERE report = ?", (report,)))

    def close(self) -> None:
        """Let go of the file; what waits stays in it."""
        with self._lock:
            self._connection.close()

    def _waiting(self) -> Iterator[tuple[int, bytes]]:
        for second_s in list(self._pending):
            row = self._connection.execute("SELECT body FROM batches WHERE second_s = ?", (second_s,)).fetchone()
            yield second_s, row[0]
        yield from self._unsaved

    def _add(self, batch: Batch) -> None:
        """Count a row of the file among those that wait."""
        self._drop(batch.second_s)
        is_last = batch.second_s > next(reversed(self._pending), 0)
        self._pending[batch.second_s] = len(batch.body)
        self._size += len(batch.body)
        if not is_last:
            self._pending = dict(sorted(self._pending.items()))

    def _drop(self, second_s: int) -> None:
        """Count a row no more."""
        self._size -= self._pending.pop(second_s, 0) + self._delivered.pop(second_s, 0)
        self._taken_back.discard(second_s)

    def _make_room(self, size: int) -> Callable[[], None]:
        """Give up rows until `size` fits, the least needed and then the oldest first; returned is what deletes them."""
        refused: list[int] = []
        batches: list[int] = []
        while self._size + size > self._max_bytes and (rows := self._refused or self._delivered or self._pending):
            second_s = next(iter(rows))
            self._size -= rows.pop(second_s)
            (refused if rows is self._refused else batches).append(second_s)
            if rows is self._pending:
                self._counts["holes"] = self.holes + 1

        def delete() -> None:
            self._connection.executemany(_DELETE_REFUSED, zip(refused))
            self._connection.executemany(_DELETE_BATCH, zip(batches))

        return delete

    def _write(self, change: Callable[[], object]) -> bool:
        """Make a change in one transaction, with the counts; False, logged once, where the disk takes nothing."""
        try:
            with transaction(self._connection):
                change()
                self._connection.executemany(
                    "INSERT OR REPLACE INTO counts (name, value) VALUES (?, ?)", self._counts.items()
                )
        except sqlite3.Error as error:
            if not self._is_failing:
                log.error("queue_not_written", path=str(self._path), error=str(error), remedy="free the disk")
            self._is_failing = True
            return False
        if self._is_failing:
            log.info("queue_written_again", path=str(self._path))
        self._is_failing = False
        return True
