"""Logs of `nvidia-smi --query-gpu=... --format=csv`, in every dress that people keep them in.

The format is that of the program's own `--help-query-gpu`: a header of query names with units in brackets, cells with
units or without, blanks after commas.
"""

from collector.logs.columns import Columns, has_readings, named_columns, read_header
from collector.logs.csv_readings import Reading, RowReader
from collector.logs.csv_rows import CsvRow, csv_rows
from collector.logs.log import Log, LogCard, LogOptions, LogRow, RefusedRow
from collector.logs.log_text import LogText
from collector.logs.log_times import LogTimes
from collector.logs.turns import give_cards, give_times
from collector.logs.unnamed_columns import looks_like_reading, says_anything, suggested_names, unmistakable_names
from domain.errors import InputError

# How far the header may be from the first row: above it some write what they ran.
_FIRST_ROWS = 50
# What spreadsheets put between cells where a comma stands in numbers.
_OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs"}
_EXAMPLE = ("timestamp", "index", "utilization.gpu", "memory.used")


def is_query_csv(text: LogText) -> bool:
    """Whether one of the first rows is a header, whatever stands between its cells, or looks like a row of readings."""
    rows = [_cells(line) for line in text.first_lines(_FIRST_ROWS)]
    return _other_separator(text) is not None or any(read_header(cells) or looks_like_reading(cells) for cells in rows)


def read_query_csv(text: LogText, options: LogOptions) -> Log:
    """Every row as a reading, or refused with its reason: too few or too many cells, one that is empty or unreadable.

    A header is no reading and not refused, wherever it stands; one with other names holds from there on. Blank lines
    are no rows. Raises InputError, naming the option that is needed, where the text does not say when its rows were
    read, of which card, or what its columns are, and where its cells are apart by something else than commas.
    """
    return _QueryCsv(text, options).log()


class _QueryCsv:
    def __init__(self, text: LogText, options: LogOptions) -> None:
        self._text = text
        self._path = str(text.path)
        self._options = options
        self._times = LogTimes(options.zone, options.start_us)
        self._notes: list[str] = []
        self._readings: list[Reading] = []
        self._header: tuple[str, ...] | None = None
        columns = self._first_columns()
        # None above the header.
        self._reader = RowReader(columns, self._times) if columns else None

    def log(self) -> Log:
        for row in csv_rows(self._text):
            if isinstance(row, RefusedRow):
                takes_turn = self._reader is not None and self._reader.takes_turns
                self._readings.append(Reading(row.line, takes_turn, LogCard(None), reason=row.reason))
            elif not self._is_header(row):
                self._read(row)
        give_cards(self._path, self._readings, self._options.gpus)
        self._give_times()
        self._note_what_was_not_needed()
        rows = tuple(
            LogRow(each.line, each.time_us, each.card, each.values)
            for each in self._readings
            if each.reason is None and each.time_us is not None and each.values is not None
        )
        refused = tuple(RefusedRow(each.line, each.reason) for each in self._readings if each.reason is not None)
        return Log(rows, refused, tuple(self._notes))

    def _first_columns(self) -> Columns | None:
        """The columns before the first header; None where there is one to come."""
        if (separator := _other_separator(self._text)) is not None:
            raise InputError(
                f"cannot read the log {self._path!r}: its cells are apart by {separator}; save it with commas, and "
                "with points in its numbers"
            )
        if self._options.columns is not None:
            return named_columns(self._options.columns)
        rows = [_cells(line) for line in self._text.first_lines(_FIRST_ROWS)]
        if any(read_header(cells) for cells in rows):
            return None
        cells = next(cells for cells in rows if looks_like_reading(cells))
        names = unmistakable_names(cells)
        if names is not None:
            self._notes.append(f"it has no header and was read as {','.join(names)}; --columns says it otherwise")
            return named_columns(names)
        suggested = suggested_names(cells)
        times = "" if "timestamp" in suggested else ", and its times with --start and --step"
        if not says_anything(suggested):
            suggested = _EXAMPLE
        raise InputError(
            f"cannot read the log {self._path!r}: it has no header; name its columns by nvidia-smi's query names, - to "
            f"skip one, such as --columns {','.join(suggested)}{times}"
        )

    def _is_header(self, row: CsvRow) -> bool:
        columns = read_header(row.cells)
        if self._options.columns is not None:
            # The first row of a log whose columns a person had to name may be a header with any names.
            if not self._readings and self._header is None and not has_readings(row.cells):
                self._header = row.cells
            return columns is not None or row.cells == self._header
        if columns is not None and (self._reader is None or columns != self._reader.columns):
            if not columns.has_values:
                raise InputError(
                    f"cannot read the log {self._path!r}: no column of line {row.line} is a value of a card; log "
                    "utilization.gpu and memory.used, or name the columns with --columns"
                )
            self._reader = RowReader(columns, self._times)
            self._notes += [
                f"several of its columns are called {name!r}: the first counts" for name in columns.repeated
            ]
        return columns is not None

    def _read(self, row: CsvRow) -> None:
        if self._reader is None:
            self._readings.append(Reading(row.line, False, LogCard(None), reason="it stands above the header"))
            return
        if not self._reader.has_times and None in (self._options.start_us, self._options.step_us):
            raise InputError(
                f"cannot read the log {self._path!r}: it has no times; say when it began with --start, and the seconds "
                "between its rows with --step"
            )
        self._readings.append(self._reader.read(row))
        if self._times.is_relative and self._options.start_us is None:
            raise InputError(
                f"cannot read the log {self._path!r}: its times count from its beginning; say when it began with "
                "--start"
            )

    def _give_times(self) -> None:
        if self._reader is None or self._reader.has_times:
            return
        start_us, step_us = self._options.start_us, self._options.step_us
        if start_us is not None and step_us is not None:
            give_times(self._readings, start_us, step_us)

    def _note_what_was_not_needed(self) -> None:
        has_times = self._reader is not None and self._reader.has_times
        if has_times and self._options.step_us is not None:
            self._notes.append("--step was not needed: its rows have times")
        if has_times and self._options.start_us is not None and not self._times.is_relative:
            self._notes.append("--start was not needed: its times are dates")
        if self._options.gpus is not None and not any(each.takes_turn for each in self._readings):
            self._notes.append("--gpus was not needed: it names its cards")
        if self._times.guess:
            self._notes.append(self._times.guess)


def _cells(line: str, separator: str = ",") -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.split(separator))


def _other_separator(text: LogText) -> str | None:
    """What stands between the cells of a header in place of commas; None where commas do, or there is no header."""
    lines = text.first_lines(_FIRST_ROWS)
    if any(read_header(_cells(line)) for line in lines):
        return None
    for separator, name in _OTHER_SEPARATORS.items():
        if any(separator in line and read_header(_cells(line, separator)) for line in lines):
            return name
    return None
