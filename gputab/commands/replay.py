"""`gputab replay`: logs of other tools into the store."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from collector.imports.log_samples import CardNames, LogSamples
from collector.imports.replay import replay as replay_log
from collector.imports.sample_import import ImportReport, import_log
from collector.logs.log import LogOptions
from collector.logs.open_log import open_log
from domain.clock import Clock
from domain.errors import ConflictError, InputError
from domain.slugs import check_name
from gputab import composition
from gputab.billed_log import names_of
from gputab.commands.samples import HEADINGS, ReaderSamples, import_row, tell_changes
from gputab.log_options import Columns, Gpus, Start, Step, Timezone, log_options
from gputab.output import Format, OutputFormat, print_rows, say
from gputab.progress import counted, progress_bar
from gputab.sample_parquet import ParquetSamples, is_parquet
from gputab.whole_numbers import whole_option
from victoriametrics.launcher import check_flags
from victoriametrics.push import Pusher
from victoriametrics.read import Reader

_HEADINGS = {"file": "file", "rows": HEADINGS["rows"], "refused": "refused", **HEADINGS}
_SHOWN_ROWS = 5
# Gone through twice: once to look at them, once to send them.
_PASSES = 2


def replay(
    logs: Annotated[
        list[Path],
        typer.Argument(help="logs of nvidia-smi, its dmon and pmon, saved pages of dcgm-exporter, sample Parquet"),
    ],
    node: Annotated[str | None, typer.Option(help="the node of the cards; default: what the log says")] = None,
    gpu: Annotated[
        list[str] | None, typer.Option(metavar="INDEX=UUID", help="what a card is, where the log has its index only")
    ] = None,
    timezone: Timezone = None,
    start: Start = None,
    step: Step = None,
    gpus: Gpus = None,
    columns: Columns = None,
    hold: Annotated[
        int | None, whole_option("seconds each reading stands for; default: the median step of its card")
    ] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Send logs of cards to VictoriaMetrics.

    Reads what 'gputab bill' reads, and sample Parquet, and checks that all of it was kept. Every reading is put on
    whole seconds, once for each that it stands for; finer steps are merged: the mean of ratios, the most memory, the
    last of counters. A card of which nobody tells the UUID is called NODE/INDEX. Rows that cannot be used are told and
    left out; a Parquet is sent whole or not at all. The same log twice changes nothing.
    """
    options = log_options(timezone, start, step, gpus, columns)
    names = CardNames(node if node is None else check_name("node", node), _gpu_uuids(gpu or []))
    config = composition.settings()
    shown = names_of(logs)
    rows: list[dict[str, Any]] = []
    errors: list[str] = []
    store = composition.sample_store(config)
    with Pusher(store) as pusher, Reader(store) as reader:
        check_store = partial(check_flags, store)
        to_store = _ToStore(pusher, composition.clock(), ReaderSamples(reader), check_store, hold)
        for path in logs:
            try:
                if is_parquet(path):
                    rows.append(_send_parquet(path, shown[path], options, names, to_store))
                else:
                    rows.append(_send_log(path, shown[path], options, names, to_store))
            except (InputError, ConflictError) as error:
                # What the store says of its samples does not name the file that they are of.
                is_named = repr(str(path)) in str(error)
                errors.append(str(error) if is_named else f"{shown[path]}: {error}")
    if rows or output is OutputFormat.JSON:
        print_rows(rows, _HEADINGS, output)
    if rows:
        say("readings were put on whole seconds, where 'gputab bill' takes a log's own times: the two may differ")
    for message in errors:
        say(f"gputab: {message}")
    if errors:
        raise typer.Exit(2)


@dataclass(frozen=True)
class _ToStore:
    """What every log of a run is sent with."""

    pusher: Pusher
    clock: Clock
    stored: ReaderSamples
    check_store: Callable[[], None]
    hold_s: int | None


def _send_log(path: Path, name: str, options: LogOptions, names: CardNames, to: _ToStore) -> dict[str, Any]:
    log = _read(path, name, options, names)
    with progress_bar(f"replaying {name}") as on_progress:
        advance = counted(on_progress, _PASSES * len(log))
        done = replay_log(log, to.pusher, to.clock, to.stored, to.check_store, hold_s=to.hold_s, advance=advance)
    _tell(name, log, done)
    return {"file": name, "refused": len(log.refused), **import_row(done)}


def _send_parquet(path: Path, name: str, options: LogOptions, names: CardNames, to: _ToStore) -> dict[str, Any]:
    samples = ParquetSamples(path)
    if options != LogOptions() or names != CardNames():
        say(f"{name}: it names its nodes, cards and times; only --hold counts for it")
    with progress_bar(f"replaying {name}") as on_progress:
        advance = counted(on_progress, _PASSES * len(samples))
        done = import_log(samples, to.pusher, to.clock, to.stored, to.check_store, hold_s=to.hold_s, advance=advance)
    tell_changes(name, done)
    return {"file": name, "refused": 0, **import_row(done)}


def _gpu_uuids(told: list[str]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for each in told:
        index, mark, gpu_uuid = each.partition("=")
        if not (mark and index.isascii() and index.isdecimal()) or index in found:
            raise InputError(f"cannot use --gpu {each[:80]!r}: write INDEX=UUID, once for each index of the log")
        found[index] = check_name("GPU UUID", gpu_uuid)
    return found


def _read(path: Path, name: str, options: LogOptions, names: CardNames) -> LogSamples:
    with progress_bar(f"reading {name}") as on_progress:
        log = open_log(path, options, on_progress)
    for note in log.notes:
        say(f"{name}: {note}")
    return LogSamples(path, log, names)


def _tell(name: str, log: LogSamples, done: ImportReport) -> None:
    """What a person has to know of the log that was sent."""
    for row in log.refused[:_SHOWN_ROWS]:
        say(f"{name}: line {row.line}: {row.reason}")
    if len(log.refused) > _SHOWN_ROWS:
        say(f"{name}: and {len(log.refused) - _SHOWN_ROWS:,} more that could not be used, or not whole")
    if log.unnamed:
        cards = ", ".join(sorted(log.unnamed))
        say(f"{name}: nobody tells the UUIDs of {cards}, so they are called that; name them with --gpu INDEX=UUID")
    if log.repeated:
        say(f"{name}: {log.repeated:,} rows had a later one of the same card and time, which counted instead")
    tell_changes(name, done)
