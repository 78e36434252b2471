"""Where the tables of a database are not what the migrations made."""

from collections.abc import Iterator
from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import CheckConstraint, Connection, inspect, text
from sqlalchemy.schema import CreateIndex, CreateTable

from store.tables import METADATA


def differing_parts(connection: Connection) -> list[str]:
    """The tables, and parts of them, that differ from the models, which the migrations follow; none: an empty list.

    Tables, columns, keys and indexes are compared on every database. SQLite keeps each statement as it was written,
    so there everything is compared word for word, triggers too. PostgreSQL keeps an expression as it read it, which
    is no text to compare: a CHECK that is gone or new is found there by its name, a changed condition of a CHECK or of
    a partial index is not.
    """
    found = {_part_of(each) for each in compare_metadata(MigrationContext.configure(connection), METADATA)}
    if not found:
        found = set(_differing_text(connection) if connection.dialect.name == "sqlite" else _checks(connection))
    return sorted(found)


def _part_of(difference: Any) -> str:
    """The table of one of alembic's differences, with the column if it is about one."""
    # (operation, Table | Index | Constraint) or (operation, schema, table, Column | name, ...), several in a list.
    _, subject, *rest = difference[0] if isinstance(difference, list) else difference
    if rest and isinstance(rest[0], str):
        table, column = rest[:2]
        return f"{table}.{getattr(column, 'name', column)}"
    return str(getattr(subject, "table", subject).name)


def _differing_text(connection: Connection) -> Iterator[str]:
    modelled: dict[tuple[str, str], str] = {}
    for each in METADATA.tables.values():
        modelled[each.name, each.name] = str(CreateTable(each).compile(dialect=connection.dialect))
        for index in each.indexes:
            modelled[each.name, str(index.name)] = str(CreateIndex(index).compile(dialect=connection.dialect))
    # What SQLite makes for itself begins with its name, or has no statement.
    query = text(
        "SELECT tbl_name, name, sql FROM sqlite_master WHERE type IN ('table', 'index', 'trigger') AND sql > '' "
        "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND tbl_name <> 'alembic_version'"
    )
    kept = {(row.tbl_name, row.name): row.sql for row in connection.execute(query)}
    for table, name in modelled.keys() | kept.keys():
        for line in _lines(modelled.get((table, name), "")) ^ _lines(kept.get((table, name), "")):
            # The line of a column begins with its name, that of a constraint with a word before it.
            words = line.split()
            part = words[1] if words[0] == "CONSTRAINT" else words[0]
            yield f"{table}.{part if name == table else name}"


def _lines(statement: str) -> set[str]:
    # The order of columns and constraints may differ: a table that was altered has its new ones last.
    return {line.strip().rstrip(",").replace('"', "") for line in statement.strip().splitlines()}


def _checks(connection: Connection) -> Iterator[str]:
    modelled = {
        (table.name, str(each.name))
        for table in METADATA.tables.values()
        for each in table.constraints
        if isinstance(each, CheckConstraint)
    }
    kept = {
        (table, str(each["name"]))
        for (_, table), checks in inspect(connection).get_multi_check_constraints().items()
        for each in checks
    }
    yield from (f"{table}.{name}" for table, name in modelled ^ kept)
