"""A file that is read more than once, and how it is known to be the same each time."""

import io
import stat
from pathlib import Path
from typing import NamedTuple, TextIO

from domain.errors import InputError

_BUFFER_BYTES = 2**17


class UnchangedFile:
    """A regular file as it was when this was made; what is added to it later is not read."""

    def __init__(self, path: Path) -> None:
        """Raises InputError for what cannot be read twice, such as a pipe, without opening it; OSError where the path
        leads to nothing."""
        self._path = path
        self._noted = _State.of(path)
        if not stat.S_ISREG(self._noted.mode):
            raise InputError(
                f"cannot read the samples {str(path)!r} twice, as an import must: they are in no regular file; "
                "write them to a file first"
            )

    def open(self) -> TextIO:
        """Its text from the beginning, as UTF-8 with or without a mark, line ends kept."""
        file = self._path.open("rb", buffering=0)
        part = io.BufferedReader(_Beginning(file, self._noted.size_bytes), _BUFFER_BYTES)
        return io.TextIOWrapper(part, encoding="utf-8-sig", newline="")

    def is_changed(self) -> bool:
        """Whether the path now leads to another file, or to this one after it was written to."""
        try:
            return _State.of(self._path) != self._noted
        except OSError:
            return True


class _State(NamedTuple):
    device: int
    inode: int
    mode: int
    size_bytes: int
    changed_ns: int

    @classmethod
    def of(cls, path: Path) -> "_State":
        found = path.stat()
        return cls(found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns)


class _Beginning(io.RawIOBase):
    """The first bytes of a file, which is closed with it."""

    def __init__(self, file: io.FileIO, size_bytes: int) -> None:
        self._file = file
        self._left_bytes = size_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override] # any writable buffer will do
        count = self._file.readinto(memoryview(buffer)[: self._left_bytes])
        self._left_bytes -= count
        return count

    def close(self) -> None:
        self._file.close()
        super().close()
