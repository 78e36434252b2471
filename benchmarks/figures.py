"""The table of a benchmark: what was found, what it is compared with, and what was asked for."""

import sys
from collections.abc import Iterable
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table


class Line(NamedTuple):
    """One figure of gputab, that of what it is compared with (None: it has none), and what was asked for."""

    what: str
    unit: str
    ours: float | None
    theirs: float | None = None
    at_most: float | None = None
    at_least: float | None = None

    @property
    def ratio(self) -> float | None:
        """Ours to theirs."""
        return self.ours / self.theirs if self.ours is not None and self.theirs else None

    @property
    def asked(self) -> str:
        """The bound, in words."""
        if self.at_most is not None:
            return f"at most {self.at_most:g}"
        return f"at least {self.at_least:g}" if self.at_least is not None else ""

    @property
    def is_met(self) -> bool | None:
        """Whether the figure is within its bound; None where there is no bound, or no figure."""
        if self.ours is None or not self.asked:
            return None
        return (self.at_most is None or self.ours <= self.at_most) and (
            self.at_least is None or self.ours >= self.at_least
        )


def print_figures(found: Iterable[Line], heading: str) -> None:
    """As a table; `heading` says what was measured."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(heading)
    table.add_column("unit")
    for column in ("gputab", "other", "ratio"):
        table.add_column(column, justify="right")
    table.add_column("asked for")
    table.add_column("")
    for each in found:
        verdict = {True: "met", False: "MISSED", None: ""}[each.is_met]
        table.add_row(each.what, each.unit, *map(_number, (each.ours, each.theirs, each.ratio)), each.asked, verdict)
    Console(width=None if sys.stdout.isatty() else 140, highlight=False).print(table)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"
