"""Sample CSV: a log of readings, one row per device (or owner on it) and time, columns by name.

`time` and `node`, `gpu_uuid`, `mig_uuid`, `owner` say what a row is about; every other column is a value series of
the catalogue. An empty cell is a missing reading, not 0. A row with an owner has the owner's values, one without has
the device's; those of one device and its owners come in the order of time. Whole bytes with a fraction are cut
(21619802112.75 is 21619802112): what is stored must come back exact.
"""

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from collector.imports.sample_rows import Row, RowCheck
from collector.imports.unchanged_file import UnchangedFile
from domain.errors import InputError
from domain.problems import SHOWN_PROBLEMS

_PROGRESS_ROWS = 5_000


@dataclass
class SampleFile:
    """A sample CSV on its way in, as it was when it was first read.

    `problems` and `cut_cells` are of the latest reading, and grow with it.
    """

    path: Path
    problems: list[str] = field(default_factory=list)
    _check: RowCheck | None = field(default=None, init=False, repr=False)
    _file: UnchangedFile | None = field(default=None, init=False, repr=False)

    @property
    def cut_cells(self) -> int:
        """Whole bytes that had a fraction."""
        return 0 if self._check is None else self._check.cut_cells

    def rows(self, advance: Callable[[int], None]) -> Iterator[Row]:
        """Every good row; what is wrong with the others is in `problems`, after 20 of which reading ends.

        `advance` is told how many characters were read since its last call. Raises InputError where the file or
        its header cannot be used at all.
        """
        self.problems.clear()
        self._check = None
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
        check = self._check = RowCheck(next(reader, []), self.path, self.problems)
        for number, cells in enumerate(reader, start=1):
            if len(self.problems) > SHOWN_PROBLEMS:
                return
            if number % _PROGRESS_ROWS == 0:
                advance(meter.take())
            if cells and (row := check.row(reader.line_num, cells)) is not None:
                yield row
        advance(meter.take())


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
