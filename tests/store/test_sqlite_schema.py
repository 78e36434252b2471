"""Of a SQLite file every word of every statement is compared."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from domain.errors import UnavailableError
from store.database import Database
from store.migrate import check, upgrade


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with closing(Database(f"sqlite:///{tmp_path / 'x.db'}")) as database:
        upgrade(database)
        yield database


def _damage(file: Path, name: str, old: str, new: str) -> None:
    """Rewrite the statement that SQLite keeps of a table or index."""
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("PRAGMA writable_schema=1")
        (statement,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchone()
        assert old in statement
        connection.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (statement.replace(old, new), name))


@pytest.mark.parametrize(
    ("name", "old", "new", "part"),
    [
        (
            "charges",
            ", \n\tCONSTRAINT ck_charges_amount CHECK (amount_nano >= 0)",
            "",
            "charges.ck_charges_amount",
        ),
        ("charges", "CHECK (amount_nano >= 0)", "CHECK (amount_nano >= -1)", "charges.ck_charges_amount"),
        ("uq_grants_open_whole", "kind = 'whole'", "kind = 'none'", "grants.uq_grants_open_whole"),
        ("charges", "amount_nano BIGINT NOT NULL", "amount_nano REAL NOT NULL", "charges.amount_nano"),
        ("charges", "FOREIGN KEY(tenant)", "FOREIGN KEY(project)", "charges"),
    ],
)
def test_a_part_that_is_gone_or_changed_is_named(
    database: Database, tmp_path: Path, name: str, old: str, new: str, part: str
) -> None:
    """alembic compares neither CHECK constraints nor the conditions of indexes."""
    assert check(database)
    database.close()
    _damage(tmp_path / "x.db", name, old, new)
    with pytest.raises(UnavailableError, match=rf"differ from migration '\w+' in {part}; restore a backup$"):
        check(database)


def test_a_trigger_is_named(database: Database) -> None:
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TRIGGER t AFTER INSERT ON charges BEGIN DELETE FROM charges; END")
    with pytest.raises(UnavailableError, match=r"differ from migration '\w+' in charges\.t; restore a backup$"):
        check(database)
