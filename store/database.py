"""The engine and its transactions, the same for SQLite and PostgreSQL."""

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, event, text
from sqlalchemy import create_engine as sqlalchemy_engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DisconnectionError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from domain.errors import InputError, UnavailableError
from machine.mounts import file_system
from store.refusals import LOCK_TIMEOUT_MS, plain_errors

_READ_ONLY = "gputab_read_only"
_FILE = "file"
# A service answers on the 40 threads that AnyIO has, each with one transaction at a time, and its publisher is one
# more. PostgreSQL's 100 connections, as it comes, then hold for a service, a meter and people at terminals.
_CONNECTIONS = 48
_POOL: dict[str, Any] = {"pool_size": _CONNECTIONS, "max_overflow": 0}
# File systems on which SQLite's locks do not hold between hosts (type column of /proc/mounts).
_NETWORK_FILE_SYSTEMS = (
    *("9p", "afs", "beegfs", "ceph", "cifs", "gfs2", "glusterfs", "gpfs", "lustre", "nfs", "nfs4", "ocfs2"),
    *("orangefs", "smb3", "fuse.ceph", "fuse.ceph-fuse", "fuse.glusterfs", "fuse.juicefs", "fuse.mfs"),
    *("fuse.rclone", "fuse.s3fs", "fuse.sshfs"),
)
_DRIVERS = {"sqlite": ("sqlite", "sqlite+pysqlite"), "postgresql": ("postgresql", "postgresql+psycopg")}
# Options of libpq, each unless the URL has it: a server whose host is gone without a word is given up, while it is
# connected to as well as later.
_POSTGRESQL_OPTIONS = {
    "connect_timeout": 10,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


class Database:
    """Hands out read and write transactions; one per process."""

    def __init__(self, url: str) -> None:
        """Opens nothing yet: a transaction says what cannot be opened, as UnavailableError.

        Raises InputError for a URL no driver takes, or a SQLite file on a network file system.
        """
        try:
            parsed = make_url(url)
        except (ArgumentError, ValueError) as error:  # a port that is no number is a plain ValueError
            raise InputError(
                "cannot read the database URL: write sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME"
            ) from error
        backend = parsed.get_backend_name()
        if backend not in _DRIVERS:
            raise InputError(f"cannot use the database {backend!r}: use sqlite or postgresql")
        if parsed.drivername not in _DRIVERS[backend]:
            raise InputError(
                f"cannot use the database driver {parsed.drivername!r}: write sqlite:///FILE or "
                "postgresql+psycopg://USER@HOST/NAME"
            )
        self._file = _sqlite_file(parsed) if backend == "sqlite" else None
        self.engine = _postgresql_engine(parsed) if self._file is None else _sqlite_engine(url, self._file)

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that commits at the end and leaves nothing behind on an error."""
        with _all_plain(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A consistent view that takes no write lock."""
        with _all_plain(), self.engine.connect().execution_options(**{_READ_ONLY: True}) as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
            yield connection

    def make_file(self) -> None:
        """Make a SQLite file that is not there, empty, and its folder; a server's database is made on the server.

        Nothing else makes one: a mistyped name is not to become a ledger. UnavailableError where it cannot be done.
        """
        if self._file is None:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            if not self._file.exists():
                self._file.touch()
        except OSError as error:
            raise UnavailableError(
                f"cannot make the database {str(self._file)!r}: {error.strerror}; name another file by `database_url`"
            ) from error

    def close(self) -> None:
        """Give every connection back."""
        self.engine.dispose()


def now_us(connection: Connection) -> int:
    """The database's clock, microseconds UTC: the one clock that all writers of grants share.

    SQLite's resolution is a millisecond; its database lives on the host of its writers, so it is the host's clock.
    """
    if connection.dialect.name == "sqlite":
        query = "SELECT CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000"
    else:
        query = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
    return int(connection.execute(text(query)).scalar_one())


def serialize(connection: Connection, what: str) -> None:
    """Let nobody else who names the same `what` pass here before this write transaction ends.

    For choices that depend on rows which are not there yet, which no row lock can guard. What is read after it is
    what those before have committed. SQLite runs its write transactions one at a time and needs nothing more.
    """
    if connection.dialect.name == "postgresql":
        key = int.from_bytes(hashlib.sha256(what.encode()).digest()[:8], signed=True)
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})


