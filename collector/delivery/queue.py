"""The queue on disk between sampling and delivery: what is in it survives whatever is killed.

One SQLite file per node, one row per sampled second. A row is committed to disk before the second counts as
sampled, and leaves only some time after the store has taken it: VictoriaMetrics says yes before its own disk
has the samples, so what it took in the last minute is sent again where it was started since.
"""

import secrets
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice, takewhile
from pathlib import Path

from collector.delivery.batch_rows import Batch, BatchRows
from collector.delivery.holes import HoleReason, Holes
from collector.delivery.quarantine import Quarantine, Row
from collector.delivery.queue_file import QueueDamagedError, QueueFile
from collector.delivery.report_queue import ReportQueue
from domain.period import HOUR_S
from victoriametrics.limits import Unusable
from victoriametrics.push import pack

# Twelve times the 5 s after which VictoriaMetrics writes what it took to its disk.
KEEP_DELIVERED_US = 60 * 1_000_000
# The deadline after which a window settles without what is missing.
MAX_AGE_S = 72 * HOUR_S
# What is held in memory while the disk takes nothing.
_UNSAVED_BATCHES = 60
# How many seconds too old go with one that is put: a clock that is ahead for a moment does not cost all that wait.
_AGED_AT_ONCE = 60
# A few deliveries reach the disk with the next second that is put: forgotten, they are only sent again.
_UNWRITTEN_CHANGES = 10


