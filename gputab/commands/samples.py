"""`gputab samples`: logs of samples into the store."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from collector.imports.sample_csv import SampleFile
from collector.imports.sample_import import ImportReport, import_log
from collector.imports.sample_log import SampleLog
from domain.clock import MICROSECONDS
from domain.errors import InputError
from domain.period import HOUR_US, format_instant
from domain.series import Series
from gputab import composition
from gputab.output import Format, OutputFormat, print_rows, say
from gputab.progress import counted, progress_bar
from gputab.sample_parquet import ParquetSamples, is_parquet
from gputab.whole_numbers import whole_option
from victoriametrics.launcher import check_flags
from victoriametrics.push import Pusher
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector

app = typer.Typer(help="Import logs of samples.", no_args_is_help=True)

# Read twice: once to look at it, once to send it.
_PASSES = 2
HEADINGS = {
    "rows": "rows",
    "samples": "samples",
    "merged_rows": "merged rows",
    "cut_cells": "cut cells",
    "nodes": "nodes",
    "from": "from",
    "to": "to",
}


@app.command("import")
def import_file(
    file: Path,
    hold: Annotated[
        int | None, whole_option("seconds each reading stands for; default: the median step of its device")
    ] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Store a sample CSV or Parquet, once for each second its readings stand for, and check that all of it was kept.

    Columns by name: time (ISO 8601 with an offset, epoch seconds, or in Parquet a timestamp with a zone), node,
    gpu_uuid, optionally mig_uuid and owner, and series of the catalogue. An empty cell is missing. Finer steps than a
    second are merged: the mean of ratios, the most memory (of owners what they had then), the last of counters. Bytes
    with a fraction are cut to whole bytes. The file is read more than once, so it must be a file, and nothing may
    write to it meanwhile.
    """
    config = composition.settings()
    store = composition.sample_store(config)
    check_store = partial(check_flags, store)
    log, size = _open(file)
    with (
        Pusher(store) as pusher,
        Reader(store) as reader,
        progress_bar(f"importing {file.name}") as on_progress,
    ):
        stored = ReaderSamples(reader)
        advance = counted(on_progress, _PASSES * size)
        done = import_log(log, pusher, composition.clock(), stored, check_store, hold_s=hold, advance=advance)
    row = import_row(done)
    print_rows([row], HEADINGS, output)
    tell_changes(file.name, done)
    if done.start_s * MICROSECONDS + HOUR_US < composition.clock().now_us():
        say(
            "hours that had settled take these in when the meter looks at them again, or at once by "
            f"'gputab meter run --from {row['from']} --to {row['to']}'"
        )


def import_row(done: ImportReport) -> dict[str, Any]:
    """What an import did, under `HEADINGS`."""
    return {
        "rows": done.rows,
        "samples": done.samples,
        "merged_rows": done.merged_rows,
        "cut_cells": done.cut_cells,
        "nodes": ", ".join(done.nodes),
        "from": format_instant(done.start_s * MICROSECONDS),
        "to": format_instant(done.end_s * MICROSECONDS),
    }


def tell_changes(name: str, done: ImportReport) -> None:
    """Say what an import changed of the file of that name."""
    if done.merged_rows:
        say(f"{name}: {done.merged_rows:,} rows lay in a second with another of the same card and were merged with it")
    if done.cut_cells:
        say(f"{name}: {done.cut_cells:,} values had fractions of bytes, which were cut")


class ReaderSamples:
    """`StoredSamples` of a VictoriaMetrics server."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def count(self, series: tuple[Series, ...], node: str, start_s: int, end_s: int) -> int:
        """By the server's own count."""
        return self._reader.count(Selector(series, {"node": node}), start_s, end_s)

    def values(self, series: Series, labels: Mapping[str, str], start_s: int, end_s: int) -> dict[int, float]:
        """As the server exports them."""
        frame = self._reader.export(Selector((series,), labels), start_s, end_s).frame
        return dict(frame.select("second_s", "value").iter_rows())


def _open(file: Path) -> tuple[SampleLog, int]:
    """The log in the file, and its length in what it counts when it is read: characters, or rows of a Parquet."""
    if is_parquet(file):
        parquet = ParquetSamples(file)
        return parquet, len(parquet)
    try:
        return SampleFile(file), file.stat().st_size
    except OSError as error:
        raise InputError(f"cannot read the samples {str(file)!r}: {error.strerror}; check the path") from error
