"""A meter that follows: what is due is rated in time, nothing waits for ever, what fails is said and costs little."""

from collections.abc import Callable, Iterable

import pytest

from domain.clock import MICROSECONDS, FrozenClock
from domain.errors import ConflictError, GputabError, InputError, UnavailableError
from domain.period import HOUR_US, format_instant
from domain.samples import SampleRun
from meter.evidence.evidence import CONTEXT_S
from meter.evidence.observations import RecordedObservations
from meter.windows.windows import Outcome, WindowResult
from store.access import Principal
from store.database import Database
from tests.meter.fixture_types import At, Everything, MakeGrant, MakeRater, PutGrants
from tests.meter.followers import Failing, Followed, Sink, Slow
from tests.meter.hour import HOUR_S, START_US, hours_after
from tests.meter.ledgers import add_card, add_node, charges_of, forget_bills

Follow = Callable[..., Followed]


@pytest.fixture
def follower(ledger: Database, operator: Principal, database_clock: FrozenClock) -> Follow:
    """A meter that follows, by the clock of its ledger."""
    return lambda rater, failures=0: Followed(ledger, operator, rater, database_clock, Sink(failures))


def _series(runs: Iterable[SampleRun]) -> dict[tuple[str, ...], tuple[float, ...]]:
    return {(run.series.name, *run.labels.values()): tuple(run.values) for run in runs}


def test_passes_while_time_goes_on_end_where_one_pass_at_the_end_does(
    ledger: Database, day: RecordedObservations, make_rater: MakeRater, follower: Follow, everything: Everything, at: At
) -> None:
    """A meter that followed the day second by second, and one that was started the day after."""
    frame = day.samples("n1", 0, 2**40)
    for now in range(900, 15_000, 1_300):
        so_far = RecordedObservations({"n1": frame.filter(frame["second_s"] < HOUR_S + now)}, {"n1": HOUR_S + now})
        at(now)
        follower(make_rater(so_far)).one_pass()
    at(15_000)
    follower(make_rater(day)).one_pass()
    followed = {name: rows for name, rows in everything().items() if name in ("charges", "windows", "evidence")}
    assert len(followed["windows"]) == 8
    forget_bills(ledger)
    follower(make_rater(day)).one_pass()
    assert {name: rows for name, rows in everything().items() if name in followed} == followed


def test_due_is_what_has_begun_and_not_settled(
    day: RecordedObservations, make_rater: MakeRater, follower: Follow, at: At
) -> None:
    def due(now: float) -> set[tuple[int, str]]:
        at(now)
        found = follower(make_rater(day)).one_pass()
        return {(hours_after(each.start_us), each.node) for each in found}

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
    follower: Follow,
    put_grants: PutGrants,
    make_grant: MakeGrant,
    at: At,
) -> None:
    """And nothing else is rated for its sake, nor a second time."""
    at(15_000)
    follower(make_rater(day)).one_pass()
    at(15_010)
    put_grants(make_grant(0, 3_600, allocation="late", gpu_uuid=None, node=""))
    slow = Slow(make_rater(day), FrozenClock(0), 0)
    follower(slow).one_pass()
    follower(slow).one_pass()
    asked = [(hours_after(start_us), node) for _, node, start_us in slow.asked]
    assert asked == [(4, "n1"), (0, ""), (4, "n1")]
    late = [each for each in charges_of(ledger) if each.allocation == "late"]
    assert [(each.dimension, each.granted_seconds) for each in late] == [("gpu", 3_600), ("vram", 3_600)]


