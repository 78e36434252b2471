"""Rules of the machine of test_ledger_machine.py: what happens to a ledger that no meter does."""

import shutil
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from domain.clock import MICROSECONDS, FrozenClock
from domain.errors import ConflictError
from domain.prices import VramBasis
from meter.ledger.corrections_store import closed_windows_of
from meter.ledger.leases_store import LEASE_S
from tests.meter.hour import START_US, instant_us
from tests.meter.ledger_at_work import OPERATOR, LedgerAtWork, place_of
from tests.meter.ledger_checks import LedgerChecks
from tests.meter.ledger_model import REFUSALS, LedgerModel, Place
from tests.meter.ledger_world import HOURS, READINGS, Held, Price, Record, World

END_S = HOURS * 3_600
PRICES = (
    Price("gpu", "gpu", "2.49", 0),
    Price("vram", "vram", "0.0307", 0, basis=VramBasis.MAX),
    Price("gpu acme", "gpu", "2.1", 3_600, tenant="acme"),
    Price("gpu acme q", "gpu", "1.999999", 5_400, tenant="acme", project="q"),
    Price("vram globex", "vram", "0.01", 1_800, tenant="globex", basis=VramBasis.GRANTED),
)
CARDS = st.sampled_from(["GPU-1", "GPU-1", "GPU-2", "GPU-3"])
_nodes = st.sampled_from(["n1", "n1", "n2"])
_grid = st.sampled_from([0, 0, 0, 0.5, 1_800, 3_570.5, 3_600, 7_199.5, 9_000])
# Around the seams of hours, where windows see each other's seconds.
OFFSETS = st.sampled_from([-40, -3, -1, 0, 2, 870, 1_790])
_spans = st.builds(
    lambda hour, offset, length, step: range(hour * 3_600 + offset, hour * 3_600 + offset + length, step),
    st.integers(0, HOURS - 1),
    OFFSETS,
    st.sampled_from([1, 7, 45, 300, 1_000]),
    st.sampled_from([1, 1, 3, 5]),
)
Samples = tuple[str, range, str]
"""(card, seconds, kind of reading)."""
SAMPLES = st.tuples(CARDS, _spans, st.sampled_from(list(READINGS)))


@st.composite
def _records(draw: st.DrawFn) -> Record:
    card = draw(st.sampled_from(["GPU-1", "GPU-1", "GPU-2", "GPU-3", None]))
    start, length = draw(_grid), draw(st.sampled_from([0.5, 1_800, 3_600, 9_000, 9_000, None]))
    end = None if length is None else min(start + length, END_S)
    grants = [Held(card, draw(st.sampled_from([250, 500, 1_000])), start, end)]
    if end is not None and end < END_S and draw(st.booleans()):
        grants.append(Held(card, draw(st.sampled_from([250, 1_000])), end, min(end + 900, END_S)))
    return Record(draw(st.sampled_from(["acme", "globex"])), draw(st.sampled_from(["p", "q"])), tuple(grants))


