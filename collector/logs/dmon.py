"""Logs of `nvidia-smi dmon`: a row for each card, and for each MIG instance where its metrics were asked for.

What a column means is told by the manual page of nvidia-smi. Not read are what no series is made of: throttling as a
share of time or as a flag, BAR1 and protected memory, errors of unknown kind, and PCIe throughput, which is that of a
moment and no count of bytes. An older driver than 510 counts what it reserves as used memory.
"""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from collector.dcgm.mig_names import mig_name
from collector.logs.cells import UNITS, is_cannot_tell, is_number, read_value
from collector.logs.log import Log, LogCard, LogOptions, LogRow
from collector.logs.log_text import LogText
from collector.logs.monitor_readings import MonitorReadings
from collector.logs.monitor_rows import CANNOT_TELL, INDEX, MonitorColumns, MonitorRow, monitor_columns
from domain.series import (
    GPU_BUSY,
    GPU_DECODER_BUSY,
    GPU_DRAM_ACTIVE,
    GPU_ENCODER_BUSY,
    GPU_FP16_ACTIVE,
    GPU_FP32_ACTIVE,
    GPU_FP64_ACTIVE,
    GPU_GR_ACTIVE,
    GPU_JPEG_BUSY,
    GPU_MEMORY_BUSY,
    GPU_MEMORY_CLOCK,
    GPU_MEMORY_TEMPERATURE,
    GPU_MEMORY_USED,
    GPU_OFA_BUSY,
    GPU_POWER,
    GPU_SM_ACTIVE,
    GPU_SM_CLOCK,
    GPU_SM_OCCUPANCY,
    GPU_TEMPERATURE,
    GPU_TENSOR_ACTIVE,
    Series,
)

# Of Hopper and later, `--gpm-metrics`: what a MIG instance has of its own.
_OF_ANY: Mapping[str, Series] = {
    "gract": GPU_GR_ACTIVE,
    "smutil": GPU_SM_ACTIVE,
    "smocc": GPU_SM_OCCUPANCY,
    "mmaact": GPU_TENSOR_ACTIVE,
    "dram": GPU_DRAM_ACTIVE,
    "fp64": GPU_FP64_ACTIVE,
    "fp32": GPU_FP32_ACTIVE,
    "fp16": GPU_FP16_ACTIVE,
}
_OF_CARD: Mapping[str, Series] = {
    "pwr": GPU_POWER,
    # Its name before memory had a thermometer.
    "temp": GPU_TEMPERATURE,
    "gtemp": GPU_TEMPERATURE,
    "mtemp": GPU_MEMORY_TEMPERATURE,
    "sm": GPU_BUSY,
    "mem": GPU_MEMORY_BUSY,
    "enc": GPU_ENCODER_BUSY,
    "dec": GPU_DECODER_BUSY,
    "jpg": GPU_JPEG_BUSY,
    "ofa": GPU_OFA_BUSY,
    "mclk": GPU_MEMORY_CLOCK,
    "pclk": GPU_SM_CLOCK,
    "fb": GPU_MEMORY_USED,
    **_OF_ANY,
}
# On a card with MIG instances they are missing, or 0 under full load.
_WITHOUT_MIG = (GPU_BUSY, GPU_MEMORY_BUSY)
_GI = "gi_id"
_INSTANCE = ("mig_id", _GI, "ci_id")
_UNITS_OF_NUMBERS = ("idx", "id")
_GPM = "gpm:"

_Values = dict[Series, int | Fraction]


def is_dmon(text: LogText) -> bool:
    """Whether a header of cards is near the beginning."""
    columns = monitor_columns(text)
    return columns is not None and not columns.is_of_processes


def read_dmon(text: LogText, options: LogOptions) -> Log:
    """Every row as a reading, or refused with its reason: too few or too many cells, or one that cannot be read.

    "-" is what a card cannot tell, and what a column is that is not known here is not read. A MIG instance is known by
    its number only, and is called `MIG-<index of the card>/<number>/0`. Raises InputError, naming the option that is
    needed, where the text does not say when its rows were read.
    """
    reader = _RowReader()
    readings = MonitorReadings(text, options, _INSTANCE, reader.read)
    rows = [LogRow(each.line, each.time_us, *each.told) for each in readings.good]
    return Log(_without_mig(rows), tuple(readings.refused), (*readings.notes, *reader.notes))


class _RowReader:
    """Reads the cells of rows, header by header."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._below: MonitorColumns | None = None
        self._units: dict[str, str] = {}
        # The same few cells come again and again.
        self._known: dict[tuple[str, str, str], int | Fraction | None] = {}

    def read(self, row: MonitorRow, index: str) -> tuple[LogCard, _Values]:
        """What the row is of, and what it says; ValueError with the reason where a cell cannot be read."""
        card = _card(row, index)
        if row.columns is not self._below:
            self._below = row.columns
            self._units = self._readable(row.columns)
        values: _Values = {}
        for name, series in (_OF_ANY if card.mig_uuid else _OF_CARD).items():
            if name in self._units:
                value = self._value(series, name, row.cells[name])
                if value is not None:
                    values[series] = value
        return card, values

    def _value(self, series: Series, name: str, cell: str) -> int | Fraction | None:
        key = name, cell, self._units[name]
        if key not in self._known:
            try:
                self._known[key] = None if cell == CANNOT_TELL else read_value(series, cell, self._units[name])
            except ValueError as error:
                raise ValueError(f"{error} in {name!r}") from None
        return self._known[key]

    def _readable(self, columns: MonitorColumns) -> dict[str, str]:
        """The unit of each column that is of use; one in a unit of another kind is none."""
        units: dict[str, str] = {}
        for name, series in _OF_CARD.items():
            if name not in columns.names:
                continue
            unit = columns.unit(name).removeprefix(_GPM)
            if unit in UNITS[series.unit]:
                units[name] = unit
                continue
            note = f"its column {name!r} is in {columns.unit(name)!r}, which is no {series.unit}: it was not read"
            if note not in self.notes:
                self.notes.append(note)
        return units


def _card(row: MonitorRow, index: str) -> LogCard:
    """The card or instance that the row is of. Raises ValueError where it is of a part that has no name."""
    for name, unit in zip(row.columns.names, row.columns.units, strict=True):
        if unit in _UNITS_OF_NUMBERS and name not in (INDEX, *_INSTANCE) and not _is_nothing(row.cells[name]):
            raise ValueError(f"it is of a part of the card by its column {name!r}, and what that is is not known")
    if all(_is_nothing(row.cells.get(name, CANNOT_TELL)) for name in _INSTANCE):
        return LogCard(index)
    number = row.cells.get(_GI, "")
    if not is_number(number, 2):
        raise ValueError(f"it is of a MIG instance, and {_GI!r} does not tell which")
    return LogCard(index, mig_uuid=mig_name(index, int(number)))


def _is_nothing(cell: str) -> bool:
    return cell == CANNOT_TELL or is_cannot_tell(cell)


def _without_mig(rows: list[LogRow]) -> tuple[LogRow, ...]:
    """The rows without what a card cannot tell of itself while it has instances."""
    divided = {(row.card.index, row.time_us) for row in rows if row.card.mig_uuid is not None}
    return tuple(
        replace(row, values={series: value for series, value in row.values.items() if series not in _WITHOUT_MIG})
        if row.card.mig_uuid is None and (row.card.index, row.time_us) in divided
        else row
        for row in rows
    )
