"""Which reader a log is for, by its content."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from collector.logs.dcgm_scrapes import is_dcgm_scrapes, read_dcgm_scrapes
from collector.logs.dmon import is_dmon, read_dmon
from collector.logs.log import Log, LogOptions
from collector.logs.log_text import LogText, Progress, read_log_text
from collector.logs.monitor_rows import looks_like_rows, named_monitor_columns
from collector.logs.pmon import is_pmon, read_pmon
from collector.logs.query_csv import is_query_csv, read_query_csv
from collector.logs.smi_table import is_smi_table, read_smi_table
from domain.errors import InputError
from domain.period import CALENDAR_END_US


class LogReader(NamedTuple):
    """A format: what people call it, how its text is known, and what reads it.

    `read` raises InputError, whose message begins "cannot read the log 'PATH'", where the log cannot be used as it is.
    """

    name: str
    is_of: Callable[[LogText], bool]
    read: Callable[[LogText, LogOptions], Log]


_DMON = LogReader("rows of 'nvidia-smi dmon'", is_dmon, read_dmon)
_PMON = LogReader("rows of 'nvidia-smi pmon'", is_pmon, read_pmon)
_QUERY_CSV = LogReader("CSV of 'nvidia-smi --query-gpu'", is_query_csv, read_query_csv)
# The first that knows the text reads it.
READERS = (
    LogReader("saved pages of dcgm-exporter", is_dcgm_scrapes, read_dcgm_scrapes),
    LogReader("tables of 'nvidia-smi'", is_smi_table, read_smi_table),
    _DMON,
    _PMON,
    _QUERY_CSV,
)


def _ignore(_done: int, _total: int) -> None:
    pass


def open_log(path: Path, options: LogOptions, on_progress: Progress = _ignore) -> Log:
    """The log in the file, with at least one reading, by the reader that knows its content.

    `on_progress` is told the characters gone through, and how many there are. Raises InputError, one line with the
    remedy, for a file that cannot be read, is in no known format, needs an option to be understood, holds no reading,
    or one that no calendar has a day for.
    """
    text = read_log_text(path, on_progress)
    log = _reader_of(text, options).read(text, options)
    if log.rows:
        if max(row.time_us for row in log.rows) >= CALENDAR_END_US:
            raise InputError(
                f"cannot read the log {str(path)!r}: its times go beyond the year 9999; check them, or --start and "
                "--step"
            )
        return log
    if not log.refused:
        raise InputError(f"cannot read the log {str(path)!r}: it holds no reading; let it run for longer")
    first = log.refused[0]
    raise InputError(
        f"cannot read the log {str(path)!r}: none of its rows can be used ({len(log.refused):,} in all), line "
        f"{first.line}: {first.reason}; mend the rows, or name the columns with --columns"
    )


def _reader_of(text: LogText, options: LogOptions) -> LogReader:
    for reader in READERS:
        if reader.is_of(text):
            return reader
    # Who names its columns says what it is.
    if options.columns is not None:
        named = named_monitor_columns(options.columns)
        return _QUERY_CSV if named is None else _PMON if named.is_of_processes else _DMON
    if looks_like_rows(text):
        raise InputError(
            f"cannot read the log {str(text.path)!r}: it has no header; name its columns as nvidia-smi's dmon or query "
            "does, - to skip one, such as --columns gpu,pwr,gtemp,mtemp,sm,mem, and its times with --start and --step"
        )
    *first, last = [reader.name for reader in READERS]
    raise InputError(
        f"cannot read the log {str(text.path)!r}: its format is unknown; give {', '.join(first)} or {last}"
    )
