"""Import of a log: looked through and compared before the first byte is sent, and counted after the last."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from collector.imports.parts import part_label
from collector.imports.sample_log import SampleLog, changed, refuse_change, refuse_problems
from collector.imports.sample_rows import Identity
from collector.imports.sample_seconds import Reading, Seconds, Steps
from collector.imports.stored_samples import StoredSamples, refuse_larger, seen_in_time
from collector.sample_runs import one_sample
from domain.clock import MICROSECONDS, Clock
from domain.errors import InputError, UnavailableError
from domain.period import format_instant
from domain.samples import SampleRun
from domain.series import COLLECTOR_COMPLETE_UNTIL, Series
from victoriametrics.encode import encode
from victoriametrics.push import Pusher

# One request: some ten megabytes, with a thousand samples and more on a line.
_REQUEST_SAMPLES = 400_000

# What goes into one request, by device or owner and series: seconds and values.
_Gathered = dict[tuple[Identity, Series], tuple[list[int], list[int | float]]]


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
    # For how many seconds a reading of each device or owner stands.
    holds_s: dict[Identity, int] = field(default_factory=dict)

    def node_ends_s(self) -> dict[str, int]:
        """For each node the second after the last that any of its readings stands for."""
        ends_s: dict[str, int] = defaultdict(int)
        for identity, second_s in self.last_s.items():
            ends_s[identity.node] = max(ends_s[identity.node], second_s + self.holds_s[identity])
        return dict(ends_s)


def import_log(
    log: SampleLog,
    pusher: Pusher,
    clock: Clock,
    stored: StoredSamples,
    check_store: Callable[[], None],
    *,
    hold_s: int | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> ImportReport:
    """Send every reading of the log, once for each second it stands for, and check that the store kept them.

    A reading stands for `hold_s` seconds (the median step of its device where None), but not beyond the next row of
    the device or owner it is about, nor an owner's beyond a row that leaves no room for it (`Seconds.readings`).
    `advance` is told how much was read: the log is read twice, and once more where the store has samples of its nodes
    and time, when the second and third reading count half. Marks each node complete up to its last second. Importing
    the same log again changes nothing.

    Raises, with nothing sent, InputError for a log that cannot be used or has times that the store does not keep or
    that are still to come, ConflictError where the store holds a larger value, which it would keep, and what
    `check_store` raises where the store would bend samples. Raises UnavailableError where the store is away or did not
    keep everything, and where the log changed, which is looked at before each request.
    """
    if hold_s is not None and hold_s < 1:
        raise InputError(f"cannot hold readings for {hold_s} seconds: use 1 or more")
    survey, seconds = _look_through(log, hold_s, advance)
    ends_s = survey.node_ends_s()
    start_s, end_s = survey.start_s, max(ends_s.values())
    check_store()
    now_s = clock.now_us() // MICROSECONDS
    pusher.refuse_unkept(start_s, end_s, now_s)
    _refuse_future(log.path, survey, now_s)

    def kept(node: str) -> int:
        return stored.count(tuple(survey.series), node, start_s, end_s)

    pusher.flush()
    expected = Counter({node: kept(node) for node in ends_s})
    sent: Counter[str] = Counter()
    if any(expected.values()):
        advance = _halved(advance)
        expected -= _held(_runs(log, survey.holds_s, sent, advance), stored)
    dropped_before = pusher.dropped_rows()

    _send(log, _runs(log, survey.holds_s, sent, advance), pusher, sent)
    refuse_change(log, sent.total())
    marks = [one_sample(COLLECTOR_COMPLETE_UNTIL, {"node": node}, end, end) for node, end in ends_s.items()]
    pusher.push(encode(marks))
    pusher.flush()

    expected += sent
    for node, count in sent.items():
        if (found := seen_in_time(partial(kept, node), expected[node], clock)) < expected[node]:
            raise UnavailableError(
                f"cannot import all of {str(log.path)!r}: of {count} samples of {node!r} the store has {found}, where "
                f"it should have {expected[node]} with those of before{_told_drops(pusher, dropped_before)}; see its "
                "log, then import again"
            )
    return ImportReport(survey.rows, sent.total(), seconds.merged, log.cut_cells, tuple(sorted(sent)), start_s, end_s)


def _halved(advance: Callable[[int], None]) -> Callable[[int], None]:
    return lambda count: advance(count // 2)


def _look_through(log: SampleLog, hold_s: int | None, advance: Callable[[int], None]) -> tuple[_Survey, Seconds]:
    """The first pass. Raises InputError with every problem of the log."""
    survey, seconds = _Survey(), Seconds(log.problems)
    for reading in seconds.readings(log.rows(advance)):
        survey.rows += 1
        survey.steps.add(reading)
        survey.start_s = min(survey.start_s, reading.second_s)
        survey.series.update(reading.values)
        if reading.next_s is None:
            survey.last_s[reading.identity] = reading.second_s
    survey.rows += seconds.merged
    survey.holds_s = {each: survey.steps.median_s(each) if hold_s is None else hold_s for each in survey.last_s}
    if not log.problems:
        log.problems += seconds.outgrown(survey.holds_s)
    refuse_problems(log)
    if not survey.series:
        raise InputError(f"cannot import {str(log.path)!r}: no row has a value; check its columns")
    return survey, seconds


def _refuse_future(path: Path, survey: _Survey, now_s: int) -> None:
    """Raise InputError where a reading stands for seconds that have not begun."""
    identity, last_s = max(survey.last_s.items(), key=lambda item: item[1] + survey.holds_s[item[0]])
    end_s = last_s + survey.holds_s[identity]
    if end_s > now_s + 1:
        reading, end, now = (format_instant(second_s * MICROSECONDS) for second_s in (last_s, end_s, now_s))
        remedy = "check the zone of its times" if last_s > now_s else "import it then, or state a shorter hold"
        raise InputError(
            f"cannot import {str(path)!r}: {identity.node!r} has a reading of {reading!r} that stands until {end!r}, "
            f"and now is {now!r}. Nothing was sent; {remedy}"
        )


def _runs(
    log: SampleLog, holds_s: Mapping[Identity, int], sent: Counter[str], advance: Callable[[int], None]
) -> Iterator[list[SampleRun]]:
    """The second pass: what goes into each request, whatever number of seconds a reading stands for."""
    gathered: _Gathered = {}
    samples = 0
    for reading in Seconds().readings(log.rows(advance), holds_s):
        if reading.identity not in holds_s:
            raise changed(log, sent.total())
        second_s, until_s = reading.second_s, reading.second_s + holds_s[reading.identity]
        if reading.next_s is not None:
            until_s = min(until_s, reading.next_s)
        while reading.values and second_s < until_s:
            room_s = -(-(_REQUEST_SAMPLES - samples) // len(reading.values))
            seconds = range(second_s, min(until_s, second_s + room_s))
            _gather(gathered, reading, seconds)
            samples += len(seconds) * len(reading.values)
            second_s = seconds.stop
            if samples >= _REQUEST_SAMPLES:
                yield _gathered_runs(gathered)
                gathered, samples = {}, 0
    if gathered:
        yield _gathered_runs(gathered)


def _gather(gathered: _Gathered, reading: Reading, seconds: range) -> None:
    for series, value in reading.values.items():
        found = gathered.get((reading.identity, series))
        if found is None:
            found = gathered[reading.identity, series] = [], []
        found[0].extend(seconds)
        found[1].extend([value] * len(seconds))


def _gathered_runs(gathered: _Gathered) -> list[SampleRun]:
    return [
        SampleRun(series, identity.labels | part_label(series), *lists)
        for (identity, series), lists in gathered.items()
    ]


def _held(requests: Iterable[list[SampleRun]], stored: StoredSamples) -> Counter[str]:
    """How many samples of each node the store has already; ConflictError where it has a larger one."""
    held: Counter[str] = Counter()
    seen = _SeenSamples(stored)
    for runs in requests:
        for run in runs:
            refuse_larger([run], seen)
            held[run.labels["node"]] += sum(second_s in seen.latest for second_s in run.seconds)
    return held


class _SeenSamples:
    """`StoredSamples` that keep the latest answer."""

    def __init__(self, stored: StoredSamples) -> None:
        self.count = stored.count
        self._stored = stored
        self.latest: Mapping[int, float] = {}

    def values(self, series: Series, labels: Mapping[str, str], start_s: int, end_s: int) -> Mapping[int, float]:
        self.latest = self._stored.values(series, labels, start_s, end_s)
        return self.latest


def _send(log: SampleLog, requests: Iterator[list[SampleRun]], pusher: Pusher, sent: Counter[str]) -> None:
    """Push while the next request is being made; `sent` counts samples by node."""
    under_way: Future[None] | None = None
    with ThreadPoolExecutor(max_workers=1) as pool:
        for runs in requests:
            body = encode(runs)
            if under_way is not None:
                under_way.result()
            refuse_change(log, sent.total())
            under_way = pool.submit(pusher.push, body)
            for run in runs:
                sent[run.labels["node"]] += len(run.seconds)
        if under_way is not None:
            under_way.result()


def _told_drops(pusher: Pusher, before: Mapping[str, int]) -> str:
    """What the server has dropped since, whoever sent it: the only hint there is at why samples are not there."""
    dropped = {reason: count - before.get(reason, 0) for reason, count in pusher.dropped_rows().items()}
    told = ", ".join(f"{count} {reason}" for reason, count in dropped.items() if count > 0)
    return f", and has dropped {told} of all rows it was sent meanwhile" if told else ""
