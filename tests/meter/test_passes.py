"""Many windows: any cut of time gives the same ledger, nothing due is forgotten, and a meter that follows goes on."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, insert

from domain.clock import FrozenClock
from domain.errors import ConflictError, UnavailableError
from domain.grants import Grant
from domain.period import HOUR_US, Period
from domain.samples import SampleRun
from meter.evidence import CONTEXT_S
from meter.ledger_store import Window, hours_to_rate, load_windows
from meter.observations import RecordedObservations
from meter.passes import follow, own_series, rate_due, rate_period
from meter.windows import Outcome, WindowRater, WindowResult
from store.access import Principal
from store.database import Database
from store.tables.billing import charges, evidence, windows
from store.tables.capacity import device_periods, nodes

US = 1_000_000
MakeRater = Callable[..., WindowRater]


@pytest.fixture
def day(
    put_grants: Callable[..., None], make_grant: Callable[..., Grant], recorded: Callable[..., RecordedObservations]
) -> RecordedObservations:
    """Four hours of n1 with grants that begin and end in the middle of them, a record-only one, and holes."""
    put_grants(
        make_grant(100, 9_000),
        make_grant(9_000, 13_000, ordinal=1),
        make_grant(3_500.5, 7_300.5, allocation="a2", gpu_uuid="GPU-2", project="q"),
        make_grant(1_800, 9_999, allocation="a3", gpu_uuid=None, node=""),
    )
    rows = [
        ("gpu_memory_used_bytes", gpu, "", "", second, float(second % 3 * 2**30))
        for gpu in ("GPU-1", "GPU-2")
        for second in (*range(3_590), *range(3_605, 7_199), *range(7_201, 14_400, 5))
    ]
    return recorded(rows, 4 * 3_600 + CONTEXT_S)


def _run(ledger: Database, rater: WindowRater, hour_s: int, start: float, end: float, now: float) -> list[WindowResult]:
    period = Period(round((hour_s + start) * US), round((hour_s + end) * US))
    return list(rate_period(ledger, Principal.local_operator(), rater, period, round((hour_s + now) * US)))


def test_a_period_rates_every_window_it_touches_as_a_whole(
    ledger: Database, day: RecordedObservations, make_rater: MakeRater, hour_s: int
) -> None:
    """By hour and node; '' are the grants without a device, which come only where there are some."""
    results = _run(ledger, make_rater(day), hour_s, 3_599.5, 7_201, 15_000)
    assert [((each.start_us // US - hour_s) // 3_600, each.node) for each in results] == [
        (0, ""),
        (0, "n1"),
        (1, ""),
        (1, "n1"),
        (2, ""),
        (2, "n1"),
    ]
    assert {each.outcome for each in results} == {Outcome.SETTLED}


@pytest.mark.parametrize(("start", "end"), [(0, 0), (1_800, 1_800), (-7_200, 0), (-5_000, -4_000)])
def test_a_period_without_a_second_of_anything_rates_nothing(
    ledger: Database, day: RecordedObservations, make_rater: MakeRater, hour_s: int, start: float, end: float
) -> None:
    assert _run(ledger, make_rater(day), hour_s, start, end, 15_000) == []


def test_what_lies_ahead_is_not_rated(
    ledger: Database, day: RecordedObservations, make_rater: MakeRater, hour_s: int
) -> None:
    results = _run(ledger, make_rater(day), hour_s, 0, 14_400, 4_000)
    assert [(each.start_us // US - hour_s) // 3_600 for each in results] == [0, 0, 1, 1]
    assert _run(ledger, make_rater(day), hour_s, 9_000, 14_400, 4_000) == []


@given(cuts=st.lists(st.integers(1, 14_399), max_size=5, unique=True), backwards=st.booleans())
@settings(
    max_examples=settings().max_examples * 5 // 100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_cut_of_the_time_leaves_the_same_ledger_to_the_byte(
    ledger: Database,
    day: RecordedObservations,
    make_rater: MakeRater,
    everything: Callable[[], dict[str, Any]],
    hour_s: int,
    cuts: list[int],
    backwards: bool,
) -> None:
    """Promise 2: in one run or many, in any order, each window rated once or several times."""
    with ledger.write() as connection:
        for table in (charges, evidence, windows):
            connection.execute(delete(table))
    _run(ledger, make_rater(day), hour_s, 0, 14_400, 15_000)
    whole = everything()
    assert len(whole["charges"]) > 15
    with ledger.write() as connection:
        for table in (charges, evidence, windows):
            connection.execute(delete(table))
    borders = [0, *sorted(cuts), 14_400]
    pieces = list(pairwise(borders))
    for start, end in reversed(pieces) if backwards else pieces:
        _run(ledger, make_rater(day), hour_s, start, end, 15_000)
    assert everything() == whole


def test_passes_while_time_goes_on_end_where_one_pass_at_the_end_does(
    ledger: Database,
    day: RecordedObservations,
    make_rater: MakeRater,
    make_samples: Callable[..., Any],
    everything: Callable[[], dict[str, Any]],
    hour_s: int,
) -> None:
    """A meter that followed the day second by second, and one that was started the day after."""
    operator = Principal.local_operator()
    frame = day.samples("n1", 0, 2**40)
    for now in range(900, 15_000, 1_300):
        so_far = RecordedObservations({"n1": frame.filter(frame["second_s"] < hour_s + now)}, {"n1": hour_s + now})
        list(rate_due(ledger, operator, make_rater(so_far), (hour_s + now) * US))
    list(rate_due(ledger, operator, make_rater(day), (hour_s + 15_000) * US))
    followed = {name: rows for name, rows in everything().items() if name in ("charges", "windows", "evidence")}
    with ledger.write() as connection:
        for table in (charges, evidence, windows):
            connection.execute(delete(table))
    list(rate_due(ledger, operator, make_rater(day), (hour_s + 15_000) * US))
    assert {name: rows for name, rows in everything().items() if name in followed} == followed


def test_due_is_what_has_begun_and_not_settled(
    ledger: Database, day: RecordedObservations, make_rater: MakeRater, hour_s: int
) -> None:
    operator, rater = Principal.local_operator(), make_rater(day)

    def due(now: float) -> set[tuple[int, str]]:
        found = list(rate_due(ledger, operator, rater, round((hour_s + now) * US)))
        return {((each.start_us // US - hour_s) // 3_600, each.node) for each in found}

    assert due(0) == set()
    assert due(3_700) == {(0, ""), (0, "n1"), (1, ""), (1, "n1")}
    assert due(3_800) == {(1, ""), (1, "n1")}
    assert due(15_000) == {(1, ""), (1, "n1"), (2, ""), (2, "n1"), (3, "n1"), (4, "n1")}
    # The cards are still there, so every hour has their capacity to account for.
    assert due(15_000) == {(4, "n1")}
    with ledger.read() as connection:
        assert hours_to_rate(connection, operator, "n1", -5) == []


@dataclass
class _Slow:
    """A rater that takes its time."""

    rater: WindowRater
    clock: FrozenClock
    seconds: float

    def rate_window(self, node: str, start_us: int, now_us: int) -> WindowResult:
        self.clock.sleep_s(self.seconds)
        return self.rater.rate_window(node, start_us, now_us)


class _Sink:
    """What the meter published, pass by pass; the first sends fail as often as asked for."""

    def __init__(self, failures: int = 0) -> None:
        self.passes: list[list[SampleRun]] = []
        self._failures = failures

    def send(self, runs: Iterable[SampleRun]) -> None:
        if self._failures:
            self._failures -= 1
            raise UnavailableError("cannot send: the store does not answer")
        self.passes.append(list(runs))


def _add_node(database: Database, node: str, from_us: int) -> None:
    with database.write() as connection:
        connection.execute(insert(nodes).values(node=node, created_us=0, inventory_us=None))
        connection.execute(
            insert(device_periods).values(
                gpu_uuid=f"GPU-{node}",
                node=node,
                device_index=0,
                model="NVIDIA L4",
                sku="l4-24g",
                compute_units=1_000,
                vram_total_bytes=24 * 2**30,
                vram_reserved_bytes=0,
                mig_enabled=False,
                offered_profiles="",
                start_us=from_us,
            )
        )


def _follow(
    database: Database, rater: Any, clock: FrozenClock, passes: int, sink: _Sink | None = None
) -> tuple[_Sink, list[str]]:
    """Follow for so many passes at five seconds."""
    sink = sink or _Sink()
    said: list[str] = []
    begun: list[int] = []

    def one_pass(now_us: int) -> Iterator[WindowResult]:
        begun.append(now_us)
        yield from rate_due(database, Principal.local_operator(), rater, now_us)

    follow(one_pass, sink, clock, every_s=5, is_stopped=lambda: len(begun) >= passes, report=said.append)
    return sink, said


def test_windows_that_cannot_settle_do_not_keep_others_from_it(
    ledger: Database, day: RecordedObservations, make_rater: MakeRater, hour_s: int
) -> None:
    """Nodes that were taken away leave three days of waiting hours, which take longer than a pass may."""
    clock = FrozenClock((hour_s + 15_000) * US)
    for number in range(2):
        _add_node(ledger, f"dead{number}", (hour_s - 10 * 3_600) * US)
    _follow(ledger, _Slow(make_rater(day), clock, 1), clock, passes=40)
    with ledger.read() as connection:
        settled = [each for each in load_windows(connection, Principal.local_operator()) if each.state == "settled"]
    assert {(each.node, (each.start_us // US - hour_s) // 3_600) for each in settled} >= {
        ("n1", hour) for hour in range(4)
    }


def test_a_present_hour_that_takes_longer_than_a_pass_leaves_time_for_the_past(
    ledger: Database, day: RecordedObservations, make_rater: MakeRater, hour_s: int
) -> None:
    """Ten nodes of a second each: all of them are rated in every pass, and the past is worked off."""
    clock = FrozenClock((hour_s + 15_000) * US)
    marks = {f"m{number}": hour_s + 15_000 for number in range(10)}
    for node in marks:
        _add_node(ledger, node, (hour_s + 14_500) * US)
    observations = RecordedObservations({"n1": day.samples("n1", 0, 2**40)}, {**marks, "n1": hour_s + 15_000})
    sink, _ = _follow(ledger, _Slow(make_rater(observations), clock, 1), clock, passes=4)
    for runs in sink.passes[:3]:
        assert {run.labels["node"] for run in runs} >= set(marks)
    with ledger.read() as connection:
        found = load_windows(connection, Principal.local_operator(), node="n1")
    assert [each.state for each in found][:4] == ["settled"] * 4


def test_a_store_that_is_down_delays_and_loses_nothing(
    ledger: Database, day: RecordedObservations, make_rater: MakeRater, hour_s: int
) -> None:
    """Neither a sample store that does not answer, nor a sink, ends the meter; each is said once a pass."""
    clock = FrozenClock((hour_s + 15_000) * US)

    class Flaky:
        calls = 0

        def rate_window(self, node: str, start_us: int, now_us: int) -> WindowResult:
            self.calls += 1
            if self.calls <= 2:
                raise UnavailableError("cannot read samples: the store does not answer")
            if self.calls == 3:
                raise ConflictError("cannot rate the window 'n1': another meter has moved it on; run again")
            return rater.rate_window(node, start_us, now_us)

    rater = make_rater(day)
    sink, said = _follow(ledger, Flaky(), clock, passes=6, sink=_Sink(failures=1))
    assert [text.partition(":")[0] for text in said] == [
        "cannot read samples",
        "cannot read samples",
        "cannot rate the window 'n1'",
        "cannot send",
    ]
    assert sink.passes
    with ledger.read() as connection:
        states = [each.state for each in load_windows(connection, Principal.local_operator(), node="n1")]
    assert states[:4] == ["settled"] * 4


def test_a_stop_is_not_waited_for(ledger: Database, hour_s: int) -> None:
    """Between two windows and in the pause."""
    clock = FrozenClock((hour_s + 15_000) * US)
    before_us = clock.now_us()
    rated: list[int] = []

    def one_pass(now_us: int) -> Iterator[WindowResult]:
        for number in range(100):
            clock.sleep_s(0.01)
            rated.append(number)
            yield WindowResult("n1", now_us, Outcome.WAITING, None, ())

    follow(one_pass, _Sink(), clock, every_s=60, is_stopped=lambda: len(rated) >= 3, report=print)
    assert len(rated) == 3
    assert clock.now_us() - before_us < US


def test_passes_begin_every_few_seconds(hour_s: int) -> None:
    clock, begun = FrozenClock(hour_s * US), []

    def one_pass(now_us: int) -> Iterator[WindowResult]:
        begun.append(now_us // US - hour_s)
        clock.sleep_s(2)
        return iter(())

    follow(one_pass, _Sink(), clock, every_s=5, is_stopped=lambda: len(begun) >= 4, report=print)
    assert begun == [0, 5, 10, 15]


def test_the_meter_publishes_the_newest_window_of_each_node(hour_s: int) -> None:
    """A residual that is not known is not 0, and a node that waits has no figures."""
    old = Window("n1", hour_s * US, "settled", hour_s * US + HOUR_US, 1, "d", 0, 0, 0)
    new = replace(old, start_us=old.start_us + HOUR_US, rated_until_us=(hour_s + 3_700) * US, unpriced_seconds=9)
    other = replace(old, node="n2", residual_compute=None, residual_vram=None)
    results = [
        WindowResult("n1", new.start_us, Outcome.OPEN, new, ()),
        WindowResult("n1", old.start_us, Outcome.SETTLED, old, ()),
        WindowResult("n2", old.start_us, Outcome.SETTLED, other, ()),
        WindowResult("n3", old.start_us, Outcome.WAITING, None, ()),
        WindowResult("n4", old.start_us, Outcome.CLOSED, replace(old, node="n4"), ()),
    ]
    runs = own_series(results, (hour_s + 3_705) * US + 500_000)
    assert {(run.series.name, run.labels["node"]): tuple(run.values) for run in runs} == {
        ("meter_lag_seconds", "n1"): (5.5,),
        ("meter_residual_compute_unit_seconds", "n1"): (0,),
        ("meter_residual_vram_byte_seconds", "n1"): (0,),
        ("meter_unpriced_seconds", "n1"): (9,),
        ("meter_lag_seconds", "n2"): (105.5,),
        ("meter_unpriced_seconds", "n2"): (0,),
    }
    assert all(list(run.seconds) == [hour_s + 3_705] for run in runs)
