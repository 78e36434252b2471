"""Import of a sample CSV: looked through and compared before the first byte is sent, and counted after the last."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from collector.sample_csv import Identity, SampleFile
from collector.sample_runs import one_sample
from collector.sample_seconds import Seconds, Steps
from collector.stored_samples import StoredSamples, refuse_larger
from domain.clock import MICROSECONDS, Clock
from domain.errors import InputError, UnavailableError
from domain.samples import SampleRun
from domain.series import COLLECTOR_COMPLETE_UNTIL, Series
from victoriametrics.encode import encode
from victoriametrics.push import Pusher

# One request: some ten megabytes, with a thousand samples and more on a line.
_REQUEST_SAMPLES = 400_000


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import did; `samples` were sent and are in the store, over the seconds [start_s, end_s)."""

    rows: int
    samples: int
    merged_rows: int
    cut_cells: int
    nodes: tuple[str, ...]
    start_s: int
    end_s: int


@dataclass
class _Survey:
    """What the first pass finds."""

    rows: int = 0
    start_s: int = 2**62
    steps: Steps = field(default_factory=Steps)
    last_s: dict[Identity, int] = field(default_factory=dict)
    series: set[Series] = field(default_factory=set)

    def holds_s(self, asked_s: int | None) -> dict[Identity, int]:
        """For how many seconds a reading of each device or owner stands."""
        return {each: self.steps.median_s(each) if asked_s is None else asked_s for each in self.last_s}

    def node_ends_s(self, holds_s: Mapping[Identity, int]) -> dict[str, int]:
        """For each node the second after the last that any of its readings stands for."""
        ends_s: dict[str, int] = defaultdict(int)
        for identity, second_s in self.last_s.items():
            ends_s[identity.node] = max(ends_s[identity.node], second_s + holds_s[identity])
        return dict(ends_s)


def import_samples(
    path: Path,
    pusher: Pusher,
    clock: Clock,
    stored: StoredSamples,
    check_store: Callable[[], None],
    *,
    hold_s: int | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> ImportReport:
    """Send every reading of the file, once for each second it stands for, and check that the store kept them.

    A reading stands for `hold_s` seconds (the median step of its device where None), but not beyond the device's
    next row. `advance` is told characters read; the file is read twice, and once more where the store has samples
    of its nodes and time. Marks each node complete up to its last second. Importing the same file again changes
    nothing.

    Raises, with nothing sent, InputError for a file that cannot be used or lies outside what the store keeps,
    ConflictError where the store holds a larger value, which it would keep, and what `check_store` raises where the
    store would bend samples; UnavailableError where the store is away or did not keep everything.
    """
    if hold_s is not None and hold_s < 1:
        raise InputError(f"cannot hold readings for {hold_s} seconds: use 1 or more")
    file = SampleFile(path)
    survey, seconds = _look_through(file, advance)
    holds_s = survey.holds_s(hold_s)
    ends_s = survey.node_ends_s(holds_s)
    start_s, end_s = survey.start_s, max(ends_s.values())
    check_store()
    pusher.refuse_unkept(start_s, end_s, clock.now_us() // MICROSECONDS)
    pusher.flush()
    if any(stored.count(tuple(survey.series), node, start_s, end_s) for node in ends_s):
        for request in _runs(SampleFile(path), holds_s, lambda _: None):
            refuse_larger(request, stored)
    dropped_before = pusher.dropped_rows()

    sent: dict[str, int] = defaultdict(int)
    runs = _runs(SampleFile(path), holds_s, advance)
    _send(runs, pusher, sent)
    marks = [one_sample(COLLECTOR_COMPLETE_UNTIL, {"node": node}, end, end) for node, end in ends_s.items()]
    pusher.push(encode(marks))
    pusher.flush()

    dropped = {reason: count - dropped_before.get(reason, 0) for reason, count in pusher.dropped_rows().items()}
    if any(dropped.values()):
        raise UnavailableError(f"cannot import all of {str(path)!r}: the store dropped rows ({dropped}); see its log")
    for node, count in sent.items():
        kept = stored.count(tuple(survey.series), node, start_s, end_s)
        if kept < count:
            raise UnavailableError(
                f"cannot import all of {str(path)!r}: of {count} samples of {node!r} the store has {kept}; "
                "see its log, then import again"
            )
    return ImportReport(
        survey.rows, sum(sent.values()), seconds.merged, file.cut_cells, tuple(sorted(sent)), start_s, end_s
    )


def _look_through(file: SampleFile, advance: Callable[[int], None]) -> tuple[_Survey, Seconds]:
    """The first pass. Raises InputError with every problem of the file."""
    survey, seconds = _Survey(), Seconds()
    for reading in seconds.readings(file.rows(advance)):
        survey.rows += 1
        survey.steps.add(reading)
        survey.start_s = min(survey.start_s, reading.second_s)
        survey.series.update(reading.values)
        if reading.next_s is None:
            survey.last_s[reading.identity] = reading.second_s
    file.refuse_problems()
    survey.rows += seconds.merged
    if not survey.series:
        raise InputError(f"cannot import {str(file.path)!r}: no row has a value; check its columns")
    return survey, seconds


def _runs(
    file: SampleFile, holds_s: Mapping[Identity, int], advance: Callable[[int], None]
) -> Iterator[list[SampleRun]]:
    """The second pass: what goes into each request."""
    gathered: dict[tuple[Identity, Series], tuple[list[int], list[int | float]]] = {}
    samples = 0
    for reading in Seconds().readings(file.rows(advance)):
        until_s = reading.second_s + holds_s[reading.identity]
        if reading.next_s is not None:
            until_s = min(until_s, reading.next_s)
        seconds = range(reading.second_s, until_s)
        for series, value in reading.values.items():
            found = gathered.get((reading.identity, series))
            if found is None:
                found = gathered[reading.identity, series] = [], []
            found[0].extend(seconds)
            found[1].extend([value] * len(seconds))
            samples += len(seconds)
        if samples >= _REQUEST_SAMPLES:
            yield _gathered_runs(gathered)
            gathered, samples = {}, 0
    file.refuse_problems()
    if gathered:
        yield _gathered_runs(gathered)


def _gathered_runs(
    gathered: dict[tuple[Identity, Series], tuple[list[int], list[int | float]]],
) -> list[SampleRun]:
    return [SampleRun(series, identity.labels, *lists) for (identity, series), lists in gathered.items()]


def _send(requests: Iterator[list[SampleRun]], pusher: Pusher, sent: dict[str, int]) -> None:
    """Push while the next request is being made; `sent` counts samples by node."""
    under_way: Future[None] | None = None
    with ThreadPoolExecutor(max_workers=1) as pool:
        for runs in requests:
            body = encode(runs)
            if under_way is not None:
                under_way.result()
            under_way = pool.submit(pusher.push, body)
            for run in runs:
                sent[run.labels["node"]] += len(run.seconds)
        if under_way is not None:
            under_way.result()
