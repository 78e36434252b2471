"""Random grants, faults, late data, re-runs, closes and corrections, each step beside a small independent model."""

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule, run_state_machine_as_test

from domain.clock import MICROSECONDS
from domain.errors import ConflictError, UnavailableError
from domain.period import format_instant
from meter.evidence.observations import Observations
from meter.ledger.leases_store import LEASE_S
from meter.windows.closing import close_hours
from meter.windows.passes import Follower, rate_period
from meter.windows.windows import WindowResult
from store.database import Database
from store.migrate import upgrade
from tests.databases import SqliteFiles, file_of
from tests.meter.followers import Sink
from tests.meter.hour import HOUR_S, hours_after, instant_us, stretch
from tests.meter.ledger_at_work import OPERATOR, Killed, place_of
from tests.meter.ledger_model import Place, Window
from tests.meter.ledger_outside import CARDS, END_S, OFFSETS, SAMPLES, LedgerOutside, Samples
from tests.meter.ledger_world import HOURS, NODE_OF, Held, Record
from tests.meter.ledgers import everything
from tests.meter.observations import Down, Meanwhile

_places = st.tuples(st.sampled_from(["n1", "n1", "n2", ""]), st.integers(0, HOURS - 1))


class LedgerMachine(LedgerOutside):
    """A ledger and its model; every rule does something to the one and says to the other what must come of it."""

    @invariant()
    def ledger_is_the_models(self) -> None:
        self.checks.compare()

    def teardown(self) -> None:
        try:
            # Else it did not even begin.
            if self.world.prices:
                self._end()
        finally:
            self.leave()

    def _end(self) -> None:
        """All that can be is rated and proved, and once more changes no byte."""
        # Nobody is waited for, so that both passes are of the same instant.
        self.time_moves_on(LEASE_S)
        self.follow()
        self.checks.compare()
        self.rate(0, HOURS)
        before = everything(self.work.database, self.work.evidence)
        self.rate(0, HOURS)
        assert everything(self.work.database, self.work.evidence) == before
        self.checks.compare()
        self.verify()

    @precondition(lambda self: self.model.now < END_S)
    @rule(hours=st.integers(1, 2), samples=st.lists(SAMPLES, max_size=3), closes=st.booleans())
    def hours_pass_without_a_fault(self, hours: int, samples: list[Samples], closes: bool) -> None:
        for each in samples:
            self.samples_arrive(each)
        for _ in range(hours):
            self.an_hour_passes()
        self.rate(0, HOURS)
        if closes:
            self.close(min(HOURS, int(self.model.now) // 3_600), rates_before=False)

    @rule(place=_places)
    def rate_one(self, place: Place) -> None:
        self._rated(self._begun_place(place))

    @rule(card=CARDS, until=st.integers(0, HOURS), offset=OFFSETS, hour=st.integers(0, HOURS - 1))
    def a_store_forgets(self, card: str, until: int, offset: int, hour: int) -> None:
        """What is older than so and so much; what settled by it stays as it was."""
        self.world.forget(card, until * 3_600 + offset)
        self._rated(self._begun_place((NODE_OF[card], hour)))

    @rule(first=st.integers(0, HOURS - 1), hours=st.sampled_from([1, 2, HOURS]))
    def rate(self, first: int, hours: int) -> None:
        """One pass over some hours; what a meter that was killed holds is waited for."""
        now, last = self.model.now, min(HOURS, first + hours)
        self.model.find()
        period = stretch(first * 3_600, last * 3_600)
        for result in rate_period(
            self.work.database, OPERATOR, self.work.rater(self.work.store()), period, self.clock, pytest.fail
        ):
            place = place_of(result.node, result.start_us)
            self.model.forget_lease(place)
            plan, after = self.model.plan(place, now)
            assert result.outcome == plan
            self._becomes(place, after)

    @rule()
    def follow(self) -> None:
        """One pass over what is due: then every settled window that it could get at is what is on record by now."""
        now = self.model.now
        self.model.find()
        follower = Follower(
            self.work.database, OPERATOR, self.work.rater(self.work.store()), Sink(), self.clock, pytest.fail
        )
        for result in follower.one_pass(1, lambda: False):
            place = place_of(result.node, result.start_us)
            if place[1] < HOURS:
                plan, after = self.model.plan(place, now)
                assert result.outcome == plan
                self._becomes(place, after)
        settled = [place for place, window in self.model.windows.items() if window.state == "settled"]
        assert not any(not self.model.is_busy(place) for place in self.model.stale(settled))

    @rule(place=_places, answers=st.booleans())
    def rate_while_the_store_is_down(self, place: Place, answers: bool) -> None:
        """Nothing is written, but what needs no store."""
        place = self._begun_place(place)
        node, _ = place
        plan, after = self.model.plan(place, self.model.now)
        down = Down(HOUR_S + self.world.marks.get(node, -1) if answers else None)
        is_asked = node != "" and not (answers and plan in {"waiting", "busy"})
        if is_asked:
            with pytest.raises(UnavailableError, match="the store does not answer"):
                self._pass(place, down)
        else:
            assert self._pass(place, down).outcome == plan
            self._becomes(place, after)

    @rule(place=_places, card=st.sampled_from(list(NODE_OF)), expires=st.booleans())
    def two_meters_at_once(self, place: Place, card: str, expires: bool) -> None:
        """While the first reads, more comes and a second passes; a first that was overtaken writes nothing."""
        place = self._begun_place(place)
        plan, after = self.model.plan(place, self.model.now)
        seen: list[str] = []

        def other_comes() -> None:
            self.world.arrive(card, range(place[1] * 3_600 + 600, place[1] * 3_600 + 640), "busy")
            if expires:
                self.clock.advance_us(LEASE_S * MICROSECONDS)
                seen.append(self._rated(place))
            else:
                assert self._pass(place).outcome == "busy"

        first = partial(self._pass, place, Meanwhile(self.work.store(), other_comes))
        try:
            assert first().outcome == plan
        except ConflictError:
            assert seen not in ([], ["waiting"])
        else:
            # What came late to a closed window is counted by whoever comes last.
            assert not seen or plan == "closed"
            self._becomes(place, after)

    @rule(place=_places, dies_at=st.integers(1, 3))
    def a_meter_is_killed(self, place: Place, dies_at: int) -> None:
        """As it takes its lease, as it writes, or when that is done: all of it or nothing was written."""
        place = self._begun_place(place)
        plan, after = self.model.plan(place, self.model.now)
        dying = self.work.dying(dies_at)
        with closing(dying):
            try:
                outcome = self.work.rater(self.work.store(), dying).rate_window(
                    place[0], instant_us(place[1] * 3_600), self.clock.now_us()
                )
            except Killed:
                self._becomes(place, after if dies_at == 3 else None)
                held = self.work.leases().get(place)
                if held is not None and held != self.model.leases.get(place):
                    self.model.leave_lease(place)
            else:
                assert outcome.outcome == plan
                self._becomes(place, after)

    @rule(until=st.integers(1, HOURS), rates_before=st.booleans())
    def close(self, until: int, rates_before: bool) -> None:
        """The oldest first, up to one that cannot be closed; where all was rated a moment ago only that can be why."""
        if until * 3_600 > self.model.now:
            return
        if rates_before:
            self.rate(0, HOURS)
        self.model.find()
        refusal = ""
        try:
            for each in close_hours(self.work.database, OPERATOR, instant_us(until * 3_600)):
                assert self.model.close(hours_after(each.start_us))
        except ConflictError as error:
            refusal = str(error)
        left = sorted({hour for _, hour in self.model.windows if hour < until} - self.model.closed_hours)
        assert bool(refusal) == bool(left)
        if refusal:
            assert f"the hour {format_instant(instant_us(left[0] * 3_600))!r}" in refusal
            # A change of a moment ago may have been rated already, which is not known then.
            may_be_done = "it is to be rated again" in refusal and not rates_before
            assert may_be_done or not self.model.close(left[0])

    @rule(place=_places)
    def correct(self, place: Place) -> None:
        place = self._begun_place(place)
        self.correct_window(place)

    @rule(samples=st.lists(SAMPLES, max_size=2), are_counted=st.booleans())
    def correct_all(self, samples: list[Samples], are_counted: bool) -> None:
        """More comes late, and may be counted; then closed hours come to what they would be rated to."""
        for each in samples:
            self.samples_arrive(each)
        if are_counted:
            self.rate(0, HOURS)
        for place in sorted(place for place, window in self.model.windows.items() if window.state == "closed"):
            self.correct_window(place)

    @rule()
    def verify(self) -> None:
        """Without raw samples, all is found that records and prices have changed since, and nothing else."""
        stale = self.model.stale(self.model.windows)
        assert self.work.problems() == {
            f"{format_instant(instant_us(hour * 3_600))} {node or '(no device)'}" for node, hour in stale
        }

    def _begun_place(self, place: Place) -> Place:
        """A window that has begun, or will next."""
        return place[0], place[1] % self.begun_hours()

    def _rated(self, place: Place) -> str:
        """One pass over the window, as the model says; what that ended in."""
        plan, after = self.model.plan(place, self.model.now)
        assert self._pass(place).outcome == plan
        self._becomes(place, after)
        return plan

    def _pass(self, place: Place, store: Observations | None = None) -> WindowResult:
        node, hour = place
        rater = self.work.rater(store or self.work.store())
        return rater.rate_window(node, instant_us(hour * 3_600), self.clock.now_us())

    def _becomes(self, place: Place, after: Window | None) -> None:
        if after is not None:
            self.model.windows[place] = after
            self.model.forget_lease(place)


@pytest.fixture(scope="module")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty ledger in a file, to be copied."""
    with SqliteFiles(tmp_path_factory.mktemp("databases")).empty() as url:
        with closing(Database(url)) as database:
            upgrade(database)
        return file_of(url)


def test_a_ledger_is_what_the_model_says_from_first_sample_to_last_correction(migrated_file: Path) -> None:
    """What random steps seldom do in this order: settle, forget, close, come late, be counted, be corrected."""
    machine = LedgerMachine(migrated_file)
    held, elsewhere = Held("GPU-1", 1_000, 0, 9_000), Held(None, 1_000, 0, 9_000)
    early, late = ("GPU-1", range(45), "over"), ("GPU-1", range(100, 400), "busy")
    machine.begin(prices=2, records=[Record("acme", "p", (held,))], samples=[early], begun=60)
    steps: list[Callable[[], object]] = [
        lambda: machine.hours_pass_without_a_fault(hours=1, samples=[], closes=False),
        lambda: machine.a_store_forgets("GPU-1", until=1, offset=0, hour=0),
        lambda: machine.close(until=1, rates_before=False),
        lambda: machine.samples_arrive(late),
        lambda: machine.rate(0, HOURS),
        lambda: machine.correct_all(samples=[], are_counted=False),
        lambda: machine.say("a2", Record("acme", "q", (elsewhere,)), corrects=False),
        lambda: machine.rate_one(("", 0)),
        lambda: machine.say("a2", Record("acme", "q", (elsewhere,)), corrects=True),
        lambda: machine.say("a2", Record("acme", "q", (Held(None, 500, 3_600, 9_000),)), corrects=True),
        lambda: machine.a_price_is_added(2),
        machine.follow,
        machine.verify,
    ]
    for step in steps:
        step()
        machine.ledger_is_the_models()
    machine.teardown()


@pytest.mark.long
def test_whatever_happens_the_ledger_is_what_the_model_says(migrated_file: Path, is_soak: bool) -> None:
    """Steps that fail are made fewer where there is time for that."""
    phases = (Phase.explicit, Phase.reuse, Phase.generate, *((Phase.shrink,) if is_soak else ()))
    run_state_machine_as_test(
        partial(LedgerMachine, migrated_file),  # type: ignore[arg-type] # it is only called
        settings=settings(
            max_examples=settings().max_examples * 20 // 100,
            stateful_step_count=30,
            deadline=None,
            phases=phases,
            suppress_health_check=list(HealthCheck),
        ),
    )
