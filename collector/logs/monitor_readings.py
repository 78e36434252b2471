"""Rows of dmon and pmon with the card and the instant that each is of, as far as it can be read."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from collector.logs.cells import INDEX_DIGITS, is_number
from collector.logs.log import LogOptions, RefusedRow
from collector.logs.log_text import LogText
from collector.logs.monitor_rows import INDEX, MonitorRow, monitor_columns, monitor_rows, named_monitor_columns
from collector.logs.monitor_times import MonitorTimes, snapshots
from domain.errors import InputError

_Told = TypeVar("_Told")


class MonitorReading(NamedTuple, Generic[_Told]):
    """What a good row tells: its line, its instant, the index of its card, and what was made of its cells."""

    line: int
    time_us: int
    card_index: str
    told: _Told


@dataclass(slots=True)
class _Row(Generic[_Told]):
    """A row, also where it is refused for the `reason`, since it has its place in a snapshot all the same.

    `part` tells it apart from other rows of its card; `index` is None where it cannot be read.
    """

    line: int
    index: str | None
    part: Hashable
    time_us: int | None = None
    told: _Told | None = None
    reason: str | None = None


class MonitorReadings(Generic[_Told]):
    """The rows of a log: `good` ones and `refused` ones, in their order, and `notes` on how they were read.

    `has_times` says whether rows have times of their own.
    """

    def __init__(
        self, text: LogText, options: LogOptions, parts: tuple[str, ...], tell: Callable[[MonitorRow, str], _Told]
    ) -> None:
        """`parts` are the columns that, beside the card's index, tell the rows of one snapshot apart.

        `tell` makes of a row and the index of its card what is wanted, and raises ValueError where it cannot. Raises
        InputError where the text does not say when its rows were read, naming the option that is needed.
        """
        self._path = str(text.path)
        self._options = options
        self._times = MonitorTimes(self._path, options)
        self._parts = parts
        self._tell = tell
        self._timeless: MonitorRow | None = None
        self.has_times = False
        named = None if options.columns is None else named_monitor_columns(options.columns)
        rows = [self._read(row) for row in monitor_rows(text, named)]
        if self._timeless is not None:
            self._give_times(rows, self._timeless)
        self.good = [
            MonitorReading(row.line, row.time_us, row.index, row.told)
            for row in rows
            if row.time_us is not None and row.index is not None and row.told is not None
        ]
        self.refused = [RefusedRow(row.line, row.reason) for row in rows if row.reason is not None]
        self.notes = list(self._times.notes())
        if options.gpus is not None:
            self.notes.append("--gpus was not needed: it names its cards")
        if options.columns is not None and monitor_columns(text) is not None:
            self.notes.append("--columns counted for rows above its first header only")

    def _read(self, row: MonitorRow) -> _Row[_Told]:
        cell = row.cells.get(INDEX, "")
        index = str(int(cell)) if is_number(cell, INDEX_DIGITS) else None
        read: _Row[_Told] = _Row(row.line, index, tuple(row.cells.get(part) for part in self._parts))
        try:
            if row.reason is not None:
                raise ValueError(row.reason)
            read.time_us = self._times.instant_us(row.cells)
            if index is None:
                raise ValueError(f"cannot read {cell[:40]!r} as the index of a card")
            read.told = self._tell(row, index)
        except ValueError as error:
            read.reason = str(error)
        else:
            self.has_times |= read.time_us is not None
            if read.time_us is None:
                self._timeless = self._timeless or row
        return read

    def _give_times(self, rows: list[_Row[_Told]], first: MonitorRow) -> None:
        """Gives rows without times, of which `first` is the first, those that a person said."""
        if self.has_times:
            raise InputError(
                f"cannot read the log {self._path!r}: line {first.line} has no time, where others have one; split it "
                "where its header changes"
            )
        numbers = list(snapshots((row.index, row.part) for row in rows))
        start_us, step_us = self._options.start_us, self._options.step_us
        if start_us is None or (step_us is None and numbers[-1] > 0):
            raise InputError(
                f"cannot read the log {self._path!r}: it has no times; say when it began with --start, and the seconds "
                "between the rows of a card with --step"
            )
        for row, number in zip(rows, numbers, strict=True):
            row.time_us = start_us + number * (step_us or 0)
        self._times.refuse_other_day(first.cells, start_us)
