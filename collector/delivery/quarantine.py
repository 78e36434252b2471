"""What no store could take: lines set aside in the queue's file, by second, with why, for a person to look into."""

import zlib
from collections.abc import Sequence
from typing import NamedTuple

from collector.delivery.queue_file import QueueFile
from victoriametrics.limits import Unusable
from victoriametrics.push import pack

# What nobody takes must not fill the disk: an hour of seconds to look into.
_KEPT_SECONDS = 3_600
# Tells zlib to read its own frame, as queues had it once, and that of gzip.
_EITHER_FRAME = 47


def unpack(packed: bytes) -> bytes:
    """What `pack` made, or a queue of the former format. Raises zlib.error where it is not what was written."""
    return zlib.decompress(packed, _EITHER_FRAME)


class Row(NamedTuple):
    """What was set aside of one second: its lines as gzip, and every reason."""

    second_s: int
    packed: bytes
    reasons: str


class Quarantine:
    """Lines by second, of the newest 3,600 seconds that have any; its sizes are in memory, its lines in the file.

    For the queue, which holds its lock meanwhile.
    """

    def __init__(self, file: QueueFile) -> None:
        """Raises QueueDamagedError."""
        self._file = file
        self._sizes: dict[int, int] = dict(file.read("SELECT second_s, length(body) FROM refused ORDER BY second_s"))
        # Rows that the file still has.
        self._gone: set[int] = set()
        self.size_bytes = sum(self._sizes.values())

    def __len__(self) -> int:
        """Of how many seconds there is something."""
        return len(self._sizes)

    @property
    def is_behind(self) -> bool:
        """Whether the file has something that is no more."""
        return bool(self._gone)

    def drop_oldest(self) -> None:
        """Know what came first no more."""
        self._drop(next(iter(self._sizes)))

    def row(self, second_s: int, unusable: Sequence[Unusable]) -> Row:
        """What is to be written for the second: what was set aside of it before, if anything, and this."""
        lines, reasons = [each.line for each in unusable], dict.fromkeys(each.reason for each in unusable)
        if second_s in self._sizes:
            question = "SELECT body, reason FROM refused WHERE second_s = ?"
            ((packed, reason),) = self._file.read(question, (second_s,))
            try:
                lines = [*unpack(packed).splitlines(), *lines]
            except zlib.error as error:
                raise self._file.damaged(error) from error
            reasons = {reason: None, **reasons}
        return Row(second_s, pack(b"\n".join([*lines, b""])), "; ".join(reasons))

    def write(self, row: Row | None) -> None:
        """Bring the file up to what is known, in the queue's own transaction, and add a row."""
        self._file.executemany("DELETE FROM refused WHERE second_s = ?", [(each,) for each in self._gone])
        if row is not None:
            self._file.execute("INSERT OR REPLACE INTO refused VALUES (?, ?, ?)", row)

    def written(self, row: Row | None) -> None:
        """The disk has taken that."""
        self._gone.clear()
        if row is not None:
            self.size_bytes += len(row.packed) - self._sizes.pop(row.second_s, 0)
            self._sizes[row.second_s] = len(row.packed)
            while len(self._sizes) > _KEPT_SECONDS:
                self.drop_oldest()

    def _drop(self, second_s: int) -> None:
        self.size_bytes -= self._sizes.pop(second_s)
        self._gone.add(second_s)
