"""Rows that are true over an interval: ending the open one, and beginning the next, end to start."""

from typing import Any

from sqlalchemy import Column, Connection, Row, Table, insert, update


def replace_open(connection: Connection, table: Table, row: Row[Any], values: dict[str, Any], at_us: int) -> None:
    """End an open row at `at_us` and begin one with the changed values there.

    A report from a node's queue may speak of an instant before the row began. Then nothing was ever as the row
    says, and the row itself is changed.
    """
    if at_us <= row.start_us:
        connection.execute(update(table).where(_key(table) == row[0]).values(**values))
        return
    end_open(connection, table, row, at_us)
    following = {**dict(zip(table.columns.keys(), row, strict=True)), **values, "start_us": at_us, "end_us": None}
    del following[_key(table).name]
    connection.execute(insert(table).values(**following))


def end_open(connection: Connection, table: Table, row: Row[Any], at_us: int) -> int:
    """End an open row at `at_us`, at the earliest where it began; the instant it ended at."""
    end_us = max(at_us, int(row.start_us))
    connection.execute(update(table).where(_key(table) == row[0]).values(end_us=end_us))
    return end_us


def _key(table: Table) -> Column[Any]:
    """The column that numbers the rows, the first of every table of intervals."""
    return next(iter(table.primary_key.columns))
