"""Transactions, and what is said when the database cannot be used."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import insert, select, text
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, OperationalError, ProgrammingError

from domain.clock import SystemClock
from domain.errors import ConflictError, GputabError, InputError, UnavailableError
from store.database import Database, now_us
from store.tables.access import tenants
from store.tables.capacity import nodes

ACME = {"tenant": "acme", "billing_zone": "UTC", "currency": "CNY", "created_us": 0}


def test_a_transaction_that_fails_leaves_nothing_behind(database: Database) -> None:
    def fail() -> None:
        with database.write() as connection:
            connection.execute(insert(tenants).values(**ACME))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with database.read() as connection:
        assert connection.execute(select(tenants)).all() == []


def test_a_reader_sees_one_state_while_others_write(database: Database) -> None:
    with database.read() as reader:
        assert reader.execute(select(tenants)).all() == []
        with database.write() as writer:
            writer.execute(insert(tenants).values(**ACME))
        assert reader.execute(select(tenants)).all() == []
    with database.read() as reader:
        assert len(reader.execute(select(tenants)).all()) == 1


def test_what_a_reader_writes_is_not_kept(database: Database) -> None:
    with database.read() as connection:
        connection.execute(insert(tenants).values(**ACME))
    with database.read() as connection:
        assert connection.execute(select(tenants)).all() == []


def test_foreign_keys_hold_and_the_journal_is_ahead(database: Database) -> None:
    with database.read() as connection:
        pragmas = [connection.execute(text(f"PRAGMA {name}")).scalar() for name in ("foreign_keys", "journal_mode")]
    assert pragmas == [1, "wal"]


def test_a_second_process_writes_while_the_first_reads(database: Database, tmp_path: Path) -> None:
    other = Database(f"sqlite:///{tmp_path / 'gputab.db'}")
    with database.read() as connection:
        connection.execute(select(tenants)).all()
        with other.write() as writing:
            writing.execute(insert(nodes).values(node="n1", created_us=0))
    other.close()


def test_a_locked_database_is_said_in_one_line(database: Database, tmp_path: Path) -> None:
    """Another connection holds the write lock for longer than this one is willing to wait."""
    with database.engine.connect() as connection:
        # The pool gives the same connection to the write below.
        connection.exec_driver_sql("PRAGMA busy_timeout=20")
    with closing(sqlite3.connect(tmp_path / "gputab.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(UnavailableError) as refused, database.write():
            pass
        other.execute("ROLLBACK")
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith("cannot use the database: database is locked; another process has held")
    with database.write() as connection:
        connection.execute(insert(tenants).values(**ACME))


def test_tables_that_are_missing_name_the_command_that_makes_them(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'empty.db'}")
    database.make_file()
    with (
        pytest.raises(UnavailableError, match=r"no such table: tenants; run `gputab db upgrade`$"),
        database.read() as connection,
    ):
        connection.execute(select(tenants)).all()
    database.close()


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
    spoil(tmp_path / "gputab.db")
    spoilt = Database(f"sqlite:///{tmp_path / 'gputab.db'}")
    with pytest.raises(UnavailableError) as refused, spoilt.read() as connection:
        connection.execute(select(tenants)).all()
    spoilt.close()
    assert str(refused.value) == (
        f"cannot use the database: {reason}; restore it from a backup, or name a new file by GPUTAB_DATABASE_URL"
    )


class RefusalError(Exception):
    """What a driver raises: its words, and PostgreSQL's code (None where there was no such server)."""

    def __init__(self, words: str, sqlstate: str | None) -> None:
        super().__init__(words)
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("kind", "sqlstate", "words", "error", "said"),
    [
        (ProgrammingError, "42P01", 'relation "t" does not exist\nLINE 1', UnavailableError, "run `gputab db upgrade`"),
        (OperationalError, None, 'FATAL:  database "x" does not exist', UnavailableError, "create it on the server"),
        (OperationalError, None, "connection failed: Connection refused\n", UnavailableError, "check `database_url`"),
        (OperationalError, None, "database or disk is full", UnavailableError, "; free some space"),
        (OperationalError, None, "attempt to write a readonly database", UnavailableError, "; let this user write"),
        (OperationalError, "40001", "could not serialize access", UnavailableError, "in the way; try again"),
        (OperationalError, "40P01", "deadlock detected\nDETAIL: x", UnavailableError, "in the way; try again"),
        (IntegrityError, "23505", "duplicate key value\nDETAIL: x", ConflictError, "another process was faster"),
        (DataError, None, "text fields cannot contain NUL", InputError, "cannot contain NUL"),
    ],
)
def test_what_a_database_refuses_is_one_line_of_the_right_class(
    database: Database, kind: type[DBAPIError], sqlstate: str | None, words: str, error: type[GputabError], said: str
) -> None:
    with pytest.raises(error) as refused, database.write():
        raise kind("SELECT 1", {}, RefusalError(words, sqlstate))
    assert said in str(refused.value)
    assert str(refused.value).startswith("cannot ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("kind", "sqlstate"), [(IntegrityError, "23514"), (ProgrammingError, "42601")])
def test_a_fault_of_ours_stays_one(database: Database, kind: type[DBAPIError], sqlstate: str) -> None:
    with pytest.raises(kind), database.write():
        raise kind("SELECT 1", {}, RefusalError("x", sqlstate))


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("nonsense", "cannot read the database URL: write sqlite:///FILE"),
        ("", "cannot read the database URL"),
        ("postgresql://user:hunter2@host:port/name", "cannot read the database URL"),
        ("mysql://user:hunter2@host/name", "cannot use the database 'mysql': use sqlite or postgresql"),
        ("sqlite://", "cannot keep the ledger in memory: write sqlite:///FILE"),
        ("sqlite:///:memory:", "cannot keep the ledger in memory"),
        ("sqlite:///x.db?mode=ro", "cannot use a SQLite URL with options: write sqlite:///FILE"),
        ("sqlite+hunter2:///x.db", "cannot use the database"),
        ("postgresql+hunter2://host/name", "cannot use the database"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_password(url: str, problem: str) -> None:
    with pytest.raises(GputabError, match=f"^{problem}") as refused:
        Database(url)
    assert "user:hunter2" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_databases_clock_is_the_hosts(database: Database) -> None:
    before_us = SystemClock().now_us()
    with database.read() as connection:
        read_us = now_us(connection)
    assert before_us - 2_000 <= read_us <= SystemClock().now_us() + 2_000
