"""Rows as a table on a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

_WIDEST = 1_000


def print_table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], title: str) -> None:
    """Print rows as `print_rows` of `output.py` says."""
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


def _cell(value: object) -> Text:
    if value is None or value == "":
        return Text("-")
    if isinstance(value, int) and not isinstance(value, bool):
        return Text(f"{value:,}")
    return Text(str(value))
