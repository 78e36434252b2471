"""What was acknowledged is on the disk: it is there after a power cut, not only after the end of the process."""

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from collector.delivery.queue import BatchQueue
from tests.collector.seconds import SECOND_S, SIZE, bodies, waiting
from tests.fakes.synced_folder import SyncedFolder

# Answers each line once what it asks for is done. Bodies of this size reach SQLite's first checkpoint after a few.
PUTS = """
import random, sys
from pathlib import Path
from collector.delivery.queue import BatchQueue
queue = BatchQueue(Path(sys.argv[1]), 2**26)
for line in sys.stdin:
    what, second = line.split()
    if what == "put":
        queue.put(int(second), random.Random(int(second)).randbytes(500_000))
    elif what == "mark":
        queue.mark(int(second))
    elif what == "report":
        queue.reports.put(second.encode(), is_repeat=False)
    print(line, end="", flush=True)
"""
COMMITS = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA journal_mode = WAL")
connection.execute("CREATE TABLE numbers (number)")
connection.execute(f"PRAGMA synchronous = {sys.argv[2]}")
connection.execute("INSERT INTO numbers VALUES (7)")
os._exit(0)
"""


class Putting:
    """A program that puts into a queue what it is told, as far as its disk has it."""

    def __init__(self, process: "subprocess.Popen[str]", synced: SyncedFolder, folder: Path) -> None:
        self._process = process
        self._synced = synced
        self._folder = folder
        self._cuts = 0

    def do(self, what: str, value: int) -> None:
        """Returns once the program says that it is done."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(what, value, file=self._process.stdin, flush=True)
        assert self._process.stdout.readline() == f"{what} {value}\n"

    @contextmanager
    def after_power_cut(self) -> Iterator[BatchQueue]:
        """The queue as the next process finds it if the power fails now."""
        self._cuts += 1
        left = self._folder / f"after-cut-{self._cuts}"
        shutil.copytree(self._synced.left, left)
        with closing(BatchQueue(left / "queue.db", SIZE)) as queue:
            yield queue
        shutil.rmtree(left)


@pytest.fixture
def synced(tmp_path: Path) -> SyncedFolder:
    (tmp_path / "data").mkdir()
    return SyncedFolder(tmp_path / "data", tmp_path)


@pytest.fixture
def putting(synced: SyncedFolder, tmp_path: Path) -> Iterator[Putting]:
    command = [sys.executable, "-c", PUTS, str(synced.folder / "queue.db")]
    env = {**os.environ, **synced.env()}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as process:
        yield Putting(process, synced, tmp_path)
        process.kill()


def test_each_second_that_was_put_is_there_after_a_power_cut(putting: Putting, synced: SyncedFolder) -> None:
    """O4: power cut after the ack; the file's journal is begun anew on the way, and what is marked is marked."""
    put = dict[int, bytes]()
    for second_s in range(SECOND_S, SECOND_S + 12):
        putting.do("put", second_s)
        put[second_s] = random.Random(second_s).randbytes(500_000)
        with putting.after_power_cut() as queue:
            assert waiting(queue) == list(put)
            assert bodies(queue) == put
            assert (queue.sampled_until_s, queue.holes) == (second_s + 1, 0)
        putting.do("mark", second_s)
        with putting.after_power_cut() as queue:
            assert queue.marked_until_s == second_s
    # Else nothing here would tell of what is written in place of a journal that is done with.
    assert (synced.left / "queue.db").stat().st_size > 8 * 500_000


def test_a_report_that_was_put_is_there_after_a_power_cut(putting: Putting) -> None:
    putting.do("report", 7)

    with putting.after_power_cut() as queue:
        report = queue.reports.first()
        assert report is not None
        assert report.body == b"7"


@pytest.mark.parametrize(("synchronous", "is_there"), [("OFF", False), ("NORMAL", False), ("FULL", True)])
def test_what_was_not_synced_is_not_there(synced: SyncedFolder, synchronous: str, *, is_there: bool) -> None:
    """That the two above can fail: what SQLite has committed without a sync is lost."""
    command = [sys.executable, "-c", COMMITS, str(synced.folder / "file.db"), synchronous]
    subprocess.run(command, env={**os.environ, **synced.env()}, check=True)

    with closing(sqlite3.connect(synced.folder / "file.db")) as written:
        assert written.execute("SELECT * FROM numbers").fetchall() == [(7,)]
    with closing(sqlite3.connect(synced.left / "file.db")) as left:
        assert left.execute("SELECT * FROM numbers").fetchall() == [(7,)] * is_there
