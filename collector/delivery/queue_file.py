"""The queue's file: SQLite with one owner, in which what is committed is on the disk."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from threading import RLock
from typing import Any

import structlog

from domain.errors import UnavailableError

# 1 had bodies in zlib's own frame, which are read as well, and at most one reason for each second set aside. 1 and 2
# counted holes without a reason. Their number goes up as the file is opened: an older gputab would call the newer
# bodies damage, and would not find the holes.
_FORMAT = 3
_SCHEMA = """
CREATE TABLE IF NOT EXISTS batches (second_s INTEGER PRIMARY KEY, body BLOB NOT NULL, delivered_us INTEGER);
CREATE TABLE IF NOT EXISTS refused (second_s INTEGER PRIMARY KEY, body BLOB NOT NULL, reason TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS reports (
    report INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL, is_repeat INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS counts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
UPDATE counts SET name = 'holes_unrecorded' WHERE name = 'holes';
"""
# What SQLite says of a file that holds something else than was written.
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

# What it says of a disk that is full, and of one whose quota is used up.
_NO_ROOM = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})

log = structlog.get_logger()


class QueueDamagedError(UnavailableError):
    """The file cannot be read any more: a collector can go on only without it, and what waited in it is lost."""


class QueueInUseError(UnavailableError):
    """Another process has the file open: the collector of its node is at work."""


class QueueFile(sqlite3.Connection):
    """The file, open for this process alone until it ends, however it ends; `read` and `write` from any thread."""

    def __init__(self, path: Path) -> None:
        """Opens or makes the file. Raises QueueInUseError, QueueDamagedError, UnavailableError where else it cannot."""
        self._path = path
        self._lock = RLock()
        self._is_failing = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            super().__init__(path, timeout=1, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise UnavailableError(f"cannot open the queue {str(path)!r}: {error}; check 'data_dir'") from error
        try:
            self.execute("PRAGMA locking_mode = EXCLUSIVE")
            self.execute("PRAGMA journal_mode = WAL")
            # In KiB: a second is written once and read once or twice, so more would only be memory.
            self.execute("PRAGMA cache_size = -256")
            # Each commit is on the disk before it returns, so a power cut costs at most the second in progress.
            self.execute("PRAGMA synchronous = FULL")
            self._make(self._found_format())
        except sqlite3.Error as error:
            self.close()
            if _is_damage(error):
                raise self.damaged(error) from error
            if _code(error) == sqlite3.SQLITE_BUSY:
                raise QueueInUseError(
                    f"cannot use the queue {str(path)!r}: another process has it; stop the other collector of this node"
                ) from error
            raise UnavailableError(
                f"cannot use the queue {str(path)!r}: {error}; check 'data_dir', or free the disk"
            ) from error

    def read(self, question: str, values: tuple[object, ...] = ()) -> list[Any]:
        """Every row of the answer. Raises QueueDamagedError."""
        with self._lock:
            try:
                return self.execute(question, values).fetchall()
            except sqlite3.Error as error:
                raise self.damaged(error) from error

    def write(self, change: Callable[[], object]) -> bool:
        """Make a change in one transaction, which is on the disk then; False, logged once, where the disk takes none.

        Raises QueueDamagedError, since waiting does not mend a file.
        """
        with self._lock:
            try:
                self._commit(change)
            except sqlite3.Error as error:
                if _is_damage(error):
                    raise self.damaged(error) from error
                if not self._is_failing:
                    log.error("queue_not_written", path=str(self._path), error=str(error), remedy="free the disk")
                self._is_failing = True
                return False
            if self._is_failing:
                log.info("queue_written_again", path=str(self._path))
            self._is_failing = False
            return True

    def damaged(self, error: Exception) -> QueueDamagedError:
        """What to raise where `error` came of what is in the file."""
        return QueueDamagedError(
            f"cannot read the queue {str(self._path)!r}: {error}; move the file away (what waited in it is lost)"
        )

    def _commit(self, change: Callable[[], object]) -> None:
        self.execute("BEGIN IMMEDIATE")
        try:
            change()
            self.execute("COMMIT")
        except BaseException:
            if self.in_transaction:
                self.execute("ROLLBACK")
            raise

    def _make(self, found: int) -> None:
        """Let there be what this gputab knows, whole or not at all: a file that has what is newer says so."""
        try:
            self.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {_FORMAT}; COMMIT;")
        except sqlite3.Error as error:
            if found != _FORMAT or _code(error) not in _NO_ROOM:
                raise
            # All is there, and a full disk costs no more now than it does later.
            if self.in_transaction:
                self.execute("ROLLBACK")

    def _found_format(self) -> int:
        """Raises UnavailableError for one of a newer gputab."""
        found: int = self.execute("PRAGMA user_version").fetchone()[0]
        if found not in range(_FORMAT + 1):
            self.close()
            raise UnavailableError(
                f"cannot use the queue {str(self._path)!r}: its format is {found}, this gputab knows up to {_FORMAT}; "
                "deliver it with the version that made it, or move it away"
            )
        return found


def _is_damage(error: sqlite3.Error) -> bool:
    return _code(error) in _DAMAGE


def _code(error: sqlite3.Error) -> int:
    """What is wrong, in the low byte; the rest says where. 0 of an error of the module itself, which has none."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF
