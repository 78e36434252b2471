"""The table that plain `nvidia-smi` prints, once or in a loop: a snapshot of every card under a time.

Two lines a card, whose columns are those of drivers 450 to 595:

    |   0  NVIDIA L40S                    On  |   00000000:4A:00.0 Off |                    0 |
    | N/A   27C    P8             32W /  350W |       0MiB /  46068MiB |      0%      Default |

MIG instances stand in a table of their own, which has no names for them and is not read.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from collector.logs.cells import check_memory, read_value
from collector.logs.log import Log, LogCard, LogOptions, LogRow, RefusedRow
from collector.logs.log_text import LogText
from collector.logs.log_times import LogTimes, is_time_line
from domain.errors import InputError
from domain.series import GPU_BUSY, GPU_MEMORY_TOTAL, GPU_MEMORY_USED, GPU_POWER, GPU_TEMPERATURE

_FIRST_LINES = 50
_HEADING = re.compile(r"\| NVIDIA-SMI \S+ .*\|")
_CARD = re.compile(r"\| +([0-9]{1,4}) +(\S.*?) +(?:On|Off|N/A|WDDM|TCC|MCDM) *\| *[0-9A-Fa-f]{8}:[0-9A-Fa-f:.]+ .*\|")
_WORD = r"([0-9.]+(?:MiB|[%CW])|N/A|ERR!|Unknown Error)"
_FIGURES = re.compile(rf"\| *\S+ +{_WORD} .*? {_WORD} */ *\S+ *\| *{_WORD} */ *{_WORD} *\| *{_WORD} .*\|")
_SERIES = (GPU_TEMPERATURE, GPU_POWER, GPU_MEMORY_USED, GPU_MEMORY_TOTAL, GPU_BUSY)


def is_smi_table(text: LogText) -> bool:
    """Whether the table's heading is among the first lines."""
    return any(_HEADING.fullmatch(line) for line in text.first_lines(_FIRST_LINES))


def read_smi_table(text: LogText, options: LogOptions) -> Log:
    """Every card of every snapshot as a reading, at the line that its index stands in.

    Refused are a card whose second line is missing or unreadable, and a snapshot without a card, at its time's line.
    Snapshots without a time above them are `step_us` apart from `start_us` on; InputError where these were not said.
    """
    return _SmiTable(text, options).log()


@dataclass(slots=True)
class _Snapshot:
    """A table on its way in: the line it begins on, when it was printed, and what was seen of it.

    `time_us` is None where its time cannot be read, for the `reason`.
    """

    line: int
    time_us: int | None
    reason: str = ""
    has_heading: bool = False
    cards: int = 0


class _SmiTable:
    def __init__(self, text: LogText, options: LogOptions) -> None:
        self._text = text
        self._options = options
        self._times = LogTimes(options.zone, None)
        self._snapshot: _Snapshot | None = None
        self._timeless = 0
        # The first line of a card, and what it says, until the second was read.
        self._begun: tuple[int, LogCard] | None = None
        self._cards: dict[tuple[str, str], LogCard] = {}
        self._rows: list[LogRow] = []
        self._refused: list[RefusedRow] = []

    def log(self) -> Log:
        for number, line in self._text.lines():
            stripped = line.strip()
            if self._begun is not None:
                self._read_figures(*self._begun, stripped)
            elif is_time_line(stripped):
                self._open(number, stripped)
            elif _HEADING.fullmatch(stripped):
                self._read_heading(number)
            elif found := _CARD.fullmatch(stripped):
                card = self._cards.setdefault((found[1], found[2]), LogCard(found[1], model=found[2]))
                self._begun = (number, card)
        if self._begun is not None:
            self._read_figures(*self._begun, "")
        self._close()
        return Log(tuple(self._rows), tuple(self._refused), tuple(self._notes()))

    def _open(self, number: int, time: str) -> None:
        self._close()
        try:
            self._snapshot = _Snapshot(number, self._times.instant_us(time))
        except ValueError as error:
            self._snapshot = _Snapshot(number, None, str(error))

    def _read_heading(self, number: int) -> None:
        if self._snapshot is None or self._snapshot.has_heading:
            self._close()
            start_us, step_us = self._options.start_us, self._options.step_us
            if start_us is None or step_us is None:
                raise InputError(
                    f"cannot read the log {str(self._text.path)!r}: no time stands above the table in line {number}; "
                    "say when the first was printed with --start, and the seconds between them with --step"
                )
            self._snapshot = _Snapshot(number, start_us + self._timeless * step_us)
            self._timeless += 1
        self._snapshot.has_heading = True

    def _close(self) -> None:
        if self._snapshot is not None and not self._snapshot.cards:
            self._refused.append(RefusedRow(self._snapshot.line, "no card stands under this time"))
        self._snapshot = None

    def _read_figures(self, line: int, card: LogCard, figures: str) -> None:
        """The second line of a card, which stands right below the first."""
        self._begun = None
        snapshot = self._snapshot
        if snapshot is None:
            self._refused.append(RefusedRow(line, "no time and no heading stand above this card"))
            return
        snapshot.cards += 1
        found = _FIGURES.fullmatch(figures)
        if found is None or snapshot.time_us is None:
            self._refused.append(RefusedRow(line, snapshot.reason or "the line below it cannot be read"))
            return
        try:
            read = {series: read_value(series, cell) for series, cell in zip(_SERIES, found.groups(), strict=True)}
            values = {series: value for series, value in read.items() if value is not None}
            check_memory(values)
        except ValueError as error:
            self._refused.append(RefusedRow(line, str(error)))
        else:
            self._rows.append(LogRow(line, snapshot.time_us, card, values))

    def _notes(self) -> Iterator[str]:
        if not self._timeless:
            if self._options.start_us is not None:
                yield "--start was not needed: its times are dates"
            if self._options.step_us is not None:
                yield "--step was not needed: its tables have times"
        if self._options.gpus is not None:
            yield "--gpus was not needed: it names its cards"
        if self._options.columns is not None:
            yield "--columns was not needed: it is no CSV"
        if self._times.guess:
            yield self._times.guess
