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
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import structlog

from domain.errors import UnavailableError

_FORMAT = 1
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS batches (second_s INTEGER PRIMARY KEY, body BLOB NOT NULL, delivered_us INTEGER);
CREATE TABLE IF NOT EXISTS refused (second_s INTEGER PRIMARY KEY, body BLOB NOT NULL, reason TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS reports (
    report INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL, is_repeat INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS counts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
PRAGMA user_version = {_FORMAT};
"""
# Twelve times the 5 s after which VictoriaMetrics writes what it took to its disk.
KEEP_DELIVERED_US = 60 * 1_000_000
# What is held in memory while the disk takes nothing.
_UNSAVED_BATCHES = 60
# Text of labels and numbers shrinks twelvefold at the fastest level, which costs some 20 microseconds.
_COMPRESSION = 1

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

    At most `max_bytes` of seconds are kept: beyond that the oldest is dropped and counted as a hole. While the
    disk is full the newest 60 wait in memory. Only one process can have a queue open.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        """Opens or makes the file. UnavailableError where it cannot be used, as by another collector."""
        self._path = path
        self._max_bytes = max_bytes
        self._lock = threading.RLock()
        self._unsaved: deque[Batch] = deque()
        self._is_failing = False
        self._taken_back: set[int] = set()
        self._connection = self._open()
        self._counts: dict[str, int] = dict(self._connection.execute("SELECT name, value FROM counts"))
        sizes = self._connection.execute("SELECT second_s, length(body), delivered_us FROM batches ORDER BY second_s")
        self._pending: dict[int, int] = {}
        self._delivered: dict[int, int] = {}
        for second_s, size, delivered_us in sizes:
            (self._pending if delivered_us is None else self._delivered)[second_s] = size
        self._size = sum(self._pending.values()) + sum(self._delivered.values())

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
            waiting = chain(self._pending, (batch.second_s for batch in self._unsaved))
            return next(waiting, self.sampled_until_s)

    def __len__(self) -> int:
        """How many seconds wait for the store."""
        return len(self._pending) + len(self._unsaved)

    def put(self, second_s: int, body: bytes, holes: int) -> None:
        """Keep a second that is later than all before it, and count `holes` seconds that were missed before it."""
        packed = zlib.compress(body, _COMPRESSION)
        with self._lock:
            removed = self._make_room(len(packed))
            self._counts |= {"sampled_until_s": second_s + 1, "holes": self.holes + holes}
            # What waits in memory goes first: it is older, and the disk may take it again.
            batches = [*self._unsaved, Batch(second_s, packed)]

            def save() -> None:
                self._delete(removed)
                rows = [(batch.second_s, batch.body) for batch in batches]
                self._connection.executemany("INSERT OR REPLACE INTO batches (second_s, body) VALUES (?, ?)", rows)

            if self._write(save):
                self._pending |= {batch.second_s: len(batch.body) for batch in batches}
                self._size += sum(len(batch.body) for batch in batches)
                self._unsaved.clear()
                return
            self._unsaved.append(batches[-1])
            if len(self._unsaved) > _UNSAVED_BATCHES:
                self._unsaved.popleft()
                self._counts["holes"] += 1

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
                old = self._connection.execute(
                    "DELETE FROM batches WHERE delivered_us < ? RETURNING second_s", (now_us - KEEP_DELIVERED_US,)
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

    def refuse(self, batch: Batch, reason: str, now_us: int) -> None:
        """Set a second aside that the store called unusable, and count it."""
        row = (batch.second_s, zlib.compress(batch.body, _COMPRESSION), reason)
        statement = "INSERT OR REPLACE INTO refused (second_s, body, reason) VALUES (?, ?, ?)"
        with self._lock:
            self._counts["refused"] = self.refused + 1
            self._write(lambda: self._connection.execute(statement, row))
            self.delivered([batch.second_s], now_us)

    def put_report(self, body: bytes, *, is_repeat: bool) -> None:
        """Keep an inventory report. A repeat replaces the waiting repeat: only changes and the newest matter."""

        def save() -> None:
            if is_repeat:
                self._connection.execute("DELETE FROM reports WHERE is_repeat")
            self._connection.execute("INSERT INTO reports (body, is_repeat) VALUES (?, ?)", (body, is_repeat))

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

    def _open(self) -> sqlite3.Connection:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self._path, timeout=1, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise UnavailableError(f"cannot open the queue {str(self._path)!r}: {error}; check 'data_dir'") from error
        try:
            # Held until the process ends, however it ends.
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("PRAGMA journal_mode = WAL")
            # Each commit is on the disk before it returns, so a power cut costs at most the second in progress.
            connection.execute("PRAGMA synchronous = FULL")
            self._check_format(connection)
            connection.executescript(_SCHEMA)
        except sqlite3.Error as error:
            connection.close()
            raise UnavailableError(
                f"cannot use the queue {str(self._path)!r}: {error}; stop the other collector of this node, "
                "or free the disk"
            ) from error
        return connection

    def _check_format(self, connection: sqlite3.Connection) -> None:
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found not in (0, _FORMAT):
            connection.close()
            raise UnavailableError(
                f"cannot use the queue {str(self._path)!r}: its format is {found}, this gputab knows {_FORMAT}; "
                "deliver it with the version that made it, or move it away"
            )

    def _waiting(self) -> Iterator[tuple[int, bytes]]:
        for second_s in list(self._pending):
            row = self._connection.execute("SELECT body FROM batches WHERE second_s = ?", (second_s,)).fetchone()
            yield second_s, row[0]
        yield from self._unsaved

    def _make_room(self, size: int) -> list[int]:
        """Forget the oldest rows until `size` fits; those that were not delivered become holes."""
        removed: list[int] = []
        while self._size + size > self._max_bytes and (rows := self._delivered or self._pending):
            second_s = next(iter(rows))
            self._size -= rows.pop(second_s)
            removed.append(second_s)
            if rows is self._pending:
                self._counts["holes"] = self.holes + 1
        return removed

    def _delete(self, seconds: Iterable[int]) -> None:
        self._connection.executemany("DELETE FROM batches WHERE second_s = ?", [(each,) for each in seconds])

    def _write(self, change: Callable[[], object]) -> bool:
        """Make a change in one transaction, with the counts; False, logged once, where the disk takes nothing."""
        try:
            with self._transaction():
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

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
