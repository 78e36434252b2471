"""Sample stores of a test's own: one that comes and goes, and one that is started the wrong way."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from machine.process import Child, free_port
from tests.collector.patience import now_s, wait_until
from tests.victoriametrics_server import start


class OwnStore:
    """A server that can be stopped, killed and started again over the same data."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self._binary = binary
        self._folder = folder
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.child = self.start()

    def start(self, *flags: str) -> Child:
        """Returns in another second than it was started in, which it tells in whole seconds."""
        self.child = self.start_now(*flags)
        started_s = now_s()
        wait_until(lambda: now_s() > started_s)
        return self.child

    def start_now(self, *flags: str) -> Child:
        """Returns as soon as it answers."""
        self.child = start(binary=self._binary, port=self._port, folder=self._folder / "store", flags=flags)
        return self.child

    def kill(self) -> None:
        """`kill -9`, but not while the first part of a month is written: 1.112 could not open that again."""
        months = self._folder / "store" / "data" / "data" / "small"
        wait_until(lambda: all(_is_whole(month) for month in months.glob("[0-9]*")))
        os.kill(self.child.pid, signal.SIGKILL)
        self.child.stop()


def _is_whole(month: Path) -> bool:
    """Whether the list of its parts is there, or it has none."""
    names = {each.name for each in month.iterdir()}
    return not names or "parts.json" in names


@contextmanager
def own_store(binary: Path, folder: Path) -> Iterator[OwnStore]:
    """A server that runs, and is stopped at the end if it does then."""
    store = OwnStore(binary, folder)
    try:
        yield store
    finally:
        store.child.stop()


@contextmanager
def merging_store(binary: Path, folder: Path, interval: str) -> Iterator[str]:
    """A server that keeps one sample in each interval, such as `10s`; its URL."""
    port = free_port()
    flags = [f"-dedup.minScrapeInterval={interval}"]
    with start(binary=binary, port=port, folder=folder / "merging", flags=flags):
        yield f"http://127.0.0.1:{port}"


def unchecked() -> None:
    """The check of a store that is known to be good, or is to fail later."""
