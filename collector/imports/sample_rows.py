"""A row of a sample log as text, checked cell by cell: what is wrong is named with the row, column and value.

The same for every dress that such a log comes in: columns by name, one row per device (or owner on it) and time.
"""

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import NamedTuple

from collector.ranges import is_measurable, is_possible
from domain.errors import InputError
from domain.period import parse_instant
from domain.problems import listed
from domain.series import CATALOGUE, DEVICE, GPU_MEMORY_TOTAL, GPU_MEMORY_USED, OWNER, Series
from domain.slugs import check_name

TIME = "time"
_REQUIRED = (TIME, "node", "gpu_uuid")
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
    """A row of the log: its number in the file, the instant, and the cells that are not empty.

    A part of a series is one of `values`, as `parts.py` makes it. `counted` is what the number counts, from 1: lines,
    or rows where the file has no lines.
    """

    line: int
    time_us: int
    identity: Identity
    values: dict[Series, int | float]
    counted: str = "line"

    @property
    def place(self) -> str:
        """Where it stands, as messages say it."""
        return f"{self.counted} {self.line}"


class RowCheck:
    """Makes rows of cells, in the order of the file, and adds to `problems` what is wrong with the others.

    `cut_cells` counts whole bytes that had a fraction, which was cut.
    """

    def __init__(self, names: Sequence[str], path: Path, problems: list[str], counted: str = "line") -> None:
        """`names` are the header. Raises InputError naming every column that is unknown, twice there or missing."""
        self.cut_cells = 0
        self._problems = problems
        self._columns = _Columns.of(names, path)
        self._counted = counted
        self._last_us: dict[tuple[str, ...], int] = {}

    def row(self, number: int, cells: Sequence[str]) -> Row | None:
        """The row with that number; "" is a cell that is missing. None where something is wrong with it."""
        row = self._row(number, cells)
        if row is None:
            return None
        # Without its owner: those of a device are held against what it used at the time.
        device = row.identity[:3]
        if row.time_us < self._last_us.get(device, row.time_us):
            self._refuse(number, TIME, cells[self._columns.time], "before an earlier row of the device; sort by time")
            return None
        self._last_us[device] = row.time_us
        return row

    def _row(self, number: int, cells: Sequence[str]) -> Row | None:
        columns = self._columns
        if len(cells) != columns.count:
            self._problems.append(f"{self._counted} {number}: {len(cells)} cells, the header has {columns.count}")
            return None
        before = len(self._problems)
        try:
            time_us = columns.time_us(cells)
            identity = columns.identity(cells)
        except InputError as error:
            self._problems.append(f"{self._counted} {number}: {error}")
            return None
        values: dict[Series, int | float] = {}
        for index, series in columns.values:
            cell = cells[index]
            if not cell:
                continue
            if (series.labels == OWNER) != bool(identity.owner):
                wrong = "an owner's value without an owner" if not identity.owner else "a device's value with an owner"
                self._refuse(number, series.name, cell, wrong)
                continue
            value = self._value(number, series, cell)
            if value is not None:
                values[series] = value
        used_bytes, total_bytes = values.get(GPU_MEMORY_USED, 0), values.get(GPU_MEMORY_TOTAL)
        if total_bytes is not None and used_bytes > total_bytes:
            self._refuse(number, GPU_MEMORY_USED.name, str(used_bytes), f"more than the card's {total_bytes}")
        return None if len(self._problems) > before else Row(number, time_us, identity, values, self._counted)

    def _value(self, number: int, series: Series, cell: str) -> int | float | None:
        try:
            value = self._whole(cell) if series.whole else _number(cell)
        except ValueError:
            self._refuse(number, series.name, cell, "not a number")
            return None
        if not is_possible(series, value):
            self._refuse(number, series.name, cell, "no card can have it")
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

    def _refuse(self, number: int, column: str, cell: str, reason: str) -> None:
        self._problems.append(f"{self._counted} {number}: {column} {cell[:40]!r}: {reason}")


def _number(cell: str) -> float:
    # Python reads "1_000" and digits of other scripts; a log that has them is not what it seems.
    if not cell.isascii() or "_" in cell:
        raise ValueError(cell)
    return float(cell)


class _Columns:
    """Where in a row each thing stands."""

    def __init__(self, names: Sequence[str]) -> None:
        self.count = len(names)
        self.time = names.index(TIME)
        self._labels = [names.index(label) if label in names else None for label in OWNER]
        self.values = [(index, CATALOGUE[name]) for index, name in enumerate(names) if name not in (TIME, *OWNER)]
        # The same few devices and, in most logs, one time for all of them, row after row.
        self._identities: dict[tuple[str, ...], Identity] = {}
        self._last_time: tuple[str | None, int] = (None, 0)

    @classmethod
    def of(cls, names: Sequence[str], path: Path) -> "_Columns":
        """The columns of a header. Raises InputError naming every column that is unknown, twice there or missing."""
        values = {name for name, series in CATALOGUE.items() if _is_column(series)}
        allowed = {TIME, *OWNER, *values}
        problems = [f"unknown column {name!r}" for name in dict.fromkeys(names) if name not in allowed]
        problems += [f"column {name!r} is there twice" for name in dict.fromkeys(names) if names.count(name) > 1]
        problems += [f"column {name!r} is missing" for name in _REQUIRED if name not in names]
        if values.isdisjoint(names):
            problems.append("no column of values")
        if problems:
            raise InputError(
                f"cannot import {str(path)!r}: {listed(problems)}. Columns are {', '.join((TIME, *OWNER))} and "
                f"{', '.join(sorted(values))}"
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


def _is_column(series: Series) -> bool:
    """Whether the series has one value per row: one by reason or link would need a column for that."""
    return is_measurable(series) and series.labels in (DEVICE, OWNER)
