"""Disks that take nothing, as the operating system lets a program meet them, and which files it has open."""

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

_OPEN_FILES = Path("/proc/self/fd")


def descriptors_of(path: Path) -> list[int]:
    """Those by which this process has a file open."""
    found = []
    for entry in _OPEN_FILES.iterdir():
        # The one by which they are listed is gone by now.
        with suppress(OSError):
            if entry.readlink() == path.resolve():
                found.append(int(entry.name))
    return found


class QueueDisk:
    """The disk below a queue that this process has open: while it takes nothing, every write to its journal fails.

    What is there can be read. The journal's descriptor is exchanged for one that may only read, and later back, which
    is right for root too, and touches no other file of the process.
    """

    def __init__(self, path: Path) -> None:
        """`path` is the queue's; its journal is there from its opening on."""
        self._path = path
        self._journal = path.with_name(f"{path.name}-wal")
        self._aside: dict[int, int] = {}

    def fail(self) -> None:
        """Take nothing from now on."""
        if self._aside:
            return
        for descriptor in descriptors_of(self._journal):
            self._aside[descriptor] = os.dup(descriptor)
            reads_only = os.open(self._journal, os.O_RDONLY)
            os.dup2(reads_only, descriptor, inheritable=False)
            os.close(reads_only)
        assert self._aside, "a queue that nobody has open has no disk to fail it"

    def mend(self) -> None:
        """Take everything again."""
        for descriptor, aside in self._aside.items():
            os.dup2(aside, descriptor, inheritable=False)
            os.close(aside)
        self._aside.clear()

    def rows(self) -> dict[int, int]:
        """Second -> bytes, as another process would find them if this one were killed now."""
        with tempfile.TemporaryDirectory() as folder:
            for file in (self._path, self._journal):
                shutil.copy(file, folder)
            with closing(sqlite3.connect(Path(folder) / self._path.name)) as connection:
                return dict(connection.execute("SELECT second_s, length(body) FROM batches ORDER BY second_s"))
