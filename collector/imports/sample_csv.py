"""Sample CSV: a log of readings, one row per device (or owner on it) and time, columns by name.

`time` and `node`, `gpu_uuid`, `mig_uuid`, `owner` say what a row is about; every other column is a value series of
the catalogue. An empty cell is a missing reading, not 0. A row with an owner has the owner's values, one without has
the device's; those of one device and its owners come in the order of time. Whole bytes with a fraction are cut
(21619802112.75 is 21619802112): what is stored must come back exact.
"""

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import NamedTuple, TextIO

from collector.imports.unchanged_file import UnchangedFile
from collector.ranges import is_measurable, is_possible
from domain.errors import InputError
from domain.period import parse_instant
from domain.problems import SHOWN_PROBLEMS, listed
from domain.series import CATALOGUE, GPU_MEMORY_TOTAL, GPU_MEMORY_USED, OWNER, Series
from domain.slugs import check_name

_TIME = "time"
_REQUIRED = (_TIME, "node", "gpu_uuid")
_PROGRESS_ROWS = 5_000
# More than any card counts of anything.
_BEYOND_ANY = Decimal(2**64)


class Identity(NamedTuple):
    """What a row is about; `mig_uuid` and `owner` are "" where it is the card itself, or nobody's part."""

    node: str
    gpu_uuid: str
    mig_uuid: str
    owner: str

    @property
    def labels(self) -> dict[str, str]:
        """As the labels of a series."""
        return self._asdict()


class Row(NamedTuple):
    """A row of the log: its line in the file, the instant, and the cells that are not empty."""

    line: int
    time_us: int
    identity: Identity
    values: dict[Series, int | float]


@dataclass
class SampleFile:
    """A sample CSV on its way in, as it was when it was first read.

    `problems` and `cut_cells` are of the latest reading, and grow with it.
    """

    path: Path
    problems: list[str] = field(default_factory=list)
    cut_cells: int = 0
    _file: UnchangedFile | None = field(default=None, init=False, repr=False)

    def rows(self, advance: Callable[[int], None]) -> Iterator[Row]:
        """Every good row; what is wrong with the others is in `problems`, after 20 of which reading ends.

        `advance` is told how many characters were read since its last call. Raises InputError where the file or
        its header cannot be used at all.
        """
        self.problems.clear()
        self.cut_cells = 0
        try:
            if self._file is None:
                self._file = UnchangedFile(self.path)
            with self._file.open() as file:
                yield from self._rows(file, advance)
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise InputError(f"cannot read the samples {str(self.path)!r}: {error}; give a CSV in UTF-8") from error

    def is_changed(self) -> bool:
        """Whether the file is no longer what the first reading found good."""
        return bool(self.problems) or self._file is None or self._file.is_changed()

    def _rows(self, file: TextIO, advance: Callable[[int], None]) -> Iterator[Row]:
        meter = _Meter(file)
        reader = csv.reader(meter)
        columns = _Columns.of(next(reader, []), self.path)
        last_us: dict[tuple[str, ...], int] = {}
        for number, cells in enumerate(reader, start=1):
            if len(self.problems) > SHOWN_PROBLEMS:
                return
            if number % _PROGRESS_ROWS == 0:
                advance(meter.take())
            if not cells:
                continue
            row = self._row(reader.line_num, cells, columns)
            if row is None:
                continue
            # Without its owner: those of a device are held against what it used at the time.
            device = row.identity[:3]
            if row.time_us < last_us.get(device, row.time_us):
                self._refuse(row.line, _TIME, cells[columns.time], "before an earlier row of the device; sort by time")
                continue
            last_us[device] = row.time_us
            yield row
        advance(meter.take())

    def _row(self, line: int, cells: Sequence[str], columns: "_Columns") -> Row | None:
        if len(cells) != columns.count:
            self.problems.append(f"line {line}: {len(cells)} cells, the header has {columns.count}")
            return None
        before = len(self.problems)
        try:
            time_us = columns.time_us(cells)
            identity = columns.identity(cells)
        except InputError as error:
            self.problems.append(f"line {line}: {error}")
            return None
        values: dict[Series, int | float] = {}
        for index, series in columns.values:
            cell = cells[index]
            if not cell:
                continue
            if (series.labels == OWNER) != bool(identity.owner):
                wrong = "an owner's value without an owner" if not identity.owner else "a device's value with an owner"
                self._refuse(line, series.name, cell, wrong)
                continue
            value = self._value(line, series, cell)
            if value is not None:
                values[series] = value
        used_bytes, total_bytes = values.get(GPU_MEMORY_USED, 0), values.get(GPU_MEMORY_TOTAL)
        if total_bytes is not None and used_bytes > total_bytes:
            self._refuse(line, GPU_MEMORY_USED.name, str(used_bytes), f"more than the card's {total_bytes}")
        return None if len(self.problems) > before else Row(line, time_us, identity, values)

    def _value(self, line: int, series: Series, cell: str) -> int | float | None:
        try:
            value = self._whole(cell) if series.whole else _number(cell)
        except ValueError:
            self._refuse(line, series.name, cell, "not a number")
            return None
        if value is None or not is_possible(series, value):
            self._refuse(line, series.name, cell, "no card can have it")
            return None
        return value

    def _whole(self, cell: str) -> int:
        if cell.isdecimal() and cell.isascii():
            return int(cell)
        try:
            exact = Decimal(cell if cell.isascii() and "_" not in cell else "")
            # As an integer a short "1e99999999" would fill the memory.
            whole = int(max(-_BEYOND_ANY, min(_BEYOND_ANY, exact)))
        except (InvalidOperation, ValueError, OverflowError) as error:
            raise ValueError(cell) from error
        self.cut_cells += whole != exact
        return whole

    def _refuse(self, line: int, column: str, cell: str, reason: str) -> None:
        self.problems.append(f"line {line}: {column} {cell[:40]!r}: {reason}")


