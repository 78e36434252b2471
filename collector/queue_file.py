"""The queue's file: SQLite with one owner, in which what is committed is on the disk."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from domain.errors import UnavailableError

_FORMAT = 1
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS batches (second_s INTEGER PRIMARY KEY, body BLOB NOT NULL, delivered_us INTEGER);
CREATE TABLE IF NOT EXISTS refused (second_s INTEGER PRIMARY KEY, body BLOB NOT NULL, reason TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS reports (
    report INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL, is_repeat INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS counts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
PRAGMA user_version = {_FORMAT};
"""


def open_queue_file(path: Path) -> sqlite3.Connection:
    """Open or make the file, for this process alone until it ends, however it ends.

    The connection may be used from several threads, one at a time. Raises UnavailableError where the file cannot be
    used, as while another collector has it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=1, isolation_level=None, check_same_thread=False)
    except (OSError, sqlite3.Error) as error:
        raise UnavailableError(f"cannot open the queue {str(path)!r}: {error}; check 'data_dir'") from error
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        # Each commit is on the disk before it returns, so a power cut costs at most the second in progress.
        connection.execute("PRAGMA synchronous = FULL")
        _check_format(connection, path)
        connection.executescript(_SCHEMA)
    except sqlite3.Error as error:
        connection.close()
        raise UnavailableError(
            f"cannot use the queue {str(path)!r}: {error}; stop the other collector of this node, or free the disk"
        ) from error
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Everything inside is on the disk when this ends, or nothing is."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _check_format(connection: sqlite3.Connection, path: Path) -> None:
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    if found not in (0, _FORMAT):
        connection.close()
        raise UnavailableError(
            f"cannot use the queue {str(path)!r}: its format is {found}, this gputab knows {_FORMAT}; "
            "deliver it with the version that made it, or move it away"
        )