class LedgerOutside(RuleBasedStateMachine):
    """A ledger and its model, and what becomes of the world that both know; meters are for a class below."""

    def __init__(self, migrated: Path) -> None:
        super().__init__()
        self._folder = TemporaryDirectory()
        file = Path(self._folder.name) / "gputab.db"
        shutil.copy(migrated, file)
        self.clock = FrozenClock(START_US)
        self.world = World()
        self.work = LedgerAtWork(file, self.world, self.clock)
        self.model = LedgerModel(self.world, self.clock)
        self.checks = LedgerChecks(self.work, self.model)

    def leave(self) -> None:
        """Nothing of it stays."""
        self.work.database.close()
        self._folder.cleanup()

    @initialize(
        prices=st.integers(1, 2),
        records=st.lists(_records(), min_size=1, max_size=3),
        samples=st.lists(SAMPLES, max_size=4),
        begun=st.sampled_from([60, 3_700, 7_300]),
    )
    def begin(self, prices: int, records: list[Record], samples: list[Samples], begun: int) -> None:
        self.world.prices = list(PRICES[:prices])
        self.work.load_prices(self.world.prices)
        self.work.assign_books()
        for number, record in enumerate(records, start=1):
            self.say(f"a{number}", record, corrects=False)
        self.clock.advance_us(begun * MICROSECONDS)
        for each in samples:
            self.samples_arrive(each)

    @rule(allocation=st.sampled_from(["a1", "a2", "a3", "a4"]), record=_records(), corrects=st.booleans())
    def say(self, allocation: str, record: Record, corrects: bool) -> None:
        """Of a closed hour a source may say something else only as a correction."""
        before = self.world.records.get(allocation)
        if not self.world.fits(allocation, record):
            return
        self._a_second_goes_by()
        try:
            self.work.import_record(allocation, record)
        except ConflictError as refused:
            refusal = str(refused)
        else:
            assert not self.model.must_refuse(before, record)
            self.world.records[allocation] = record
            return
        assert "is closed; use `gputab meter correct`" in refusal
        assert self.model.may_refuse(before, record)
        if corrects:
            self._correct_by_record(allocation, record)

    def _correct_by_record(self, allocation: str, record: Record) -> None:
        """As `gputab meter correct --allocations` does: the closed hours that the record is of come right."""
        closed = [place for place, window in self.model.windows.items() if window.state == "closed"]
        stale_before = self.model.stale(closed)
        self.work.import_record(allocation, record, corrects_closed=True)
        self.world.records[allocation] = record
        with self.work.database.read() as connection:
            places = closed_windows_of(connection, OPERATOR, [allocation])
        found = [place_of(*each) for each in places]
        refused = {place for place in found if self.correct_window(place) in {"no price", "busy"}}
        assert self.model.stale(closed) <= stale_before | refused

    @rule(allocation=st.sampled_from(["a1", "a2", "a3", "a4"]))
    def end(self, allocation: str) -> None:
        record = self.world.records.get(allocation)
        if record is not None and record.grants[-1].end is None and record.grants[-1].start < self.model.now:
            last = record.grants[-1]
            ended = Held(last.card, last.milli, last.start, min(END_S, int(self.model.now)))
            self.say(allocation, Record(record.tenant, record.project, (*record.grants[:-1], ended)), corrects=False)

    @rule(samples=SAMPLES)
    def samples_arrive(self, samples: Samples) -> None:
        card, seconds, kind = samples
        self.world.arrive(card, self._begun(seconds), kind)

    @rule(node=_nodes, lag=st.sampled_from([0, 20, 2_000]))
    def a_collector_vouches(self, node: str, lag: int) -> None:
        self.world.marks[node] = max(self.world.marks.get(node, 0), int(self.model.now) - lag)

    @rule(node=_nodes)
    def an_inventory_comes(self, node: str) -> None:
        self.world.reports[node] = int(self.model.now)
        self.work.report(node, self.world.reports[node])

    @rule(node=_nodes, hour=st.integers(0, HOURS - 1), offset=OFFSETS, length=st.sampled_from([0, 100, 3_600]))
    def a_node_is_heard(self, node: str, hour: int, offset: int, length: int) -> None:
        first = hour * 3_600 + offset
        if all(first != known for known, _ in self.world.heard[node]):
            self.world.heard[node].append((first, first + length))
            self.work.hear(node, first, first + length)

    @rule(skew=st.sampled_from([0.1, 2.5]))
    def a_clock_is_off(self, skew: float) -> None:
        self.world.skews["n1"] = skew

    @rule(seconds=st.sampled_from([1, LEASE_S, 700, 1_300, 3_600]))
    def time_moves_on(self, seconds: int) -> None:
        self.clock.advance_us(seconds * MICROSECONDS)

    def an_hour_passes(self) -> None:
        """The usual: every node vouches for it, reports, and knows the time."""
        self.world.skews.clear()
        self.time_moves_on(3_600 - int(self.model.now) % 3_600 + 40)
        for node in ("n1", "n2"):
            self.a_collector_vouches(node, 0)
            self.an_inventory_comes(node)

    @rule(number=st.integers(1, len(PRICES) - 1))
    def a_price_is_added(self, number: int) -> None:
        if PRICES[number].name not in {each.name for each in self.world.prices}:
            self._a_second_goes_by()
            self.world.prices.append(PRICES[number])
            self.work.load_prices(self.world.prices)

    @rule(hour=st.integers(1, HOURS))
    def a_price_ends(self, hour: int) -> None:
        """Another follows it; what charges stand on cannot be ended under them."""
        prices = {each.name: each for each in self.world.prices}
        old = prices["gpu"]
        if old.end is not None:
            return
        used = [
            place[1] + 1
            for place, window in self.model.windows.items()
            if any(key[3] == old.name for key in (*(window.charges or {}), *(window.owed or {})))
        ]
        self._a_second_goes_by()
        later = [replace(old, end=hour * 3_600), replace(old, name="gpu later", price="3.3333", start=hour * 3_600)]
        changed = [*(each for each in self.world.prices if each is not old), *later]
        with suppress(ConflictError):
            self.work.load_prices(changed)
            assert hour >= max(used, default=0)
            self.world.prices[:] = changed

    def correct_window(self, place: Place) -> str:
        """Correct the window, as the model says; what that ended in."""
        node, hour = place
        plan, after = self.model.plan_correction(place)
        correct = partial(
            self.work.corrector().correct, node, instant_us(hour * 3_600), "a reason", self.clock.now_us()
        )
        if plan in {"corrected", "same"}:
            assert (correct() is not None) == (plan == "corrected")
        else:
            with pytest.raises(ConflictError, match=REFUSALS[plan]):
                correct()
        if after is not None:
            self.model.windows[place] = after
        return plan

    def begun_hours(self) -> int:
        """How many hours there are that have begun, or will next."""
        return min(HOURS, int(self.model.now) // 3_600 + 2)

    def _begun(self, seconds: range) -> range:
        """The same of an hour that has begun, as is most likely to matter."""
        earlier = seconds.start // 3_600 // self.begun_hours() * self.begun_hours() * 3_600
        return range(seconds.start - earlier, seconds.stop - earlier, seconds.step)

    def _a_second_goes_by(self) -> None:
        """So that what is said now is said after what was read before."""
        self.clock.advance_us(MICROSECONDS)
