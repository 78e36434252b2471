"""The seconds in the queue's file, a row each: what memory knows of them, and what the file does not know yet."""

import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from collector.delivery.quarantine import unpack
from collector.delivery.queue_file import QueueFile
from victoriametrics.limits import Unusable
from victoriametrics.push import pack

_GZIP_MARK = b"\x1f\x8b"


class Batch(NamedTuple):
    """The encoded samples of one second: as text, and the same as gzip."""

    second_s: int
    body: bytes
    packed: bytes

    @property
    def lines(self) -> list[bytes]:
        """Without their newlines; a sample each."""
        return [line for line in self.body.split(b"\n") if line]

    def without(self, unusable: Sequence[Unusable]) -> "Batch | None":
        """The second without these lines; None where nothing is left."""
        refused = {each.line for each in unusable}
        body = b"".join(line + b"\n" for line in self.lines if line not in refused)
        return Batch(self.second_s, body, pack(body)) if body else None


class BatchRows:
    """Rows by second; while the disk takes nothing, what is new of them is in memory.

    For the queue, which holds its lock meanwhile.
    """

    def __init__(self, file: QueueFile) -> None:
        """Reads all but the bodies. Raises QueueDamagedError."""
        self._file = file
        rows = file.read("SELECT second_s, length(body), delivered_us FROM batches ORDER BY second_s")
        self._sizes: dict[int, int] = {second_s: size for second_s, size, _ in rows}
        self.size_bytes = sum(self._sizes.values())
        # As they were found, in the order of time: when each was delivered, None where it waits.
        self.found: dict[int, int | None] = {second_s: delivered_us for second_s, _, delivered_us in rows}
        # What the file does not know yet: rows to write, when rows were delivered (None: they wait again), and rows
        # that are no more.
        self._unsaved: dict[int, bytes] = {}
        self._unstamped: dict[int, int | None] = {}
        self._gone: set[int] = set()
        # What was put last is what is sent next, mostly.
        self._newest: Batch | None = None

    def __contains__(self, second_s: int) -> bool:
        return second_s in self._sizes

    @property
    def unsaved(self) -> int:
        """How many seconds are in memory only."""
        return len(self._unsaved)

    @property
    def oldest_unsaved_s(self) -> int:
        """The one of them that was kept first."""
        return next(iter(self._unsaved))

    @property
    def behind(self) -> int:
        """How many changes the file does not know yet."""
        return len(self._unsaved) + len(self._unstamped) + len(self._gone)

    def batch(self, second_s: int) -> Batch:
        """The second, whole: what is damaged raises QueueDamagedError here, before anything of it is sent."""
        if self._newest is not None and self._newest.second_s == second_s:
            return self._newest
        packed = self._unsaved.get(second_s)
        try:
            if packed is None:
                ((packed,),) = self._file.read("SELECT body FROM batches WHERE second_s = ?", (second_s,))
            body = unpack(packed)
        except (ValueError, TypeError, zlib.error) as error:
            raise self._file.damaged(error) from error
        # One that waited when gputab was brought up to date is in the frame of the former format.
        return Batch(second_s, body, packed if packed.startswith(_GZIP_MARK) else pack(body))

    def keep(self, batch: Batch) -> None:
        """Know a second, in place of what was known of it."""
        self.forget(batch.second_s)
        self._newest = batch
        self._sizes[batch.second_s] = len(batch.packed)
        self.size_bytes += len(batch.packed)
        self._unsaved[batch.second_s] = batch.packed

    def stamp(self, delivered_us: Mapping[int, int | None]) -> None:
        """Say when seconds were delivered, or None where they wait again."""
        self._unstamped |= delivered_us

    def forget(self, second_s: int) -> None:
        """Know a second no more."""
        size = self._sizes.pop(second_s, None)
        if size is None:
            return
        self.size_bytes -= size
        self._unstamped.pop(second_s, None)
        if self._newest is not None and self._newest.second_s == second_s:
            self._newest = None
        if self._unsaved.pop(second_s, None) is None:
            self._gone.add(second_s)

    def write(self) -> None:
        """Bring the file up to what is known, in the queue's own transaction."""
        # Before the rows, since one may have been put again.
        self._file.executemany("DELETE FROM batches WHERE second_s = ?", [(each,) for each in self._gone])
        self._file.executemany("INSERT INTO batches (second_s, body) VALUES (?, ?)", self._unsaved.items())
        stamps = [(delivered_us, second_s) for second_s, delivered_us in self._unstamped.items()]
        self._file.executemany("UPDATE batches SET delivered_us = ? WHERE second_s = ?", stamps)

    def written(self) -> None:
        """The disk has taken that."""
        for behind in (self._unsaved, self._unstamped, self._gone):
            behind.clear()