class BatchQueue:
    """Seconds waiting for the store, and reports waiting for the allocator; safe to use from several threads.

    At most `max_bytes` of seconds are kept. Beyond that those that were refused go first, then those that were
    delivered, then the oldest that wait, which become holes; so does what has waited for longer than `max_age_s`.
    While the disk takes nothing, the file stays behind what is in memory, which holds the newest 60 seconds, and
    catches up with the first change that it takes again. Only one process can have a queue open.

    Where the file holds something else than was written, every method may raise QueueDamagedError.
    """

    def __init__(self, path: Path, max_bytes: int, max_age_s: int = MAX_AGE_S) -> None:
        """Opens or makes the file. QueueInUseError while another collector has it; other errors as of `QueueFile`."""
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._lock = threading.RLock()
        self._file = QueueFile(path)
        try:
            self._counts: dict[str, int] = dict(self._file.read("SELECT name, value FROM counts"))
            self._counts.setdefault("identity", secrets.randbits(31))
            self._holes = Holes(self._counts, str(path))
            self._rows = BatchRows(self._file)
            self._quarantine = Quarantine(self._file)
            self.reports = ReportQueue(self._file)
            """Inventory reports that wait for the allocator."""
        except (TypeError, ValueError) as error:
            self._file.close()
            raise self._file.damaged(error) from error
        except QueueDamagedError:
            self._file.close()
            raise
        # The seconds that wait, in the order of time, and those that were delivered, with when.
        found = self._rows.found
        self._pending = {each: None for each, delivered_us in found.items() if delivered_us is None}
        self._delivered = {each: delivered_us for each, delivered_us in found.items() if delivered_us is not None}

    @property
    def identity(self) -> str:
        """What no other queue of the node is called; it stays the same from the first second that is kept."""
        return f"{self._counts['identity']:08x}"

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
        """Seconds without samples since the queue was made, for whatever reason."""
        return sum(self.holes_by_reason.values())

    @property
    def holes_by_reason(self) -> dict[HoleReason, int]:
        """Why they have none; every reason is in it."""
        return self._holes.by_reason

    @property
    def refused(self) -> int:
        """Seconds since the queue was made that the store called unusable, or would not have kept."""
        return self._counts.get("refused", 0)

    @property
    def quarantined(self) -> int:
        """Samples since the queue was made that were set aside, alone or with all of their second."""
        return self._counts.get("quarantined", 0)

    @property
    def size_bytes(self) -> int:
        """What the seconds take that wait, are kept to be sent again, or were set aside."""
        return self._rows.size_bytes + self._quarantine.size_bytes

    @property
    def oldest_s(self) -> int | None:
        """The oldest second that waits; None while none does."""
        with self._lock:
            return next(iter(self._pending), None)

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

    def put(self, second_s: int, body: bytes, unusable: Sequence[Unusable] = ()) -> None:
        """Keep a second, which is `sampled_until_s` or later; those between are to be skipped before.

        One that was kept before a clock was set back is replaced. What of it no store could take is `unusable`, not in
        `body`, and set aside.
        """
        batch = Batch(second_s, body, pack(body))
        with self._lock:
            self._drop(second_s)
            self._make_room(len(batch.packed))
            self._drop_aged(second_s)
            is_last = second_s > next(reversed(self._pending), 0)
            self._pending[second_s] = None
            if not is_last:
                self._pending = dict.fromkeys(sorted(self._pending))
            self._rows.keep(batch)
            self._counts["sampled_until_s"] = second_s + 1
            is_written = self._set_aside(second_s, unusable) if unusable else self._write()
            if not is_written and self._rows.unsaved > _UNSAVED_BATCHES:
                self._give_up(self._rows.oldest_unsaved_s, HoleReason.DISK)
            self._holes.say(second_s)

    def skip_to(self, second_s: int, holes: int, reason: HoleReason) -> None:
        """Let `second_s` be next, after `holes`, though later ones were put by a wrong clock."""
        with self._lock:
            self._counts["sampled_until_s"] = second_s
            self._holes.add(holes, reason)
            self._write()

    def newest(self, seconds: int) -> list[Batch]:
        """Those of the last `seconds` sampled seconds that wait, in the order of time."""
        with self._lock:
            until_s = self.sampled_until_s or 0
            # What a wrong clock has stamped lies behind them.
            since = takewhile(lambda second_s: second_s >= until_s - seconds, reversed(self._pending))
            return self._batches(sorted(second_s for second_s in since if second_s < until_s))

    def pending(self, max_bytes: int) -> list[Batch]:
        """The oldest waiting seconds, at least one and then as many as `max_bytes` of text hold."""
        batches: list[Batch] = []
        size = 0
        with self._lock:
            waiting = list(self._pending)
        # One by one, so that the next second does not wait for all of them.
        for batch in (each for second_s in waiting for each in self._batches([second_s])):
            size += len(batch.body)
            if batches and size > max_bytes:
                break
            batches.append(batch)
        return batches

    def delivered(self, seconds: Iterable[int], at_us: int) -> None:
        """The store has taken these seconds at that microsecond. They are kept for `KEEP_DELIVERED_US` more.

        By a clock that nobody sets, since one that was set would let go of what was taken a moment ago. It may begin
        anew with each process, which sends again first what it finds. A few are written down with whatever is written
        next.
        """
        with self._lock:
            taken = dict.fromkeys((second_s for second_s in seconds if second_s in self._pending), at_us)
            for second_s in taken:
                del self._pending[second_s]
            self._delivered |= taken
            self._rows.stamp(taken)
            kept_from_us = at_us - KEEP_DELIVERED_US
            for second_s in [each for each, delivered_us in self._delivered.items() if delivered_us < kept_from_us]:
                self._drop(second_s)
            if self._rows.behind > _UNWRITTEN_CHANGES:
                self._write()

    def send_again(self) -> int:
        """Put what was delivered of late back among what waits; how many seconds that is."""
        with self._lock:
            again = len(self._delivered)
            if again:
                self._rows.stamp(dict.fromkeys(self._delivered))
                self._pending = dict.fromkeys(sorted([*self._pending, *self._delivered]))
                self._delivered.clear()
                self._write()
            return again

    def refuse(self, batch: Batch, unusable: Sequence[Unusable]) -> Batch | None:
        """Set lines of a second aside that the store calls unusable, or would not keep: all of them, or some.

        What is left of the second, if anything; it waits on. Both are counted. The lines of the newest 3,600 seconds
        are kept; those that the disk does not take are only counted.
        """
        left = batch.without(unusable)
        with self._lock:
            # One that is known no more is a hole already.
            if batch.second_s not in self._pending:
                return None
            if left is None:
                self._counts["refused"] = self.refused + 1
                self._drop(batch.second_s)
            else:
                self._rows.keep(left)
            self._set_aside(batch.second_s, unusable)
        return left

    def mark(self, until_s: int) -> None:
        """A mark is about to vouch for every second before `until_s`."""
        with self._lock:
            self._counts["marked_until_s"] = until_s
            self._write()

    def close(self) -> None:
        """Let go of the file; what waits stays in it."""
        with self._lock:
            self._holes.say()
            # A damaged file is told of where it is used.
            with suppress(QueueDamagedError):
                if self._rows.behind or self._quarantine.is_behind:
                    self._write()
            self._file.close()

    def _batches(self, seconds: Iterable[int]) -> list[Batch]:
        """Those of these seconds that are known."""
        with self._lock:
            return [self._rows.batch(second_s) for second_s in seconds if second_s in self._rows]

    def _drop(self, second_s: int) -> None:
        """Know a second no more."""
        self._rows.forget(second_s)
        self._pending.pop(second_s, None)
        self._delivered.pop(second_s, None)

    def _set_aside(self, second_s: int, unusable: Sequence[Unusable]) -> bool:
        """Count what is unusable of a second, and keep it where the disk takes it, with what was set aside before."""
        self._counts["quarantined"] = self.quarantined + len(unusable)
        return self._write(self._quarantine.row(second_s, unusable))

    def _give_up(self, second_s: int, reason: HoleReason) -> None:
        """Drop a second, which becomes a hole where it was not delivered."""
        if second_s in self._pending:
            self._holes.give_up(reason)
        self._drop(second_s)

    def _drop_aged(self, second_s: int) -> None:
        """Give up what has waited for too long when `second_s` is put."""
        aged = takewhile(lambda each_s: each_s < second_s - self._max_age_s, self._pending)
        for each_s in list(islice(aged, _AGED_AT_ONCE)):
            self._give_up(each_s, HoleReason.TOO_OLD)

    def _make_room(self, size: int) -> None:
        """Drop rows until `size` fits, the least needed and then the oldest first."""
        while self.size_bytes + size > self._max_bytes:
            if self._quarantine:
                self._quarantine.drop_oldest()
            elif rows := self._delivered or self._pending:
                self._give_up(next(iter(rows)), HoleReason.QUEUE_FULL)
            else:
                return

    def _write(self, refused: Row | None = None) -> bool:
        """Let the file catch up with memory, and set something aside in it; False where the disk takes nothing."""

        def catch_up() -> None:
            self._quarantine.write(refused)
            self._rows.write()
            self._file.executemany("INSERT OR REPLACE INTO counts (name, value) VALUES (?, ?)", self._counts.items())

        if not self._file.write(catch_up):
            return False
        self._rows.written()
        self._quarantine.written(refused)
        return True
