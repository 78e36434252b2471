"""Logs of `nvidia-smi pmon`: a row for each process on a card, or one of "-" where there is none.

A row of a process tells that the card answered, and of the card no more than that. What processes use is not what the
card uses: the driver's own memory is in none of them, their shares of the SMs overlap (they sum to more than 100 %),
and one that has ended may be listed for seconds. Nor is it what an owner uses: a PID does not prove whose a process
was. A row of "-" tells nothing: it stands for a card without a process and for one that failed to answer.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from collector.logs.cells import is_number, read_value
from collector.logs.log import Log, LogCard, LogOptions, LogRow
from collector.logs.log_text import LogText
from collector.logs.monitor_readings import MonitorReadings
from collector.logs.monitor_rows import CANNOT_TELL, PID, MonitorRow, monitor_columns
from domain.series import GPU_BUSY, GPU_MEMORY_USED, GPU_UP, Series

# In the range of these a cell must be, where it is not "-"; a row with another may be of another card as well.
_CHECKED: dict[str, Series] = {
    **dict.fromkeys(("sm", "mem", "enc", "dec", "jpg", "ofa"), GPU_BUSY),
    **dict.fromkeys(("fb", "ccpm"), GPU_MEMORY_USED),
}


def is_pmon(text: LogText) -> bool:
    """Whether a header of processes is near the beginning."""
    columns = monitor_columns(text)
    return columns is not None and columns.is_of_processes


def read_pmon(text: LogText, options: LogOptions) -> Log:
    """One reading for each card of each snapshot, at its first row: where it had a process it was up, else nothing.

    Refused are rows with too few cells, or one that cannot be read. Raises InputError, naming the option that is
    needed, where the text does not say when its rows were read.
    """
    readings = MonitorReadings(text, options, (PID,), _pid)
    found: dict[tuple[str, int], LogRow] = {}
    processes: Counter[tuple[str, str]] = Counter()
    for line, time_us, index, pid in readings.good:
        before = found.get((index, time_us))
        if before is None or not before.values:
            first = line if before is None else before.line
            found[index, time_us] = LogRow(first, time_us, LogCard(index), {} if pid == CANNOT_TELL else {GPU_UP: 1})
        if pid != CANNOT_TELL:
            processes[index, pid] += 1
    notes = [*readings.notes, *_notes(processes, found.values())]
    if found and not readings.has_times:
        notes.append(
            "its snapshots were told apart where a process, or a card without one, came again: log with '-o DT' to "
            "have their times for certain"
        )
    return Log(tuple(found.values()), tuple(readings.refused), tuple(notes))


def _notes(processes: Counter[tuple[str, str]], rows: Iterable[LogRow]) -> Iterator[str]:
    """What is not used of the log, counted."""
    if processes:
        yield (
            f"{processes.total():,} rows of {len(processes):,} processes say only that their card answered: what "
            "processes use is not what the card uses, and a PID proves no owner"
        )
    silent = sum(not row.values for row in rows)
    if silent:
        yield f"{silent:,} times a card had no process, which may be that it failed to answer: nothing is known then"


def _pid(row: MonitorRow, _index: str) -> str:
    """The process, "-" where the card has none. Raises ValueError where a cell cannot be read."""
    pid = row.cells[PID]
    if pid != CANNOT_TELL and not is_number(pid, 10):
        raise ValueError(f"cannot read {pid[:40]!r} as a PID")
    for name, series in _CHECKED.items():
        cell = row.cells.get(name, CANNOT_TELL)
        if cell != CANNOT_TELL:
            try:
                read_value(series, cell)
            except ValueError as error:
                raise ValueError(f"{error} in {name!r}") from None
    return pid
