"""Printing rows: a table for people, JSON for programs."""

import json
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text


class OutputFormat(StrEnum):
    """How a command prints its data."""

    TABLE = "table"
    JSON = "json"


_WIDEST = 1_000

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

    A column that no row fills is left out of the table.

    JSON is one object: `rows` with every key of each row (integers of any size), and what `extra` holds.
    """
    if output is OutputFormat.JSON:
        json.dump({"rows": [dict(row) for row in rows], **(extra or {})}, sys.stdout, indent=1, default=str)
        sys.stdout.write("\n")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    shown = [key for key in columns if not rows or any(row.get(key) not in (None, "") for row in rows)]
    for key in shown:
        numeric = any(isinstance(row.get(key), int) for row in rows)
        table.add_column(columns[key], justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(_cell(row.get(key)) for key in shown))
    # A pipe or a file has no width to keep to.
    console = Console(highlight=False, emoji=False)
    # An id that is cut short is of no use: a table is as wide as what it holds, and a narrow terminal wraps its lines.
    needed = table.__rich_measure__(console, console.options.update(width=_WIDEST)).maximum
    console.width = max(console.width, needed)
    if title:
        console.print(title, style="bold", markup=False, soft_wrap=True)
    console.print(table if rows else "nothing to show")


def say(message: str) -> None:
    """One line for a person, on stderr so that stdout stays data."""
    Console(stderr=True, highlight=False, emoji=False).print(message, markup=False, soft_wrap=True)


def _cell(value: object) -> Text:
    if value is None or value == "":
        return Text("-")
    if isinstance(value, int) and not isinstance(value, bool):
        return Text(f"{value:,}")
    return Text(str(value))
