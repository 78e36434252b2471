"""A small disk that can really be full: tests run on it in a mount namespace of their own, with which it ends."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.namespaces import apart

_REPOSITORY = Path(__file__).parents[3]
_MOUNT = 'mount -t tmpfs -o size="$1" tmpfs "$2" && shift 2 && exec "$@"'
_CALL = "import importlib, sys; getattr(importlib.import_module(sys.argv[1]), sys.argv[2])(*sys.argv[3:])"


def run_on_small_disk(scenario: Callable[..., None], size_bytes: int, disk: Path, *arguments: str) -> None:
    """Call `scenario(str(disk), *arguments)` in a process for which that folder is an empty disk of that size.

    Its failure is the test's; skips where a user may not mount, nor have a namespace in which to. The scenario is a
    function of a module of tests. No other process sees the disk.
    """
    disk.mkdir()
    within = apart("mount", "sh", "-c", _MOUNT, "sh", str(size_bytes), str(disk))
    module = ".".join(Path(scenario.__code__.co_filename).relative_to(_REPOSITORY).with_suffix("").parts)
    call = [sys.executable, "-c", _CALL, module, scenario.__name__, str(disk), *arguments]
    done = subprocess.run([*within, *call], cwd=_REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class Rest:
    """What else is on a disk: a file that takes all of its room, or gives some of it back."""

    def __init__(self, disk: Path) -> None:
        self._path = disk / "rest"
        self._page = os.statvfs(disk).f_bsize

    def fill(self, left_pages: int = 0) -> None:
        """Until the disk takes nothing more, but for so many pages."""
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            while True:
                os.write(file, bytes(self._page))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            os.ftruncate(file, os.fstat(file).st_size - left_pages * self._page)
        finally:
            os.close(file)

    def free(self) -> None:
        """Give all of it back."""
        self._path.unlink()
