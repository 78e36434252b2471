"""Where a SQLite ledger may lie, who makes its file, and what is said when it cannot be used."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import event, text

from domain.errors import InputError, UnavailableError
from store.database import Database


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A file with a table t."""
    with closing(Database(f"sqlite:///{tmp_path / 'x.db'}")) as database:
        database.make_file()
        with database.write() as connection:
            connection.execute(text("CREATE TABLE t (x INTEGER)"))
        yield database


def test_a_file_is_made_when_it_is_asked_for_and_not_by_looking(tmp_path: Path) -> None:
    """A mistyped name once left an empty database of 4 KiB behind."""
    database = Database(f"sqlite:///{tmp_path / 'deep' / 'x.db'}")
    for transaction in (database.read, database.write):
        with pytest.raises(UnavailableError) as refused, transaction():
            pass
        assert str(refused.value) == (
            f"cannot open the database '{tmp_path}/deep/x.db': No such file or directory; check `database_url`, or "
            "make it: run `gputab db upgrade`"
        )
    assert list(tmp_path.iterdir()) == []
    database.make_file()
    database.make_file()
    with database.read() as connection:
        assert connection.execute(text("SELECT 1")).scalar_one() == 1
    database.close()


def test_a_file_that_goes_away_is_not_made_again(tmp_path: Path) -> None:
    """Between the look at it and SQLite's opening there is a moment, for which SQLite is told to open only."""
    file = tmp_path / "x.db"
    database = Database(f"sqlite:///{file}")
    database.make_file()
    event.listen(database.engine, "do_connect", lambda *_how: file.unlink())
    with pytest.raises(UnavailableError, match="unable to open database file"), database.read():
        pass
    assert not file.exists()


def test_a_file_that_another_took_the_place_of_is_not_read_any_more(database: Database, tmp_path: Path) -> None:
    """A page that is open for days went on with figures of a ledger that had been restored from a backup since."""
    with database.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM t")).scalar_one() == 0
    restored = tmp_path / "restored.db"
    with closing(sqlite3.connect(restored)) as other, other:
        other.executescript("CREATE TABLE t (x INTEGER); INSERT INTO t VALUES (1), (2)")
    for beside in ("x.db-wal", "x.db-shm"):
        (tmp_path / beside).unlink()
    restored.replace(tmp_path / "x.db")
    with database.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM t")).scalar_one() == 2
    (tmp_path / "x.db").unlink()
    with pytest.raises(UnavailableError, match="cannot open the database"), database.write():
        pass
    assert not (tmp_path / "x.db").exists()


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("a b.db", "a b.db"),
        ("a#b.db", "a#b.db"),
        ("a%2520b.db", "a%20b.db"),
        ("a%3Fmode=memory", "a?mode=memory"),
        ("ü&b=c.db", "ü&b=c.db"),
    ],
)
def test_a_file_of_any_name_is_the_one_that_is_meant(tmp_path: Path, written: str, name: str) -> None:
    """SQLAlchemy reads percent signs of a URL; SQLite is given the name as a URI of its own."""
    database = Database(f"sqlite:///{tmp_path}/{written}")
    database.make_file()
    with database.write() as connection:
        connection.execute(text("CREATE TABLE t (x INTEGER)"))
    database.close()
    assert [each.name for each in tmp_path.iterdir()] == [name]
    with closing(sqlite3.connect(tmp_path / name)) as kept:
        assert kept.execute("SELECT name FROM sqlite_master").fetchall() == [("t",)]


def test_a_file_that_cannot_be_made_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    database = Database(f"sqlite:///{tmp_path / 'file' / 'deep' / 'x.db'}")
    with pytest.raises(UnavailableError, match=r"^cannot make the database '.*deep/x.db': Not a directory; name"):
        database.make_file()
    said = r"^cannot open the database '.*deep/x.db': Not a directory; check"
    with pytest.raises(UnavailableError, match=said), database.read():
        pass