@contextmanager
def _all_plain() -> Iterator[None]:
    try:
        with plain_errors():
            yield
    except PoolTimeoutError as error:
        raise UnavailableError(
            f"cannot use the database: all {_CONNECTIONS} connections of this process are busy; try again, and see "
            "in its log what does not end"
        ) from error


def _postgresql_engine(url: URL) -> Engine:
    if "@" in (url.host or ""):
        # What stands before it is the end of a password, which no message may show.
        raise InputError("cannot read the database URL: write %40 for an @ in its user or password")
    engine = sqlalchemy_engine(
        url,
        pool_pre_ping=True,
        # What the server's default may be is no matter: `serialize` needs each statement to see what was committed
        # before it.
        isolation_level="READ COMMITTED",
        connect_args={name: value for name, value in _POSTGRESQL_OPTIONS.items() if name not in url.query},
        **_POOL,
    )
    event.listen(engine, "connect", _configure_postgresql)
    return engine


def _configure_postgresql(connection: Any, _record: Any) -> None:
    connection.execute(f"SET lock_timeout = {LOCK_TIMEOUT_MS}")
    connection.commit()


def _sqlite_file(url: URL) -> Path:
    if not url.database or url.database == ":memory:":
        raise InputError("cannot keep the ledger in memory: write sqlite:///FILE")
    if url.query:
        raise InputError("cannot use a SQLite URL with options: write sqlite:///FILE, and nothing after it")
    file = Path(url.database).absolute()
    kind = file_system(file)
    if kind in _NETWORK_FILE_SYSTEMS:
        raise InputError(
            f"cannot keep SQLite on the {kind} file system of {str(file)!r}: its locks do not hold there; use a "
            "local disk, or PostgreSQL"
        )
    return file


def _sqlite_engine(url: str, file: Path) -> Engine:
    def name_the_file(_dialect: Any, _record: Any, arguments: list[str], keywords: dict[str, Any]) -> None:
        try:
            file.stat()
        except OSError as error:
            raise UnavailableError(
                f"cannot open the database {str(file)!r}: {error.strerror}; check `database_url`, or make it: "
                "run `gputab db upgrade`"
            ) from error
        # By itself SQLite makes a file that is not there.
        arguments[0], keywords["uri"] = f"{file.as_uri()}?mode=rw", True

    def identity() -> tuple[int, int] | None:
        try:
            found = file.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def note_the_file(_connection: Any, record: Any) -> None:
        record.info[_FILE] = identity()

    def refuse_another_file(_connection: Any, record: Any, _proxy: Any) -> None:
        # A connection keeps the file that it was opened on, also when that was removed or another took its name.
        if identity() != record.info[_FILE]:
            raise DisconnectionError("the file is another one")

    engine = sqlalchemy_engine(url, **_POOL)
    event.listen(engine, "do_connect", name_the_file)
    event.listen(engine, "connect", note_the_file)
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "checkout", refuse_another_file)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _configure_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    # sqlite3 would begin transactions by itself, and not before a SELECT; _begin_sqlite says when instead.
    connection.isolation_level = None
    with ExitStack() as refused:
        # The pool takes no connection that fails here, and would leave it open.
        refused.callback(connection.close)
        for pragma in (
            "journal_mode=WAL",
            "foreign_keys=ON",
            "synchronous=FULL",
            f"busy_timeout={LOCK_TIMEOUT_MS}",
        ):
            connection.execute(f"PRAGMA {pragma}")
        refused.pop_all()


def _begin_sqlite(connection: Connection) -> None:
    # A deferred transaction that reads first and writes later fails at once where another has written between;
    # taking the write lock at the start makes it wait instead.
    read_only = connection.get_execution_options().get(_READ_ONLY, False)
    connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")
