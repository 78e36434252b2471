"""Printing rows: a table for people, JSON for programs."""

import json
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer


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

    A column that no row fills is left out of the table.

    JSON is one object: `rows` with every key of each row (integers of any size), and what `extra` holds.
    """
    if output is OutputFormat.JSON:
        json.dump({"rows": [dict(row) for row in rows], **(extra or {})}, sys.stdout, indent=1, default=str)
        sys.stdout.write("\n")
        return
    # Not at the top: what says a line only, such as a collector, has no use for what draws tables.
    from gputab.row_table import print_table

    print_table(rows, columns, title)


# Bell, backspace, vertical tab, form feed and carriage return, which would write over what was said before.
_CONTROLS = dict.fromkeys((7, 8, 11, 12, 13))


def say(message: str) -> None:
    """One line for a person, on stderr so that stdout stays data."""
    if sys.stderr is not None:
        sys.stderr.write(f"{message.translate(_CONTROLS)}\n")
        sys.stderr.flush()
