"""`gputab db`."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from store.database import Database

Gputab = Callable[..., Any]


@pytest.fixture
def named(database_url: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The settings name an empty database of the test's own."""
    monkeypatch.setenv("GPUTAB_DATABASE_URL", database_url)
    return database_url


@pytest.mark.usefixtures("named")
def test_upgrade_makes_the_ledger_and_check_finds_it_good(gputab: Gputab) -> None:
    made = gputab("db", "upgrade")
    assert (made.code, made.out) == (0, "")
    assert made.line.startswith("the database is at migration ")
    checked = gputab("db", "check")
    assert (checked.code, checked.line) == (0, made.line)
    assert gputab("db", "upgrade").line == made.line


def test_where_nothing_is_named_the_ledger_is_a_file_here(gputab: Gputab, place: Path) -> None:
    assert gputab("db", "upgrade").code == 0
    assert (place / ".gputab" / "gputab.db").exists()


@pytest.mark.parametrize(
    "words",
    [
        "db check",
        "tenant list",
        "token list",
        "prices show retail",
        "meter status",
        "meter run --from 0 --to 1",
        "usage --from 0 --to 1",
        "invoice acme --month 2026-03",
    ],
)
def test_a_ledger_that_is_not_made_names_the_command_that_makes_it(gputab: Gputab, place: Path, words: str) -> None:
    """Without its folder and its file, which are not made by looking, and without its tables."""
    refused = gputab(*words.split())
    assert (refused.code, refused.out) == (1, "")
    assert refused.line.startswith("gputab: cannot open the database ")
    assert refused.line.endswith("check `database_url`, or make it: run `gputab db upgrade`")
    assert not (place / ".gputab").exists()
    (place / ".gputab").mkdir()
    assert gputab(*words.split()).line == refused.line
    assert list((place / ".gputab").iterdir()) == []
    (place / ".gputab" / "gputab.db").touch()
    refused = gputab(*words.split())
    assert (refused.code, refused.out) == (1, "")
    assert refused.line.startswith("gputab: cannot use the database at migration 'none'")
    assert refused.line.endswith("run `gputab db upgrade`")


def test_a_ledger_of_a_newer_gputab_is_not_touched(gputab: Gputab, named: str) -> None:
    gputab("db", "upgrade")
    with closing(Database(named)) as database, database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for words in ("db upgrade", "db check"):
        refused = gputab(*words.split())
        assert refused.code == 1
        assert "'9999'" in refused.line


@pytest.mark.parametrize(
    ("url", "code", "problem"),
    [
        ("sqlite:///notes.txt", 1, "cannot use the database: file is not a database"),
        ("mysql://gputab:hunter2@db/x", 2, "cannot use the database 'mysql'"),
        ("postgresql://gputab:hunter2@127.0.0.1:1/x", 1, "cannot use the database: connection failed: "),
        ("postgresql://gputab:@hunter2@db/x", 2, "cannot read the database URL: write %40 for an @"),
        ("nonsense", 2, "cannot read the database URL"),
        ("sqlite:///", 2, "cannot keep the ledger in memory"),
    ],
)
def test_a_database_that_cannot_be_used_is_one_line(
    gputab: Gputab, place: Path, monkeypatch: pytest.MonkeyPatch, url: str, code: int, problem: str
) -> None:
    (place / "notes.txt").write_text("no ledger at all, but long enough to be looked at. " * 50, "utf-8")
    monkeypatch.setenv("GPUTAB_DATABASE_URL", url)
    for command in ("upgrade", "check"):
        refused = gputab("db", command)
        assert refused.code == code
        assert refused.line.startswith(f"gputab: {problem}")
        assert "hunter2" not in refused.line


def test_a_folder_that_cannot_be_made_is_one_line(gputab: Gputab, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "notes.txt").write_text("a file, and no folder", "utf-8")
    monkeypatch.setenv("GPUTAB_DATABASE_URL", "sqlite:///notes.txt/x.db")
    for command, problem in (("upgrade", "cannot make the database"), ("check", "cannot open the database")):
        refused = gputab("db", command)
        assert (refused.code, refused.out) == (1, "")
        assert refused.line.startswith(f"gputab: {problem}")


def test_an_unknown_setting_stops_every_command_with_exit_code_2(gputab: Gputab, place: Path) -> None:
    (place / "gputab.toml").write_text("datbase_url = 'sqlite:///x.db'\nqueue_max_mib = 0\n", "utf-8")
    for words in ("db check", "tenant list", "prices check x.yaml", "meter status", "usage --from 0 --to 1"):
        refused = gputab(*words.split())
        assert refused.code == 2
        assert "datbase_url: unknown setting; " in refused.line or "; datbase_url: unknown setting" in refused.line
        assert "queue_max_mib: " in refused.line


@pytest.mark.parametrize("words", ["", "db", "tenant", "prices", "meter"])
def test_a_group_without_a_command_shows_what_there_is(gputab: Gputab, words: str) -> None:
    shown = gputab(*words.split())
    assert shown.code in (0, 2)
    assert "Usage: gputab" in shown.out + shown.err


@pytest.mark.parametrize("words", ["nonsense", "db nonsense", "meter run --nonsense", "usage", "invoice acme"])
def test_a_command_line_that_cannot_be_read_is_exit_code_2(gputab: Gputab, words: str) -> None:
    assert gputab(*words.split()).code == 2
