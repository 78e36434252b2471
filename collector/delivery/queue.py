"""The queue on disk between sampling and delivery: what is in it survives whatever is killed.

One SQLite file per node, one row per sampled second. A row is committed to disk before the second counts as
sampled, and leaves only some time after the store has taken it: VictoriaMetrics says yes before its own disk
has the samples, so what it took in the last minute is sent again when it comes back after a failure.
"""

import threading
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from collector.delivery.queue_file import QueueDamagedError, QueueFile
from collector.delivery.report_queue import Report, ReportQueue

# Twelve times the 5 s after which VictoriaMetrics writes what it took to its disk.
KEEP_DELIVERED_US = 60 * 1_000_000
# What is held in memory while the disk takes nothing.
_UNSAVED_BATCHES = 60
# What nobody takes must not fill the disk: an hour of seconds to look into.
_KEPT_REFUSED = 3_600
# Text of labels and numbers shrinks twelvefold at the fastest level, which costs some 20 microseconds.
_COMPRESSION = 1


class Batch(NamedTuple):
    """The encoded samples of one second."""

    second_s: int
    body: bytes


class BatchQueue:
    """Seconds waiting for the store, and reports waiting for the allocator; safe to use from several threads.

    At most `max_bytes` of seconds are kept. Beyond that those that were refused go first, then those that were
    delivered, then the oldest that wait, which become holes. While the disk takes nothing, the file stays behind what
    is in memory, which holds the newest 60 seconds, and catches up with the first change that it takes again. Only
    one process can have a queue open.

    Where the file holds something else than was written, every method may raise QueueDamagedError.
    """

    _counts: dict[str, int]
    # By second, the size of each row, waiting or delivered, and of each that was set aside; of all together.
    _sizes: dict[int, int]
    _refused: dict[int, int]
    _size: int
    # The seconds that wait, in the order of time, and those that were delivered, with when.
    _pending: dict[int, None]
    _delivered: dict[int, int]

    def __init__(self, path: Path, max_bytes: int) -> None:
        """Opens or makes the file. UnavailableError where it cannot be used, as by another collector."""
        self._max_bytes = max_bytes
        self._lock = threading.RLock()
        # What the file does not know yet: rows to write, when rows were delivered (None: they wait again), and rows
        # that are no more.
        self._unsaved: dict[int, bytes] = {}
        self._unstamped: dict[int, int | None] = {}
        self._gone: set[int] = set()
        self._gone_refused: set[int] = set()
        self._connection = QueueFile(path)
        try:
            self._load()
            self._reports = ReportQueue(self._connection)
        except (TypeError, ValueError) as error:
            self._connection.close()
            raise self._connection.damaged(error) from error
        except QueueDamagedError:
            self._connection.close()
            raise

    @property
    def sampled_until_s(self) -> int | None:
        """Every second before this one is in the queue, was delivered, or is a hole; None before the first."""
        return self._counts.get("sampled_until_s")

    @property
    def marked_until_s(self) -> int:
        """The last that was told to `mark`, by whichever process; 0 before the first."""
        return self._counts.get("marked_until_s", 0)

    @property
    def holes(self) -> int:
        """Seconds without samples since the queue was made: not sampled, or dropped from a full queue."""
        return self._counts.get("holes", 0)

    @property
    def refused(self) -> int:
        """Seconds since the queue was made that the store called unusable, or would not have kept."""
        return self._counts.get("refused", 0)

    @property
    def complete_until_s(self) -> int | None:
        """Every second before this one was delivered, refused by the store, or is a hole; None before the first."""
        with self._lock:
            until_s = self.sampled_until_s
            # After a clock was set back, what waits may lie ahead of it.
            return None if until_s is None else min(next(iter(self._pending), until_s), until_s)

    def __len__(self) -> int:
        """How many seconds wait for the store."""
        return len(self._pending)

    def put(self, second_s: int, body: bytes, holes: int) -> None:
        """Keep a second, and count `holes` seconds that were missed before it.

        It is `sampled_until_s` or later. One that was kept before a clock was set back is replaced.
        """
        packed = zlib.compress(body, _COMPRESSION)
        with self._lock:
            self._drop(second_s)
            self._make_room(len(packed))
            is_last = second_s > next(reversed(self._pending), 0)
            self._pending[second_s] = None
            if not is_last:
                self._pending = dict.fromkeys(sorted(self._pending))
            self._sizes[second_s] = len(packed)
            self._size += len(packed)
            self._unsaved[second_s] = packed
            self._counts |= {"sampled_until_s": second_s + 1, "holes": self.holes + holes}
            if not self._write() and len(self._unsaved) > _UNSAVED_BATCHES:
                self._give_up(next(iter(self._unsaved)))

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
            for second_s in self._pending:
                body = self._body(second_s)
                size += len(body)
                if batches and size > max_bytes:
                    break
                batches.append(Batch(second_s, body))
        return batches

    def delivered(self, seconds: Iterable[int], now_us: int) -> None:
        """The store has taken these seconds. They are kept for `KEEP_DELIVERED_US` more."""
        with self._lock:
            taken = dict.fromkeys((second_s for second_s in seconds if second_s in self._pending), now_us)
            for second_s in taken:
                del self._pending[second_s]
            self._delivered |= taken
            self._unstamped |= taken
            # One of a time to come was delivered before a clock was set back.
            kept_us = range(now_us - KEEP_DELIVERED_US, now_us + 1)
            for second_s in [each for each, delivered_us in self._delivered.items() if delivered_us not in kept_us]:
                self._drop(second_s)
            self._write()

    def send_again(self) -> int:
        """Put what was delivered of late back among what waits; how many seconds that is."""
        with self._lock:
            again = len(self._delivered)
            if again:
                self._unstamped |= dict.fromkeys(self._delivered)
                self._pending = dict.fromkeys(sorted([*self._pending, *self._delivered]))
                self._delivered.clear()
                self._write()
            return again

    def refuse(self, batch: Batch, reason: str) -> None:
        """Set a second aside that the store called unusable, or would not keep, and count it.

        The newest 3,600 are kept; one that the disk does not take is only counted.
        """
        row = (batch.second_s, zlib.compress(batch.body, _COMPRESSION), reason)
        with self._lock:
            self._counts["refused"] = self.refused + 1
            self._drop(batch.second_s)
            self._drop_refused(batch.second_s)
            while len(self._refused) >= _KEPT_REFUSED:
                self._drop_refused(next(iter(self._refused)))
            if self._write(lambda: self._connection.execute("INSERT INTO refused VALUES (?, ?, ?)", row)):
                self._refused[batch.second_s] = len(row[1])
                self._size += len(row[1])

    def mark(self, until_s: int) -> None:
        """A mark is about to vouch for every second before `until_s`."""
        with self._lock:
            self._counts["marked_until_s"] = until_s
            self._write()

    def put_report(self, body: bytes, *, is_repeat: bool) -> None:
        """Keep an inventory report: see `ReportQueue.put`."""
        self._reports.put(body, is_repeat=is_repeat)

    def next_report(self) -> Report | None:
        """The oldest waiting report."""
        return self._reports.first()

    def delete_report(self, report: int) -> None:
        """The allocator has taken the report, or never will."""
        self._reports.delete(report)

    def close(self) -> None:
        """Let go of the file; what waits stays in it."""
        with self._lock:
            self._connection.close()

    def _load(self) -> None:
        """Read what the file holds, but for the bodies."""
        self._counts = dict(self._connection.read("SELECT name, value FROM counts"))
        rows = self._connection.read("SELECT second_s, length(body), delivered_us FROM batches ORDER BY second_s")
        self._sizes = {second_s: size for second_s, size, _ in rows}
        self._pending = {second_s: None for second_s, _, delivered_us in rows if delivered_us is None}
        self._delivered = {second_s: delivered_us for second_s, _, delivered_us in rows if delivered_us is not None}
        self._refused = dict(self._connection.read("SELECT second_s, length(body) FROM refused ORDER BY second_s"))
        self._size = sum(self._sizes.values()) + sum(self._refused.values())

    def _body(self, second_s: int) -> bytes:
        packed = self._unsaved.get(second_s)
        try:
            if packed is None:
                ((packed,),) = self._connection.read("SELECT body FROM batches WHERE second_s = ?", (second_s,))
            return zlib.decompress(packed)
        except (ValueError, TypeError, zlib.error) as error:
            raise self._connection.damaged(error) from error

    def _drop(self, second_s: int) -> None:
        """Know a row no more."""
        size = self._sizes.pop(second_s, None)
        if size is None:
            return
        self._size -= size
        for rows in (self._pending, self._delivered, self._unstamped):
            rows.pop(second_s, None)
        if self._unsaved.pop(second_s, None) is None:
            self._gone.add(second_s)

    def _drop_refused(self, second_s: int) -> None:
        """Know a row that was set aside no more."""
        size = self._refused.pop(second_s, None)
        if size is not None:
            self._size -= size
            self._gone_refused.add(second_s)

    def _give_up(self, second_s: int) -> None:
        """Drop a second, which becomes a hole where it was not delivered."""
        if second_s in self._pending:
            self._counts["holes"] = self.holes + 1
        self._drop(second_s)

    def _make_room(self, size: int) -> None:
        """Drop rows until `size` fits, the least needed and then the oldest first."""
        while self._size + size > self._max_bytes and (rows := self._refused or self._delivered or self._pending):
            (self._drop_refused if rows is self._refused else self._give_up)(next(iter(rows)))

    def _write(self, change: Callable[[], object] = lambda: None) -> bool:
        """Let the file catch up with memory, and make a change with it; False where the disk takes nothing."""

        def catch_up() -> None:
            file = self._connection
            file.executemany("DELETE FROM refused WHERE second_s = ?", [(each,) for each in self._gone_refused])
            # Before the rows, since one may have been put again.
            file.executemany("DELETE FROM batches WHERE second_s = ?", [(each,) for each in self._gone])
            file.executemany("INSERT INTO batches (second_s, body) VALUES (?, ?)", self._unsaved.items())
            stamps = [(delivered_us, second_s) for second_s, delivered_us in self._unstamped.items()]
            file.executemany("UPDATE batches SET delivered_us = ? WHERE second_s = ?", stamps)
            file.executemany("INSERT OR REPLACE INTO counts (name, value) VALUES (?, ?)", self._counts.items())
            change()

        if not self._connection.write(catch_up):
            return False
        for behind in (self._unsaved, self._unstamped, self._gone, self._gone_refused):
            behind.clear()
        return True
