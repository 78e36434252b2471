"""The table of a breakdown: days down, the last first, and groups across; totals before them; every amount exact."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import polars as pl
import streamlit as st

from streamlit_app.amounts import digits, exact, shown
from streamlit_app.breakdown import Breakdown

# As many digits as a decimal of Arrow has.
_PRECISION = 38
# Left to itself the page measures some rows only, and cuts what is wider.
_CHARACTER_PIXELS = 8
_MARGIN_PIXELS = 24


def spend_table(breakdown: Breakdown) -> tuple[pl.DataFrame, dict[str, Any]]:
    """The frame and how its columns are shown; a cell is null where nothing was charged.

    The columns have names that no group can have: a tenant may be called `total`.
    """
    days = breakdown.days[::-1]
    columns = {"sum": (f"total, {breakdown.currency}", [breakdown.total_nano, *map(breakdown.day_nano, days)])}
    for number, group in enumerate(breakdown.groups):
        cells_nano = [breakdown.cells_nano.get((day, group)) for day in days]
        columns[f"group {number}"] = (group, [breakdown.group_nano(group), *cells_nano])
    series = [pl.Series("day", ["total", *days])]
    headings: dict[str, Any] = {"day": st.column_config.TextColumn("billing day", pinned=True)}
    for name, (label, amounts_nano) in columns.items():
        series.append(_column(name, amounts_nano, breakdown.currency))
        headings[name] = _heading(label, amounts_nano, breakdown.currency, is_pinned=name == "sum")
    return pl.DataFrame(series), headings


def _column(name: str, amounts_nano: Sequence[int | None], currency: str) -> pl.Series:
    cells: list[Decimal | None] = [None if nano is None else exact(nano, currency) for nano in amounts_nano]
    return pl.Series(name, cells, pl.Decimal(_PRECISION, digits(currency)))


def _heading(label: str, amounts_nano: Sequence[int | None], currency: str, *, is_pinned: bool) -> Any:
    longest = max(len(label), *(len(shown(nano, currency)) for nano in amounts_nano if nano is not None))
    return st.column_config.NumberColumn(
        label,
        format=f"%,.{digits(currency)}f",
        width=longest * _CHARACTER_PIXELS + _MARGIN_PIXELS,
        pinned=is_pinned,
        alignment="right",
    )
