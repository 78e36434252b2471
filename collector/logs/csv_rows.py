"""CSV as rows with the line that each begins on."""

import csv
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from collector.logs.log import RefusedRow
from collector.logs.log_text import LogText

# A quoted cell may hold line ends; a quote that is never closed must not swallow the rest of the log.
_ROW_LINES_MAX = 20


class CsvRow(NamedTuple):
    """A row that is not blank: the line it begins on (from 1), and its cells without blanks around."""

    line: int
    cells: tuple[str, ...]


def csv_rows(text: LogText) -> Iterator[CsvRow | RefusedRow]:
    """Every row that is not blank, in order; one that is no CSV, or holds NUL, is refused."""
    lines = text.lines()
    ahead: deque[tuple[int, str]] = deque()
    while following := ahead.popleft() if ahead else next(lines, None):
        number, line = following
        if not line.strip():
            continue
        if "\0" in line:
            yield RefusedRow(number, "it holds NUL bytes")
        elif '"' not in line:
            yield CsvRow(number, tuple(cell.strip() for cell in line.split(",")))
        else:
            while len(ahead) < _ROW_LINES_MAX - 1 and (another := next(lines, None)):
                ahead.append(another)
            row, more_lines = _quoted(number, [line, *(each for _, each in ahead)])
            for _ in range(more_lines):
                ahead.popleft()
            yield row


def _quoted(number: int, lines: list[str]) -> tuple[CsvRow | RefusedRow, int]:
    """The row that begins with the first of the lines, and how many of the others are part of it."""
    for count in range(1, len(lines) + 1):
        try:
            ((*cells,),) = csv.reader(["\n".join(lines[:count])], skipinitialspace=True, strict=True)
        except csv.Error as error:
            # The library says with the same exception that a quote is still open where its text ends.
            if "unexpected end of data" not in str(error):
                return RefusedRow(number, f"it is no CSV: {error}"), 0
        else:
            return CsvRow(number, tuple(cell.strip() for cell in cells)), count - 1
    return RefusedRow(number, "a quote in it is never closed"), 0