def _number(cell: str) -> float:
    # Python reads "1_000" and digits of other scripts; a log that has them is not what it seems.
    if not cell.isascii() or "_" in cell:
        raise ValueError(cell)
    return float(cell)


class _Columns:
    """Where in a row each thing stands."""

    def __init__(self, names: Sequence[str]) -> None:
        self.count = len(names)
        self.time = names.index(_TIME)
        self._labels = [names.index(label) if label in names else None for label in OWNER]
        self.values = [(index, CATALOGUE[name]) for index, name in enumerate(names) if name not in (_TIME, *OWNER)]
        # The same few devices and, in most logs, one time for all of them, row after row.
        self._identities: dict[tuple[str, ...], Identity] = {}
        self._last_time: tuple[str | None, int] = (None, 0)

    @classmethod
    def of(cls, names: Sequence[str], path: Path) -> "_Columns":
        """The columns of a header. Raises InputError naming every column that is unknown, twice there or missing."""
        allowed = {_TIME, *OWNER, *(name for name, series in CATALOGUE.items() if is_measurable(series))}
        problems = [f"unknown column {name!r}" for name in dict.fromkeys(names) if name not in allowed]
        problems += [f"column {name!r} is there twice" for name in dict.fromkeys(names) if names.count(name) > 1]
        problems += [f"column {name!r} is missing" for name in _REQUIRED if name not in names]
        if not any(name in CATALOGUE for name in names):
            problems.append("no column of values")
        if problems:
            raise InputError(
                f"cannot import {str(path)!r}: {listed(problems)}. Columns are {', '.join((_TIME, *OWNER))} and "
                f"{', '.join(sorted(allowed - {_TIME, *OWNER}))}"
            )
        return cls(names)

    def time_us(self, cells: Sequence[str]) -> int:
        """The row's instant. Raises InputError."""
        text, time_us = self._last_time
        if cells[self.time] != text:
            time_us = parse_instant(cells[self.time])
            if time_us < 0:
                raise InputError(f"cannot use the time {cells[self.time]!r}: it is before 1970")
            self._last_time = cells[self.time], time_us
        return time_us

    def identity(self, cells: Sequence[str]) -> Identity:
        """What the row is about. Raises InputError."""
        texts = tuple("" if index is None else cells[index] for index in self._labels)
        found = self._identities.get(texts)
        if found is None:
            found = Identity(*texts)
            check_name("node", found.node)
            check_name("GPU UUID", found.gpu_uuid)
            for kind, text in (("MIG UUID", found.mig_uuid), ("owner", found.owner)):
                if text:
                    check_name(kind, text)
            self._identities[texts] = found
        return found


class _Meter:
    """Counts the characters of a file that is read line by line."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._characters = 0

    def __iter__(self) -> Iterator[str]:
        for line in self._file:
            self._characters += len(line)
            yield line

    def take(self) -> int:
        characters, self._characters = self._characters, 0
        return characters
