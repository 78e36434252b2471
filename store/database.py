"""The engine and its transactions, the same for SQLite and PostgreSQL."""

import hashlib
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, event, text
from sqlalchemy import create_engine as sqlalchemy_engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, DataError, NoSuchModuleError, OperationalError

from domain.errors import ConflictError, GputabError, InputError, UnavailableError

# Another process holds SQLite's one write lock for milliseconds; this is for a meter that writes a busy hour.
_BUSY_TIMEOUT_MS = 15_000
_READ_ONLY = "gputab_read_only"
# File systems on which SQLite's locks do not hold between hosts (type column of /proc/mounts).
_NETWORK_FILE_SYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p", "ceph", "glusterfs")
# PostgreSQL's codes of errors (its manual, appendix A): a table or schema that is not there; a row that another
# transaction wrote or took away meanwhile, which SQLite's one writer at a time cannot meet; and a transaction that
# had to give way. What refuses a connection comes without a code, so a database that is not there (3D000) is told
# by the server's words.
_NO_TABLE = frozenset({"42P01", "3F000"})
_NO_DATABASE = re.compile(r'database ".*" does not exist$')
_OVERTAKEN = frozenset({"23503", "23505"})
_GAVE_WAY = frozenset({"40001", "40P01", "55P03"})


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
        self.engine: Engine
        self._folder: Path | None = None
        try:
            if parsed.get_backend_name() == "sqlite":
                file = _sqlite_file(parsed.database)
                self._folder = file.parent
                self.engine = _sqlite_engine(url, file)
            elif parsed.get_backend_name() == "postgresql":
                # What the server's default may be is no matter: `serialize` needs each statement to see what was
                # committed before it.
                self.engine = sqlalchemy_engine(url, pool_pre_ping=True, isolation_level="READ COMMITTED")
            else:
                raise InputError(f"cannot use the database {parsed.get_backend_name()!r}: use sqlite or postgresql")
        except (NoSuchModuleError, ImportError) as error:
            raise InputError(
                f"cannot use the database driver {parsed.drivername!r}: it is not installed; write sqlite:///FILE or "
                "postgresql+psycopg://USER@HOST/NAME"
            ) from error

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that commits at the end and leaves nothing behind on an error."""
        with _plain_errors(), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A consistent view that takes no write lock."""
        with _plain_errors(), self.engine.connect().execution_options(**{_READ_ONLY: True}) as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
            yield connection

    def make_folder(self) -> None:
        """Make the folder of a SQLite file; a server has made its own. UnavailableError where that cannot be done."""
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UnavailableError(f"cannot make the folder {str(self._folder)!r}: {error.strerror}") from error

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
def _plain_errors() -> Iterator[None]:
    """Turn what a person can act on into one line; the rest are our own faults."""
    try:
        yield
    except DatabaseError as error:
        plain = _plain(error)
        if plain is None:
            raise
        raise plain from error


def _plain(error: DatabaseError) -> GputabError | None:
    reason = str(error.orig).strip().partition("\n")[0]
    code = getattr(error.orig, "sqlstate", None)
    if isinstance(error, DataError):
        return InputError(f"cannot keep this in the database: {reason}; use a smaller number, or plain text")
    if code in _OVERTAKEN:
        return ConflictError(f"cannot write: another process was faster ({reason}); look at what it wrote, try again")
    if code in _NO_TABLE or "no such table" in reason:
        remedy = "run `gputab db upgrade`"
    elif _NO_DATABASE.search(reason):
        remedy = "create it on the server, or check `database_url`; then run `gputab db upgrade`"
    elif code in _GAVE_WAY:
        remedy = "another transaction was in the way; try again"
    elif "locked" in reason:
        remedy = f"another process has held its lock for {_BUSY_TIMEOUT_MS // 1000} s; stop it or try again"
    # SQLite says of a file that is no database what is in no subclass.
    elif type(error) in (DatabaseError, OperationalError):
        remedy = "check `database_url`, and that the server and the database, or the file, are there"
    else:
        return None
    return UnavailableError(f"cannot use the database: {reason}; {remedy}")


def _sqlite_file(name: str | None) -> Path:
    if not name or name == ":memory:":
        raise InputError("cannot keep the ledger in memory: write sqlite:///FILE")
    file = Path(name).absolute()
    _refuse_network_file_system(file)
    return file


def _sqlite_engine(url: str, file: Path) -> Engine:
    def refuse_missing_folder(*_how: Any) -> None:
        if not file.parent.is_dir():
            raise UnavailableError(
                f"cannot open the database {str(file)!r}: there is no such folder; run `gputab db upgrade`"
            )

    engine = sqlalchemy_engine(url)
    event.listen(engine, "do_connect", refuse_missing_folder)
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _configure_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    # sqlite3 would begin transactions by itself, and not before a SELECT; _begin_sqlite says when instead.
    connection.isolation_level = None
    for pragma in (
        "journal_mode=WAL",
        "foreign_keys=ON",
        "synchronous=FULL",
        f"busy_timeout={_BUSY_TIMEOUT_MS}",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    # A deferred transaction that reads first and writes later fails at once where another has written between;
    # taking the write lock at the start makes it wait instead.
    read_only = connection.get_execution_options().get(_READ_ONLY, False)
    connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")


def _refuse_network_file_system(path: Path) -> None:
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text("utf-8").splitlines()]
    except OSError:
        return
    points = [(fields[1], fields[2]) for fields in mounts if path.is_relative_to(fields[1])]
    kind = max(points, key=lambda point: len(point[0]), default=("/", ""))[1]
    if kind in _NETWORK_FILE_SYSTEMS:
        raise InputError(
            f"cannot keep SQLite on the {kind} file system of {str(path)!r}: its locks do not hold there; use a "
            "local disk, or PostgreSQL"
        )
