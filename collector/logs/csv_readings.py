"""A row of a CSV as a reading of a card, as far as the row can be read."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from collector.logs.cells import INDEX_DIGITS, check_memory, is_number, read_value
from collector.logs.columns import Column, Columns, Role
from collector.logs.csv_rows import CsvRow
from collector.logs.log import LogCard
from collector.logs.log_times import LogTimes
from domain.series import Series

Values = Mapping[Series, int | Fraction]


@dataclass(slots=True)
class Reading:
    """What a row says, also where it is refused, since it takes its turn among the cards all the same.

    `time_us` is None where the log has no times or this one cannot be read; `reason` is None where the row is good.
    `takes_turn` is true where no column names the card, and `card` then has no index.
    """

    line: int
    takes_turn: bool
    card: LogCard
    time_us: int | None = None
    values: Values | None = None
    reason: str | None = None


class RowReader:
    """Reads the rows under one header."""

    def __init__(self, columns: Columns, times: LogTimes) -> None:
        self.columns = columns
        self._times = times
        self._time = columns.by_meaning.get(Role.TIME) or columns.by_meaning.get(Role.ELAPSED)
        self._index = columns.by_meaning.get(Role.INDEX)
        self._uuid = columns.by_meaning.get(Role.UUID)
        self._bus = columns.by_meaning.get(Role.PCI_BUS)
        self._model = columns.by_meaning.get(Role.MODEL)
        self._is_index_known = False
        self._cards: dict[tuple[str | None, ...], LogCard] = {}
        # The same few cells come again and again: what they were read as, by column.
        self._measured: list[tuple[Series, Column, dict[str, int | Fraction | None]]] = [
            (series, column, {}) for series, column in columns.values
        ]

    @property
    def has_times(self) -> bool:
        """Whether a column says when a row was read."""
        return self._time is not None

    @property
    def takes_turns(self) -> bool:
        """Whether no column says which card a row is of."""
        return self._index is None and self._uuid is None and self._bus is None

    def read(self, row: CsvRow) -> Reading:
        """The row's reading, with the reason where it is refused."""
        if len(row.cells) == self.columns.width:
            self._look_at_index(row.cells)
        reading = Reading(row.line, self.takes_turns, LogCard(None))
        try:
            self._check_cells(row.cells)
            if self._time is not None:
                reading.time_us = self._times.instant_us(row.cells[self._time.place])
            reading.card = self._card(row.cells)
            reading.values = self._values(row.cells)
        except ValueError as error:
            reading.reason = str(error)
        return reading

    def _look_at_index(self, cells: tuple[str, ...]) -> None:
        """A column that is called GPU and holds names is no index, which the first row tells."""
        index = self._index
        if index is None or self._is_index_known:
            return
        self._is_index_known = True
        if index.may_be_index_or_name and not is_number(cells[index.place], INDEX_DIGITS):
            self._model = self._model or index
            self._index = None

    def _check_cells(self, cells: tuple[str, ...]) -> None:
        width = self.columns.width
        if len(cells) < width:
            raise ValueError(f"it has {len(cells)} cells of {width}")
        for column in self.columns.filled:
            if column.place < len(cells) and not cells[column.place]:
                raise ValueError(f"its cell of {column.name!r} is empty")
        if len(cells) > width:
            raise ValueError(f"it has {len(cells)} cells where {width} are expected")

    def _card(self, cells: tuple[str, ...]) -> LogCard:
        key = tuple(
            None if column is None else cells[column.place]
            for column in (self._index, self._uuid, self._bus, self._model)
        )
        if key in self._cards:
            return self._cards[key]
        index, uuid, bus, model = key
        if index is not None and not is_number(index, INDEX_DIGITS):
            raise ValueError(f"cannot read {index[:40]!r} as the index of a card")
        # Without an index the address on the bus tells cards apart as well.
        number = str(int(index)) if index is not None else bus if uuid is None else None
        return self._cards.setdefault(key, LogCard(number, gpu_uuid=uuid, model=model))

    def _values(self, cells: tuple[str, ...]) -> Values:
        values: dict[Series, int | Fraction] = {}
        for series, column, known in self._measured:
            cell = cells[column.place]
            if cell not in known:
                try:
                    known[cell] = read_value(series, cell, column.unit)
                except ValueError as error:
                    raise ValueError(f"{error} in {column.name!r}") from None
            value = known[cell]
            if value is not None:
                values[series] = value
        check_memory(values)
        return values
