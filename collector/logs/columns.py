"""Which column of a CSV is what: nvidia-smi's query names, and what people rename them to."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from collector.logs.cells import UNITS, is_cannot_tell
from domain.errors import InputError
from domain.series import (
    GPU_BUSY,
    GPU_DECODER_BUSY,
    GPU_ENCODER_BUSY,
    GPU_JPEG_BUSY,
    GPU_MEMORY_BUSY,
    GPU_MEMORY_CLOCK,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_TEMPERATURE,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_OFA_BUSY,
    GPU_POWER,
    GPU_SM_CLOCK,
    GPU_TEMPERATURE,
    Series,
)


class Role(Enum):
    """What a column says that is no value of the card."""

    TIME = auto()
    ELAPSED = auto()
    INDEX = auto()
    UUID = auto()
    PCI_BUS = auto()
    MODEL = auto()


Meaning = Role | Series

# Under these some write the card's index, and some what it is called.
_INDEX_OR_NAME = ("gpu id", "gpu", "device id", "device")
# Words of a name -> what it means. Of several columns with one meaning the name that stands first here is taken.
_NAMES: dict[str, Meaning] = {
    **dict.fromkeys(("timestamp", "time", "datetime", "date time"), Role.TIME),
    **dict.fromkeys(("relative time", "elapsed", "elapsed time", "elapsed seconds"), Role.ELAPSED),
    **dict.fromkeys(("index", "gpu index", "gpu idx", *_INDEX_OR_NAME), Role.INDEX),
    **dict.fromkeys(("uuid", "gpu uuid"), Role.UUID),
    **dict.fromkeys(("pci bus id", "gpu bus id", "bus id"), Role.PCI_BUS),
    **dict.fromkeys(("name", "gpu name", "model", "gpu model", "product name"), Role.MODEL),
    **dict.fromkeys(("utilization gpu", "gpu utilization", "gpu util", "util gpu", "utilization", "util"), GPU_BUSY),
    **dict.fromkeys(("gpu usage", "gpu load", "gpu %", "gpu percent"), GPU_BUSY),
    **dict.fromkeys(("memory used", "used memory", "gpu memory used", "mem used", "vram used"), GPU_MEMORY_USED),
    **dict.fromkeys(("memory total", "total memory", "gpu memory total", "mem total", "vram total"), GPU_MEMORY_TOTAL),
    "memory reserved": GPU_MEMORY_RESERVED,
    **dict.fromkeys(("power draw", "power draw instant", "power draw average", "power", "gpu power"), GPU_POWER),
    **dict.fromkeys(("temperature gpu", "gpu temperature", "temperature", "gpu temp", "temp"), GPU_TEMPERATURE),
    # By the program's own names only: to some a memory's utilization is how much of it is used.
    "utilization memory": GPU_MEMORY_BUSY,
    "utilization encoder": GPU_ENCODER_BUSY,
    "utilization decoder": GPU_DECODER_BUSY,
    "utilization jpeg": GPU_JPEG_BUSY,
    "utilization ofa": GPU_OFA_BUSY,
    "temperature memory": GPU_MEMORY_TEMPERATURE,
    **dict.fromkeys(("clocks current sm", "clocks sm", "sm clock"), GPU_SM_CLOCK),
    **dict.fromkeys(("clocks current memory", "clocks mem", "memory clock", "mem clock"), GPU_MEMORY_CLOCK),
}
_RANK = {name: rank for rank, name in enumerate(_NAMES)}
# In a log of processes, which have no row for a card, this is what each of them uses.
_PROCESS, _USED_BY_PROCESS = "pid", "used memory"
# Text that nvidia-smi itself writes as nothing.
_MAY_BE_EMPTY = "platform."
_WORD = re.compile(r"[a-z0-9]+|%")
_BEGINS_VALUE = re.compile(r"[+-]?[0-9]")
SKIPPED = "-"
_TIMES = (Role.TIME, Role.ELAPSED)


@dataclass(frozen=True, slots=True)
class Column:
    """A column by its place in the row (from 0), as it is called, and the unit of cells without one ("": none)."""

    place: int
    name: str
    unit: str

    @property
    def may_be_index_or_name(self) -> bool:
        """Whether its cells must tell if it is a card's index or what the card is called."""
        return _words(self.name) in _INDEX_OR_NAME


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a CSV: how many cells a row has, which of them must not be empty, and which are of use."""

    width: int
    filled: tuple[Column, ...]
    by_meaning: dict[Meaning, Column]

    @property
    def values(self) -> list[tuple[Series, Column]]:
        """The columns that are values of the card."""
        return [(meaning, column) for meaning, column in self.by_meaning.items() if isinstance(meaning, Series)]

    @property
    def repeated(self) -> list[str]:
        """What several columns are called of which the first is of use."""
        names = [column.name for column in self.filled]
        return [column.name for column in self.by_meaning.values() if names.count(column.name) > 1]

    @property
    def has_values(self) -> bool:
        """Whether a row says anything of a card."""
        return bool(self.values)


def read_header(cells: Sequence[str]) -> Columns | None:
    """The columns that a header names; None for a row with readings, or without the name of a time or a value."""
    if has_readings(cells):
        return None
    columns = _columns(cells)
    return columns if columns.has_values or not columns.by_meaning.keys().isdisjoint(_TIMES) else None


def has_readings(cells: Sequence[str]) -> bool:
    """Whether one of the cells is a number or a time, or says that there is none."""
    return any(_BEGINS_VALUE.match(cell) or is_cannot_tell(cell) for cell in cells)


def named_columns(names: Sequence[str]) -> Columns:
    """The columns that a person names, "-" for one to skip.

    Raises InputError for a name that nvidia-smi's query does not have, for one that is there twice, and where none is
    a value of a card.
    """
    for name in names:
        if name != SKIPPED and _meaning(name) is None:
            raise InputError(
                f"cannot use the column {name!r}: write a query name such as timestamp, index, utilization.gpu or "
                f"memory.used, or {SKIPPED} to skip it"
            )
    columns = _columns(names)
    used = [name for name in names if name != SKIPPED]
    if len(columns.by_meaning) < len(used):
        raise InputError(f"cannot use the columns {','.join(names)!r}: two mean the same; write {SKIPPED} for one")
    if not columns.has_values:
        raise InputError(
            f"cannot use the columns {','.join(names)!r}: none is a value of a card; name utilization.gpu, memory.used "
            "or another"
        )
    return columns


def _columns(names: Sequence[str]) -> Columns:
    found: dict[Meaning, tuple[int, Column]] = {}
    is_of_processes = any(_words(name) == _PROCESS for name in names)
    for place, name in enumerate(names):
        meant = _meaning(name)
        if meant is None or (is_of_processes and _words(name).startswith(_USED_BY_PROCESS)):
            continue
        meaning, rank, unit = meant
        if meaning not in found or rank < found[meaning][0]:
            found[meaning] = (rank, Column(place, name, unit))
    filled = tuple(
        Column(place, name, "")
        for place, name in enumerate(names)
        if name not in ("", SKIPPED) and not name.startswith(_MAY_BE_EMPTY)
    )
    return Columns(len(names), filled, {meaning: column for meaning, (_, column) in found.items()})


def _meaning(name: str) -> tuple[Meaning, int, str] | None:
    """What the name means, its rank among those that mean the same, and the unit that it ends with."""
    whole = _words(name)
    if whole in _NAMES:
        return _NAMES[whole], _RANK[whole], ""
    stem, _, unit = whole.rpartition(" ")
    meaning = _NAMES.get(stem)
    if meaning is None:
        return None
    known = UNITS[meaning.unit] if isinstance(meaning, Series) else {"s": 1} if meaning in _TIMES else {}
    return (meaning, _RANK[stem], unit) if unit in known else None


def _words(name: str) -> str:
    return " ".join(_WORD.findall(name.lower()))