@pytest.mark.parametrize(
    "kind", ["nfs4", "cifs", "fuse.sshfs", "fuse.glusterfs", "lustre", "beegfs", "fuse.juicefs", "9p"]
)
@pytest.mark.parametrize("place", ["share", "link", "a share"])
def test_sqlite_on_a_network_file_system_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, place: str
) -> None:
    """The mounts are read from text in the kernel's form, since no test can mount one."""
    (tmp_path / "link").symlink_to(tmp_path / "share")
    mounts = f"/dev/sda1 / ext4 rw 0 0\nx {tmp_path}/share {kind} rw 0 0\nx {tmp_path}/a\\040share {kind} rw 0 0\n"
    _show_mounts(monkeypatch, mounts)
    with pytest.raises(InputError, match=rf"cannot keep SQLite on the {kind} file system of '.*x.db'.*PostgreSQL"):
        Database(f"sqlite:///{tmp_path}/{place}/x.db")
    Database(f"sqlite:///{tmp_path}/x.db").close()


def _show_mounts(monkeypatch: pytest.MonkeyPatch, mounts: str) -> None:
    read_bytes: Callable[[Path], bytes] = Path.read_bytes
    shown = mounts.encode()
    monkeypatch.setattr(Path, "read_bytes", lambda self: shown if str(self) == "/proc/mounts" else read_bytes(self))


def test_foreign_keys_hold_and_the_journal_is_ahead(database: Database) -> None:
    with database.read() as connection:
        pragmas = [connection.execute(text(f"PRAGMA {name}")).scalar() for name in ("foreign_keys", "journal_mode")]
    assert pragmas == [1, "wal"]


def test_a_locked_database_is_said_in_one_line(database: Database, tmp_path: Path) -> None:
    """Another connection holds the write lock for longer than this one is willing to wait."""
    with database.engine.connect() as connection:
        # The pool gives the same connection to the write below.
        connection.exec_driver_sql("PRAGMA busy_timeout=20")
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(UnavailableError) as refused, database.write():
            pass
        other.execute("ROLLBACK")
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith("cannot use the database: database is locked; another process has held")
    with database.write() as connection:
        connection.execute(text("DROP TABLE t"))


def _spoil(file: Path) -> None:
    """Leave the header, which says that it is a database, and nothing else."""
    content = file.read_bytes()
    file.write_bytes(content[:100] + b"\xee" * (len(content) - 100))


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda file: file.write_text("These are notes, and no ledger at all. " * 50), "file is not a database"),
        (_spoil, "database disk image is malformed"),
    ],
)
def test_a_file_that_is_no_database_any_more_is_said_in_one_line(
    database: Database, tmp_path: Path, spoil: Callable[[Path], object], reason: str
) -> None:
    """No check of settings brings it back: a backup does, and so does a beginning somewhere else."""
    database.close()
    spoil(tmp_path / "x.db")
    with pytest.raises(UnavailableError) as refused, database.read() as connection:
        connection.execute(text("SELECT * FROM t"))
    assert str(refused.value) == (
        f"cannot use the database: {reason}; restore it from a backup, or name a new file by GPUTAB_DATABASE_URL"
    )


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("query_only=ON", "attempt to write a readonly database; let this user write the file and its folder"),
        ("max_page_count=1", "database or disk is full; free some space"),
    ],
)
def test_what_keeps_sqlite_from_writing_is_one_line(database: Database, limit: str, said: str) -> None:
    """SQLite is told to be read only, or to find no room, which it then says as it does of a file and a disk."""
    with database.engine.connect() as connection:
        # The pool gives the same connection to the write below.
        connection.exec_driver_sql(f"PRAGMA {limit}")
    with pytest.raises(UnavailableError) as refused, database.write() as connection:
        connection.execute(text("CREATE TABLE u (x INTEGER)"))
    assert str(refused.value) == f"cannot use the database: {said}"
