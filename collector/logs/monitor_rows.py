"""What `nvidia-smi dmon` and `nvidia-smi pmon` scroll: rows below names and units, which come again now and then.

    #Date       Time        gpu    pwr  gtemp  mtemp     sm    mem
    #YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %
     20240116   14:44:16      0     98     45      -      8      3

Which columns there are depends on the driver and on what was asked for, so a cell is what the header above it says
(the manual page of nvidia-smi, "Device Monitoring" and "Process Monitoring"). `--format csv` puts commas between the
cells, `nounit` leaves the second line out and `noheader` the first.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from collector.logs.log_text import LogText

INDEX, DATE, TIME, PID = "gpu", "date", "time", "pid"
CANNOT_TELL = "-"
# One of these beside the card's index makes a header; other words may follow "#" in any file.
_OF_CARDS = frozenset(
    {"pwr", "temp", "gtemp", "mtemp", "sm", "mem", "enc", "dec", "jpg", "ofa", "mclk", "pclk", "pviol", "tviol"}
    | {"fb", "bar1", "ccpm", "sbecc", "dbecc", "pci", "rxpci", "txpci"}
    | {"gract", "smutil", "smocc", "mmaact", "dram", "fp64", "fp32", "fp16"}
)
_OF_PROCESSES = frozenset({"type", "sm", "mem", "enc", "dec", "jpg", "ofa", "fb", "ccpm", "command"})
# Headers come again when a screen is full, so one is not far from wherever a log was cut.
_LOOKED_AT_LINES = 200
_SHOWN_ROWS = 3
_UNIT_OF_INDEX = "idx"
_LOOSE_CELL = re.compile(r"-|[0-9]{1,10}|[0-9]{2}:[0-9]{2}:[0-9]{2}")


class MonitorColumns(NamedTuple):
    """The columns below a header: their names in small letters, and their units ("" where there is none)."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    is_csv: bool

    @property
    def is_of_processes(self) -> bool:
        """Whether a row is of a process, not of a card."""
        return PID in self.names

    def unit(self, name: str) -> str:
        """The unit of the column in small letters, "" where it has none; KeyError where there is no such column."""
        return dict(zip(self.names, self.units, strict=True))[name]

    def cells(self, line: str) -> list[str]:
        """The cells of a row. What a process is called stands last, and may have blanks and commas of its own."""
        most = len(self.names) - 1 if self.is_of_processes else -1
        if self.is_csv:
            return [cell.strip() for cell in line.split(",", most)]
        return line.split(None, most)


class MonitorRow(NamedTuple):
    """A row with its line (from 1) and its cells by column; `reason` says why it cannot be used, None where it can.

    A row that is cut has the cells that are left.
    """

    line: int
    columns: MonitorColumns
    cells: Mapping[str, str]
    reason: str | None


def monitor_columns(text: LogText) -> MonitorColumns | None:
    """The columns of the first header; None where no header is near the beginning."""
    found = (_header(line) for line in text.first_lines(_LOOKED_AT_LINES))
    return next((columns for columns in found if columns), None)


def named_monitor_columns(names: Sequence[str]) -> MonitorColumns | None:
    """The columns that a person names by the words of such a header; None where the names are of another kind."""
    words = tuple(name.lower() for name in names)
    known = {INDEX, DATE, TIME, PID, CANNOT_TELL, *_OF_CARDS, *_OF_PROCESSES}
    return _columns(words, is_csv=False) if known.issuperset(words) else None


def looks_like_rows(text: LogText) -> bool:
    """Whether the first lines are nothing but whole numbers, times of day and "-", as rows without a header are."""
    rows = [line.replace(",", " ").split() for line in text.first_lines(_SHOWN_ROWS)]
    return all(len(cells) > 1 and all(_LOOSE_CELL.fullmatch(cell) for cell in cells) for cells in rows)


def monitor_rows(text: LogText, named: MonitorColumns | None) -> Iterator[MonitorRow]:
    """Every row in order; headers, units, other lines that begin with "#" and blank ones are none.

    `named` are the columns of the rows above the first header.
    """
    columns = named and named._replace(is_csv=any("," in line for line in text.first_lines(_SHOWN_ROWS)))
    reason = "it stands above the header"
    for number, line in text.lines():
        words = line.strip()
        if not words:
            continue
        if words.startswith("#"):
            header = _header(words)
            if header is not None:
                columns = header
            elif columns is not None and (units := _units(words, columns)) is not None:
                is_whole = len(units) == len(columns.names)
                columns = columns._replace(units=units) if is_whole else None
                reason = "the header above it is cut"
            continue
        yield _row(number, words, columns) if columns else MonitorRow(number, _NO_COLUMNS, {}, reason)


_NO_COLUMNS = MonitorColumns((), (), False)


def _row(number: int, words: str, columns: MonitorColumns) -> MonitorRow:
    cells, width = columns.cells(words), len(columns.names)
    reason = None
    if len(cells) < width:
        reason = f"it has {len(cells)} cells of {width}"
    elif len(cells) > width:
        reason = f"it has {len(cells)} cells where {width} are expected"
    elif "" in cells:
        reason = f"its cell of {columns.names[cells.index('')]!r} is empty"
    return MonitorRow(number, columns, dict(zip(columns.names, cells, strict=False)), reason)


def _header(line: str) -> MonitorColumns | None:
    return _columns(_words(line), "," in line) if line.startswith("#") else None


def _columns(names: tuple[str, ...], is_csv: bool) -> MonitorColumns | None:
    kind = _OF_PROCESSES if PID in names else _OF_CARDS
    is_header = INDEX in names and not kind.isdisjoint(names)
    return MonitorColumns(names, ("",) * len(names), is_csv) if is_header else None


def _units(line: str, columns: MonitorColumns) -> tuple[str, ...] | None:
    """The units that the line tells; None where it is a comment, or the columns have theirs."""
    words, place = _words(line), columns.names.index(INDEX)
    return words if words[place : place + 1] == (_UNIT_OF_INDEX,) and not any(columns.units) else None


def _words(line: str) -> tuple[str, ...]:
    body = line.removeprefix("#").strip().lower()
    return tuple(word.strip() for word in body.split(",")) if "," in body else tuple(body.split())
