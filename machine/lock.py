"""One process at a time in a folder."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Progress = Callable[[str], None]
"""Takes one line a step, for a person who waits."""


@contextmanager
def exclusive(folder: Path, progress: Progress) -> Iterator[None]:
    """Hold `folder` (made where it is missing) against other processes that ask for it the same way.

    Blocks until it is free. The lock is on the folder itself, so nothing is left behind, and it ends with the
    process however that dies. It is not re-entrant: a second call in the same process waits for ever.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"waiting for another process that works in '{folder}'")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
