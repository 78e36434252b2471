"""Printing rows: a table for people, JSON for programs."""

import json
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table


class OutputFormat(StrEnum):
    """How a command prints its data."""

    TABLE = "table"
    JSON = "json"


Format = Annotated[OutputFormat, typer.Option("--format", help="a table for people, or JSON")]


def print_rows(
    rows: Sequence[Mapping[str, Any]],
    columns: Mapping[str, str],
    output: OutputFormat,
    *,
    title: str = "",
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Print rows; `columns` maps a row's key to its heading in the table, where None shows as a dash.

    JSON is one object: `rows` with every key of each row (integers of any size), and what `extra` holds.
    """
    if output is OutputFormat.JSON:
        json.dump({"rows": [dict(row) for row in rows], **(extra or {})}, sys.stdout, indent=1, default=str)
        sys.stdout.write("\n")
        return
    table = Table(title=title or None, title_justify="left", header_style="bold")
    for key, heading in columns.items():
        numeric = any(isinstance(row.get(key), int) for row in rows)
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row.get(key)) for key in columns))
    Console().print(table)


def say(message: str) -> None:
    """One line for a person, on stderr so that stdout stays data."""
    Console(stderr=True, highlight=False).print(message, markup=False, soft_wrap=True)


def _cell(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