def test_samples_that_come_late_into_a_settled_hour_are_in_the_ledger_in_time(
    ledger: Database, day: RecordedObservations, make_rater: MakeRater, follower: Follow, at: At
) -> None:
    """As an import brings them: nobody tells the meter, which looks again at what has settled, in turn."""
    frame = day.samples("n1", 0, 2**40)
    without = RecordedObservations({"n1": frame.clear()}, {"n1": HOUR_S + 4 * 3_600 + CONTEXT_S})
    at(15_000)
    follower(make_rater(without)).follow(1)
    assert {each.covered_seconds for each in charges_of(ledger)} == {0, None}
    before = len(charges_of(ledger))
    follower(make_rater(day)).follow(1)
    whole = charges_of(ledger)
    forget_bills(ledger)
    follower(make_rater(day)).one_pass()
    assert charges_of(ledger) == whole
    assert before <= len(whole)


def test_looking_again_takes_a_tenth_of_a_pass_and_begins_where_it_left(
    day: RecordedObservations, make_rater: MakeRater, follower: Follow, database_clock: FrozenClock, at: At
) -> None:
    """Of seven settled windows two to three in each pass of five seconds, those looked at longest ago first."""
    at(15_000)
    follower(make_rater(day)).one_pass()
    slow = Slow(make_rater(day), database_clock, 0.2)
    follower(slow).follow(15)
    settled = [(hours_after(start_us), node) for _, node, start_us in slow.asked if hours_after(start_us) < 4]
    assert len(settled) == 9
    assert len(set(settled[:7])) == 7
    assert settled[7:] == settled[:2]


def test_windows_that_cannot_settle_do_not_keep_others_from_it(
    ledger: Database,
    day: RecordedObservations,
    make_rater: MakeRater,
    follower: Follow,
    database_clock: FrozenClock,
    at: At,
) -> None:
    """Nodes that were taken away leave days of waiting hours, which take longer than a pass may."""
    at(15_000)
    for number in range(2):
        add_node(ledger, f"dead{number}")
        add_card(ledger, f"GPU-dead{number}", -10 * 3_600, node=f"dead{number}")
    followed = follower(Slow(make_rater(day), database_clock, 1))
    followed.follow(200)
    assert followed.settled() >= {("n1", hour) for hour in range(4)}


def test_a_present_hour_that_takes_longer_than_a_pass_leaves_time_for_the_past(
    ledger: Database,
    day: RecordedObservations,
    make_rater: MakeRater,
    follower: Follow,
    database_clock: FrozenClock,
    at: At,
) -> None:
    """Ten nodes of a second each: all of them are rated in every pass, and the past is worked off."""
    at(15_000)
    marks = {f"m{number}": HOUR_S + 15_000 for number in range(10)}
    for node in marks:
        add_node(ledger, node)
        add_card(ledger, f"GPU-{node}", 14_500, node=node)
    observations = RecordedObservations({"n1": day.samples("n1", 0, 2**40)}, {**marks, "n1": HOUR_S + 15_000})
    followed = follower(Slow(make_rater(observations), database_clock, 1))
    followed.follow(80)
    assert len(followed.sink.passes) > 3
    for runs in followed.sink.passes[:3]:
        assert {run.labels["node"] for run in runs if "node" in run.labels} >= set(marks)
    assert followed.settled() >= {("n1", hour) for hour in range(4)}


def test_a_node_that_never_said_a_word_waits_and_has_no_figures(
    make_rater: MakeRater, follower: Follow, at: At
) -> None:
    """Its windows were found, of which nothing is rated: a lag from the beginning of the hour would look small."""
    at(4_000)
    followed = follower(make_rater(RecordedObservations({}, {})))
    followed.follow(1)
    (runs,) = followed.sink.passes
    assert _series(runs) == {
        ("meter_oldest_open_window_timestamp_seconds", "n1"): (HOUR_S,),
        ("meter_corrections_total",): (0,),
    }
    assert [(each.outcome, each.window) for each in followed.one_pass()] == [(Outcome.WAITING, None)] * 2


