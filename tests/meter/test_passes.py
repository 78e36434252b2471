"""Many windows: any cut of time gives the same ledger, nothing due is forgotten, and a meter that follows goes on."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, insert

from domain.clock import FrozenClock
from domain.errors import ConflictError, GputabError, InputError, UnavailableError
from domain.grants import Grant
from domain.period import HOUR_US, Period
from domain.samples import SampleRun
from meter.charges import Charge
from meter.evidence import CONTEXT_S
from meter.ledger_store import Window, load_charges, load_windows
from meter.observations import RecordedObservations
from meter.passes import Follower, own_series, rate_period
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


@pytest.fixture
def run(
    ledger: Database,
    operator: Principal,
    day: RecordedObservations,
    make_rater: MakeRater,
    at: Callable[[float], int],
    hour_s: int,
) -> Callable[..., list[WindowResult]]:
    """One pass over [start, end) of the day at `now`, all offsets into the hour."""

    def ran(start: float, end: float, now: float) -> list[WindowResult]:
        period = Period(round((hour_s + start) * US), round((hour_s + end) * US))
        return list(rate_period(ledger, operator, make_rater(day), period, at(now)))

    return ran


def test_a_period_rates_every_window_it_touches_as_a_whole(run: Callable[..., list[WindowResult]], hour_s: int) -> None:
    """By hour and node; '' are the grants without a device, which come only where there are some."""
    results = run(3_599.5, 7_201, 15_000)
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
    run: Callable[..., list[WindowResult]], start: float, end: float
) -> None:
    assert run(start, end, 15_000) == []


def test_what_lies_ahead_is_not_rated(run: Callable[..., list[WindowResult]], hour_s: int) -> None:
    """Neither at first nor when its window is there already."""
    assert run(9_000, 14_400, 4_000) == []
    results = run(0, 14_400, 4_000)
    assert [(each.start_us // US - hour_s) // 3_600 for each in results] == [0, 0, 1, 1]
    run(0, 14_400, 15_000)
    assert run(9_000, 14_400, 4_000) == []


@given(cuts=st.lists(st.integers(1, 14_399), max_size=5, unique=True), backwards=st.booleans())
@settings(
    max_examples=settings().max_examples * 5 // 100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_cut_of_the_time_leaves_the_same_ledger_to_the_byte(
    ledger: Database,
    run: Callable[..., list[WindowResult]],
    everything: Callable[[], dict[str, Any]],
    cuts: list[int],
    backwards: bool,
) -> None:
    """Promise 2: in one run or many, in any order, each window rated once or several times."""
    with ledger.write() as connection:
        for table in (charges, evidence, windows):
            connection.execute(delete(table))
    run(0, 14_400, 15_000)
    whole = everything()
    assert len(whole["charges"]) > 15
    with ledger.write() as connection:
        for table in (charges, evidence, windows):
            connection.execute(delete(table))
    borders = [0, *sorted(cuts), 14_400]
    pieces = list(pairwise(borders))
    for start, end in reversed(pieces) if backwards else pieces:
        run(start, end, 15_000)
    assert everything() == whole


@pytest.fixture
def follower(ledger: Database, operator: Principal, database_clock: FrozenClock) -> Callable[..., "_Followed"]:
    """A meter that follows, by the clock of its ledger."""
    return lambda rater, failures=0: _Followed(ledger, operator, rater, database_clock, _Sink(failures))


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


@dataclass
class _Followed:
    """A follower, what it published and what it said."""

    database: Database
    operator: Principal
    rater: Any
    clock: FrozenClock
    sink: _Sink
    said: list[str] = field(default_factory=list)

    def follow(self, seconds: float) -> None:
        """For so long, a pass every five seconds."""
        until_s = self.clock.monotonic_s() + seconds
        self._made().follow(5, lambda: self.clock.monotonic_s() >= until_s)

    def one_pass(self, at_least_s: float = 5) -> list[WindowResult]:
        return self._made().one_pass(at_least_s, lambda: False)

    def _made(self) -> Follower:
        return Follower(self.database, self.operator, self.rater, self.sink, self.clock, self.said.append)


@dataclass
class _Slow:
    """A rater that takes its time, and keeps when it was asked for what."""

    rater: Any
    clock: FrozenClock
    seconds: float
    asked: list[tuple[int, str, int]] = field(default_factory=list)

    def rate_window(self, node: str, start_us: int, now_us: int) -> WindowResult:
        self.asked.append((self.clock.now_us(), node, start_us))
        self.clock.sleep_s(self.seconds)
        if self.rater is None:
            return WindowResult(node, start_us, Outcome.WAITING, None, ())
        found: WindowResult = self.rater.rate_window(node, start_us, now_us)
        return found


@dataclass
class _Failing:
    """A rater that fails for some of the windows, by node and hours from the hour."""

    rater: WindowRater
    hour_s: int
    errors: dict[tuple[str, int], GputabError]
    asked: list[tuple[str, int]] = field(default_factory=list)

    def rate_window(self, node: str, start_us: int, now_us: int) -> WindowResult:
        place = (node, (start_us // US - self.hour_s) // 3_600)
        self.asked.append(place)
        if place in self.errors:
            raise self.errors[place]
        return self.rater.rate_window(node, start_us, now_us)


def _settled(database: Database, hour_s: int) -> set[tuple[str, int]]:
    with database.read() as connection:
        found = load_windows(connection, Principal.local_operator())
    return {(each.node, (each.start_us // US - hour_s) // 3_600) for each in found if each.state == "settled"}


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
                changed_us=0,
            )
        )


def test_passes_while_time_goes_on_end_where_one_pass_at_the_end_does(
    ledger: Database,
    day: RecordedObservations,
    make_rater: MakeRater,
    follower: Callable[..., _Followed],
    everything: Callable[[], dict[str, Any]],
    at: Callable[[float], int],
    hour_s: int,
) -> None:
    """A meter that followed the day second by second, and one that was started the day after."""
    frame = day.samples("n1", 0, 2**40)
    for now in range(900, 15_000, 1_300):
        so_far = RecordedObservations({"n1": frame.filter(frame["second_s"] < hour_s + now)}, {"n1": hour_s + now})
        at(now)
        follower(make_rater(so_far)).one_pass()
    at(15_000)
    follower(make_rater(day)).one_pass()
    followed = {name: rows for name, rows in everything().items() if name in ("charges", "windows", "evidence")}
    assert len(followed["windows"]) == 8
    with ledger.write() as connection:
        for table in (charges, evidence, windows):
            connection.execute(delete(table))
    follower(make_rater(day)).one_pass()
    assert {name: rows for name, rows in everything().items() if name in followed} == followed


def test_due_is_what_has_begun_and_not_settled(
    day: RecordedObservations,
    make_rater: MakeRater,
    follower: Callable[..., _Followed],
    at: Callable[[float], int],
    hour_s: int,
) -> None:
    def due(now: float) -> set[tuple[int, str]]:
        at(now)
        found = follower(make_rater(day)).one_pass()
        return {((each.start_us // US - hour_s) // 3_600, each.node) for each in found}

    assert due(0) == set()
    assert due(3_700) == {(0, ""), (0, "n1"), (1, ""), (1, "n1")}
    assert due(3_800) == {(1, ""), (1, "n1")}
    assert due(15_000) == {(1, ""), (1, "n1"), (2, ""), (2, "n1"), (3, "n1"), (4, "n1")}
    # The cards are still there, so every hour has their capacity to account for.
    assert due(15_000) == {(4, "n1")}


def test_what_comes_late_into_a_settled_hour_is_in_the_ledger_after_the_next_pass(
    ledger: Database,
    day: RecordedObservations,
    make_rater: MakeRater,
    follower: Callable[..., _Followed],
    put_grants: Callable[..., None],
    make_grant: Callable[..., Grant],
    at: Callable[[float], int],
    hour_s: int,
) -> None:
    """And nothing else is rated for its sake, nor a second time."""
    at(15_000)
    follower(make_rater(day)).follow(6)
    put_grants(make_grant(0, 3_600, allocation="late", gpu_uuid=None, node=""))
    slow = _Slow(make_rater(day), FrozenClock(0), 0)
    follower(slow).follow(60)
    asked = [((start_us // US - hour_s) // 3_600, node) for _, node, start_us in slow.asked]
    assert sorted(asked) == [(0, ""), *[(4, "n1")] * 12]
    with ledger.read() as connection:
        late = [each for each in load_charges(connection, Principal.local_operator()) if each.allocation == "late"]
    assert [(each.dimension, each.granted_seconds) for each in late] == [("gpu", 3_600), ("vram", 3_600)]


def test_a_node_that_never_said_a_word_waits_and_has_no_figures(
    ledger: Database,
    make_rater: MakeRater,
    follower: Callable[..., _Followed],
    at: Callable[[float], int],
    hour_s: int,
) -> None:
    """Its windows were found, of which nothing is rated: a lag from the beginning of the hour would look small."""
    at(4_000)
    followed = follower(make_rater(RecordedObservations({}, {})))
    followed.follow(1)
    (runs,) = followed.sink.passes
    assert _series(runs) == {("meter_oldest_open_window_timestamp_seconds", "n1"): (hour_s,)}
    assert [(each.outcome, each.window) for each in followed.one_pass()] == [(Outcome.WAITING, None)] * 2


def test_windows_that_cannot_settle_do_not_keep_others_from_it(
    ledger: Database,
    day: RecordedObservations,
    make_rater: MakeRater,
    follower: Callable[..., _Followed],
    database_clock: FrozenClock,
    at: Callable[[float], int],
    hour_s: int,
) -> None:
    """Nodes that were taken away leave days of waiting hours, which take longer than a pass may."""
    at(15_000)
    for number in range(2):
        _add_node(ledger, f"dead{number}", (hour_s - 10 * 3_600) * US)
    follower(_Slow(make_rater(day), database_clock, 1)).follow(200)
    assert _settled(ledger, hour_s) >= {("n1", hour) for hour in range(4)}


def test_a_present_hour_that_takes_longer_than_a_pass_leaves_time_for_the_past(
    ledger: Database,
    day: RecordedObservations,
    make_rater: MakeRater,
    follower: Callable[..., _Followed],
    database_clock: FrozenClock,
    at: Callable[[float], int],
    hour_s: int,
) -> None:
    """Ten nodes of a second each: all of them are rated in every pass, and the past is worked off."""
    at(15_000)
    marks = {f"m{number}": hour_s + 15_000 for number in range(10)}
    for node in marks:
        _add_node(ledger, node, (hour_s + 14_500) * US)
    observations = RecordedObservations({"n1": day.samples("n1", 0, 2**40)}, {**marks, "n1": hour_s + 15_000})
    followed = follower(_Slow(make_rater(observations), database_clock, 1))
    followed.follow(80)
    assert len(followed.sink.passes) > 3
    for runs in followed.sink.passes[:3]:
        assert {run.labels["node"] for run in runs if "node" in run.labels} >= set(marks)
    assert _settled(ledger, hour_s) >= {("n1", hour) for hour in range(4)}


@pytest.mark.parametrize("error", [ConflictError, InputError])
def test_a_window_that_fails_is_said_and_the_others_are_rated(
    ledger: Database,
    day: RecordedObservations,
    make_rater: MakeRater,
    follower: Callable[..., _Followed],
    at: Callable[[float], int],
    hour_s: int,
    error: type[GputabError],
) -> None:
    """In the present hour as in the past; once a pass, and the pass is published as far as it went."""
    at(15_000)
    failing = {("n1", 1): error("cannot rate the window: no"), ("n1", 4): error("cannot rate the present")}
    followed = follower(_Failing(make_rater(day), hour_s, failing))
    found = followed.one_pass()
    each_pass = ["cannot rate the present", "cannot rate the window: no"]
    assert sorted(followed.said) == each_pass
    assert _settled(ledger, hour_s) == {("n1", 0), ("n1", 2), ("n1", 3), ("", 0), ("", 1), ("", 2)}
    assert len(found) == 6
    followed.follow(6)
    assert sorted(followed.said) == sorted(3 * each_pass)
    assert len(followed.sink.passes) == 2
    followed.rater.errors.clear()
    followed.follow(1)
    assert ("n1", 1) in _settled(ledger, hour_s)


def test_a_store_that_is_down_ends_the_pass(
    ledger: Database,
    day: RecordedObservations,
    make_rater: MakeRater,
    follower: Callable[..., _Followed],
    at: Callable[[float], int],
    hour_s: int,
) -> None:
    """It is down for every window, so no other is tried before the next pass."""
    at(15_000)
    followed = follower(_Failing(make_rater(day), hour_s, {("n1", 4): UnavailableError("cannot read samples")}))
    with pytest.raises(UnavailableError, match="cannot read samples"):
        followed.one_pass()
    # The present hour comes first.
    assert followed.rater.asked == [("n1", 4)]
    assert _settled(ledger, hour_s) == set()


def test_a_store_that_is_down_delays_and_loses_nothing(
    ledger: Database,
    day: RecordedObservations,
    make_rater: MakeRater,
    follower: Callable[..., _Followed],
    at: Callable[[float], int],
    hour_s: int,
) -> None:
    """Neither a sample store that does not answer, nor a sink, ends the meter; each is said once a pass."""
    at(15_000)

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
    followed = follower(Flaky(), failures=1)
    followed.follow(30)
    assert [text.partition(":")[0] for text in followed.said] == [
        "cannot read samples",
        "cannot read samples",
        "cannot rate the window 'n1'",
        "cannot send",
    ]
    assert followed.sink.passes
    assert _settled(ledger, hour_s) >= {("n1", hour) for hour in range(4)}


@pytest.mark.usefixtures("day")
def test_a_stop_is_not_waited_for(
    follower: Callable[..., _Followed], database_clock: FrozenClock, at: Callable[[float], int]
) -> None:
    """Between two windows, of which there are eight, and in the pause."""
    at(15_000)
    slow = _Slow(None, database_clock, 10)
    follower(slow).follow(25)
    assert len(slow.asked) == 3
    before_s = database_clock.monotonic_s()
    follower(_Slow(None, database_clock, 0)).follow(0.5)
    assert database_clock.monotonic_s() - before_s < 1


@pytest.mark.usefixtures("day")
def test_passes_begin_every_few_seconds(
    follower: Callable[..., _Followed], database_clock: FrozenClock, at: Callable[[float], int], hour_s: int
) -> None:
    """However long each of them takes, as long as it is less."""
    at(15_000)
    slow = _Slow(None, database_clock, 0.25)
    follower(slow).follow(17)
    present_us = (hour_s + 14_400) * US
    begun = [(now_us // US - hour_s) for now_us, _, start_us in slow.asked if start_us == present_us]
    assert begun == [15_000, 15_005, 15_010, 15_015]


def _result(outcome: Outcome, window: Window, *its_charges: Charge) -> WindowResult:
    is_waiting = outcome is Outcome.WAITING
    return WindowResult(window.node, window.start_us, outcome, None if is_waiting else window, its_charges)


def _series(runs: Iterable[SampleRun]) -> dict[tuple[str, ...], tuple[float, ...]]:
    return {(run.series.name, *run.labels.values()): tuple(run.values) for run in runs}


def test_the_meter_publishes_the_newest_window_of_each_node(hour_s: int) -> None:
    """A residual that is not known is not 0; a node that waits has no figures, but since when it waits."""
    old = Window("n1", hour_s * US, "settled", hour_s * US + HOUR_US, 1, "d", 0, 0, 0, 1)
    new = replace(old, start_us=old.start_us + HOUR_US, rated_until_us=(hour_s + 3_700) * US, unpriced_seconds=9)
    results = [
        _result(Outcome.OPEN, new),
        _result(Outcome.SETTLED, old),
        _result(Outcome.SETTLED, replace(old, node="n2", residual_compute=None, residual_vram=None)),
        _result(Outcome.WAITING, replace(new, node="n3")),
        _result(Outcome.WAITING, replace(old, node="n3")),
        _result(Outcome.CLOSED, replace(old, node="n4")),
        # Its last hour is over and cannot settle, and nothing is known of the present one.
        _result(Outcome.OPEN, replace(old, node="n5", rated_until_us=hour_s * US + 5)),
        _result(Outcome.WAITING, replace(new, node="n5")),
    ]
    runs = own_series(results, (hour_s + 3_705) * US + 500_000)
    figures = ("meter_residual_compute_unit_seconds", "meter_residual_vram_byte_seconds", "meter_unpriced_seconds")
    assert _series(runs) == {
        ("meter_oldest_open_window_timestamp_seconds", "n1"): (hour_s + 3_600,),
        ("meter_lag_seconds", "n1"): (5.5,),
        (figures[0], "n1"): (0,),
        (figures[1], "n1"): (0,),
        (figures[2], "n1"): (9,),
        ("meter_lag_seconds", "n2"): (105.5,),
        (figures[2], "n2"): (0,),
        ("meter_oldest_open_window_timestamp_seconds", "n3"): (hour_s,),
        ("meter_lag_seconds", "n4"): (105.5,),
        **{(name, "n4"): (0,) for name in figures},
        ("meter_oldest_open_window_timestamp_seconds", "n5"): (hour_s,),
    }
    assert all(list(run.seconds) == [hour_s + 3_705] for run in runs)


def test_the_meter_publishes_what_each_tenant_spends_an_hour(hour_s: int) -> None:
    """Of all nodes of the present hour, each as far as it is rated; the past is spent."""
    past = Window("n1", hour_s * US, "settled", hour_s * US + HOUR_US, 1, "d", 0, 0, 0, 1)
    start_us = past.start_us + HOUR_US
    half = Window("n1", start_us, "open", start_us + HOUR_US // 2, 0, None, 0, 0, 0, 1)
    tenth = replace(half, node="n2", rated_until_us=start_us + HOUR_US // 10)
    nothing = replace(half, node="n3", rated_until_us=start_us)
    costs = Charge(
        *("n1", start_us, "a1", 0, "gpu", "r", "2026-03-01", "acme", "p", "s", 1, 1, 0, 0, 0, 1, 1, 1),
        currency="CNY",
        amount_nano=1_100_000_000,
    )
    results = [
        _result(Outcome.SETTLED, past, replace(costs, amount_nano=77)),
        _result(Outcome.OPEN, half, costs, replace(costs, dimension="vram", amount_nano=100_000_000)),
        _result(Outcome.OPEN, tenth, costs, replace(costs, tenant="globex", currency="USD", amount_nano=1_000_000)),
        _result(Outcome.OPEN, nothing),
    ]
    spent = {key: values for key, values in _series(own_series(results, start_us + HOUR_US // 2)).items() if key[2:]}
    assert {key: round(values[0], 9) for key, values in spent.items()} == {
        ("meter_spend_rate_per_hour", "acme", "CNY"): 2 * 1.2 + 10 * 1.1,
        ("meter_spend_rate_per_hour", "globex", "USD"): 0.01,
    }
