"""Where the tables of a database are not what the migrations made."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import CheckConstraint, Connection, inspect, text
from sqlalchemy.schema import CreateIndex, CreateTable

from store.tables import METADATA

# PostgreSQL's manual, "System Catalogs". The conditions of CHECKs and of partial indexes, as expressions.
_CONDITIONS = text(
    "SELECT relname, conname AS name, pg_get_expr(conbin, conrelid) AS condition "
    "FROM pg_constraint JOIN pg_class ON pg_class.oid = conrelid "
    "WHERE contype = 'c' AND relnamespace = current_schema()::regnamespace "
    "UNION ALL SELECT pg_class.relname, part.relname, pg_get_expr(indpred, indrelid) "
    "FROM pg_index JOIN pg_class ON pg_class.oid = indrelid JOIN pg_class AS part ON part.oid = indexrelid "
    "WHERE indpred IS NOT NULL AND pg_class.relnamespace = current_schema()::regnamespace"
)
# What no table of ours has: keys and CHECKs that were never held against the rows, or are no longer; indexes that were
# never finished; triggers and rules of others; text that is ordered by a language.
_STRANGE = text(
    "SELECT relname, conname AS name FROM pg_constraint JOIN pg_class ON pg_class.oid = conrelid "
    "WHERE (NOT convalidated OR connoinherit AND contype = 'c') "
    "AND relnamespace = current_schema()::regnamespace "
    "UNION ALL SELECT relname, coalesce(conname, tgname) FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid "
    "LEFT JOIN pg_constraint ON pg_constraint.oid = tgconstraint "
    "WHERE (NOT tgisinternal OR tgenabled <> 'O') AND relnamespace = current_schema()::regnamespace "
    "UNION ALL SELECT relname, rulename FROM pg_rewrite JOIN pg_class ON pg_class.oid = ev_class "
    "WHERE relkind IN ('r', 'p') AND relnamespace = current_schema()::regnamespace "
    "UNION ALL SELECT pg_class.relname, part.relname FROM pg_index JOIN pg_class ON pg_class.oid = indrelid "
    "JOIN pg_class AS part ON part.oid = indexrelid "
    "WHERE NOT indisvalid AND pg_class.relnamespace = current_schema()::regnamespace "
    "UNION ALL SELECT relname, attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid "
    "WHERE relkind IN ('r', 'p') AND attnum > 0 AND NOT attisdropped AND atttypid = 'text'::regtype "
    "AND attcollation <> '\"C\"'::regcollation AND relnamespace = current_schema()::regnamespace"
)


def differing_parts(connection: Connection) -> list[str]:
    """The tables, and parts of them, that differ from the models, which the migrations follow; none: an empty list.

    Tables, columns, keys and indexes are compared on every database, and so are the conditions of CHECKs and partial
    indexes: SQLite keeps each statement as it was written, which is compared word for word; PostgreSQL is asked to plan
    the condition that it keeps beside the one that it should, without running either. Nothing is written.
    """
    if connection.dialect.name == "sqlite":
        looks = [_differing_models, _differing_text]
    else:
        # What is strange comes first: alembic cannot read a CHECK that is not valid.
        looks = [_strange_parts, _differing_models, _differing_conditions]
    found = (sorted(set(look(connection))) for look in looks)
    return next(filter(None, found), [])


def _differing_models(connection: Connection) -> Iterator[str]:
    """What alembic finds. It compares no CHECK, no condition of an index and no primary key."""
    is_sqlite = connection.dialect.name == "sqlite"
    # SQLite's defaults are compared with its statements.
    context = MigrationContext.configure(connection, opts={"compare_server_default": not is_sqlite})
    return (_part_of(each) for each in compare_metadata(context, METADATA))


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


def _strange_parts(connection: Connection) -> Iterator[str]:
    return (f"{row.relname}.{row.name}" for row in connection.execute(_STRANGE))


def _differing_conditions(connection: Connection) -> Iterator[str]:
    keys = inspect(connection).get_multi_pk_constraint()
    for table in METADATA.tables.values():
        if keys[None, table.name]["constrained_columns"] != [column.name for column in table.primary_key.columns]:
            yield f"{table.name}.{table.primary_key.name}"
    modelled = _modelled_conditions(connection)
    kept = {(row.relname, row.name): row.condition for row in connection.execute(_CONDITIONS)}
    yield from (f"{table}.{name}" for table, name in modelled.keys() ^ kept.keys())
    both: dict[str, list[str]] = defaultdict(list)
    for table_name, name in sorted(modelled.keys() & kept.keys()):
        both[table_name].append(name)
    for table_name, names in both.items():
        conditions = [(modelled[table_name, name], kept[table_name, name]) for name in names]
        for name, same in zip(names, _mean_the_same(connection, table_name, conditions), strict=True):
            if not same:
                yield f"{table_name}.{name}"


def _modelled_conditions(connection: Connection) -> dict[tuple[str, str], str]:
    """(table, CHECK or partial index) -> its condition."""
    conditions = {}
    for table in METADATA.tables.values():
        for constraint in table.constraints:
            if isinstance(constraint, CheckConstraint):
                conditions[table.name, str(constraint.name)] = str(constraint.sqltext)
        for index in table.indexes:
            _, where, condition = str(CreateIndex(index).compile(dialect=connection.dialect)).partition(" WHERE ")
            if where:
                conditions[table.name, str(index.name)] = condition
    return conditions


def _mean_the_same(connection: Connection, table: str, conditions: list[tuple[str, str]]) -> Iterator[bool]:
    """Of each pair whether PostgreSQL reads the same out of both, however they are written: IN (...) it keeps as ANY,
    numbers with their type, and everything in more parentheses."""
    columns = ", ".join(f"({condition})" for pair in conditions for condition in pair)
    plan = connection.exec_driver_sql(
        f"EXPLAIN (VERBOSE, COSTS OFF, FORMAT JSON) SELECT {columns} FROM {table}",  # noqa: S608 - out of the catalogues
        execution_options={"no_parameters": True},
    ).scalar_one()
    read = plan[0]["Plan"]["Output"]
    return (first == second for first, second in zip(read[::2], read[1::2], strict=True))