def test_the_meter_publishes_the_newest_window_of_each_node(
    day: RecordedObservations, make_rater: MakeRater, follower: Follow, at: At
) -> None:
    """n1 is complete to the end of its fourth hour and the context beyond; '' holds nothing after its third."""
    at(15_000)
    followed = follower(make_rater(day))
    followed.follow(1)
    (runs,) = followed.sink.passes
    figures = (
        *("meter_residual_compute_unit_seconds", "meter_residual_vram_byte_seconds", "meter_unpriced_seconds"),
        *("meter_quarantined_samples", "meter_late_device_seconds", "meter_unknown_windows"),
    )
    expected: dict[tuple[str, ...], tuple[float, ...]] = {
        ("meter_oldest_open_window_timestamp_seconds", "n1"): (HOUR_S + 14_400,),
        ("meter_lag_seconds", "n1"): (600 - CONTEXT_S,),
        ("meter_corrections_total",): (0,),
    }
    expected |= {(name, node): (0,) for name in figures for node in ("n1", "")}
    assert _series(runs) == expected


@pytest.mark.usefixtures("day")
def test_passes_begin_every_few_seconds(follower: Follow, database_clock: FrozenClock, at: At) -> None:
    """However long each of them takes, as long as it is less."""
    at(15_000)
    slow = Slow(None, database_clock, 0.25)
    follower(slow).follow(17)
    present_us = START_US + 4 * HOUR_US
    begun = [(now_us - START_US) // MICROSECONDS for now_us, _, start_us in slow.asked if start_us == present_us]
    assert begun == [15_000, 15_005, 15_010, 15_015]


@pytest.mark.usefixtures("day")
def test_a_stop_is_not_waited_for(follower: Follow, database_clock: FrozenClock, at: At) -> None:
    """Between two windows, of which there are eight, and in the pause."""
    at(15_000)
    slow = Slow(None, database_clock, 10)
    follower(slow).follow(25)
    assert len(slow.asked) == 3
    before_s = database_clock.monotonic_s()
    follower(Slow(None, database_clock, 0)).follow(0.5)
    assert database_clock.monotonic_s() - before_s < 1


@pytest.mark.parametrize("error", [ConflictError, InputError])
def test_a_window_that_fails_is_said_and_the_others_are_rated(
    day: RecordedObservations, make_rater: MakeRater, follower: Follow, at: At, error: type[GputabError]
) -> None:
    """In the present hour as in the past; once a pass, and the pass is published as far as it went."""
    at(15_000)
    failing = {("n1", 1): error("cannot rate the window: no"), ("n1", 4): error("cannot rate the present")}
    followed = follower(Failing(make_rater(day), failing))
    found = followed.one_pass()
    said = {place: str(each) for place, each in failing.items()}
    if error is InputError:
        # What is refused knows the number and not whose it is.
        hours = {place: format_instant(START_US + place[1] * HOUR_US) for place in failing}
        said = {place: f"cannot rate the window 'n1' '{hours[place]}': {text}" for place, text in said.items()}
    each_pass = sorted(said.values())
    assert sorted(followed.said) == each_pass
    assert followed.settled() == {("n1", 0), ("n1", 2), ("n1", 3), ("", 0), ("", 1), ("", 2)}
    assert len(found) == 6
    followed.follow(6)
    assert sorted(followed.said) == sorted(3 * each_pass)
    assert len(followed.sink.passes) == 2
    followed.rater.errors.clear()
    followed.follow(1)
    assert ("n1", 1) in followed.settled()


def test_a_store_that_is_down_ends_the_pass(
    day: RecordedObservations, make_rater: MakeRater, follower: Follow, at: At
) -> None:
    """It is down for every window, so no other is tried before the next pass."""
    at(15_000)
    followed = follower(Failing(make_rater(day), {("n1", 4): UnavailableError("cannot read samples")}))
    with pytest.raises(UnavailableError, match="cannot read samples"):
        followed.one_pass()
    # The present hour comes first.
    assert followed.rater.asked == [("n1", 4)]
    assert followed.settled() == set()


def test_a_store_that_is_down_delays_and_loses_nothing(
    day: RecordedObservations, make_rater: MakeRater, follower: Follow, at: At
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
    assert followed.settled() >= {("n1", hour) for hour in range(4)}
