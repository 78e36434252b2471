"""Where a SQLite ledger may lie, who makes its file, and how many threads may use it at once."""

import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from sqlalchemy import event, text

from domain.errors import InputError, UnavailableError
from store.database import Database


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


def test_as_many_transactions_run_at_once_as_a_service_has_threads(database: Database) -> None:
    """AnyIO, which FastAPI runs requests on, has 40; the service's publisher is one more."""
    with ExitStack() as stack:
        for _ in range(41):
            stack.enter_context(database.read())
        with database.write() as connection:
            connection.execute(text("SELECT 1"))


def test_more_transactions_than_that_are_told_so(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database.engine.pool, "_timeout", 0.01)
    with ExitStack() as stack:
        for _ in range(48):
            stack.enter_context(database.read())
        with pytest.raises(UnavailableError) as refused, database.write():
            pass
    assert str(refused.value).startswith("cannot use the database: all 48 connections of this process are busy; try ")
    assert "\n" not in str(refused.value)
