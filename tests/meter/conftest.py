"""What tests of the meter are made of: grants, books, samples, and a ledger to bill them in."""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from domain.clock import MICROSECONDS, FrozenClock
from domain.grants import Grant
from domain.period import HOUR_US
from domain.prices import GapRules, PriceBook, Rate, VramBasis
from domain.tenants import Tenant
from domain.units import GIB
from meter.evidence.evidence import CONTEXT_S, Evidence
from meter.evidence.evidence_store import EvidenceStore, FolderStore
from meter.evidence.observations import Observations, RecordedObservations
from meter.rating.charges import Charge
from meter.rating.rating import rate
from meter.windows.observing import Observer, SettleRules
from meter.windows.windows import WindowRater, WindowResult
from store.access import Principal
from store.database import Database
from tests.meter import facts
from tests.meter.backlogs import Backlog
from tests.meter.database_clocks import keep_time
from tests.meter.fixture_types import (
    At,
    Bill,
    Everything,
    MakeBook,
    MakeGrant,
    MakeObserver,
    MakeRate,
    MakeRater,
    MakeSamples,
    Observe,
    OpenLedger,
    PassAt,
    PutGrants,
    Recorded,
    UseOf,
)
from tests.meter.hour import HOUR_S, START_US, instant_us
from tests.meter.ledgers import add_acme, add_card, add_grants, add_heartbeats, add_node, end_cards, everything


@pytest.fixture
def hour_s() -> int:
    """A whole UTC hour, in seconds."""
    return HOUR_S


@pytest.fixture
def make_grant() -> MakeGrant:
    """A whole RTX 4090 for the tenant acme; seconds are offsets into the hour, fractions allowed."""
    return facts.make_grant


@pytest.fixture
def make_rate() -> MakeRate:
    """A rate in force for ever unless `start` and `end` (offsets into the hour, seconds) say otherwise."""
    return facts.make_rate


@pytest.fixture
def make_book(make_rate: MakeRate) -> MakeBook:
    """The book `retail`, by name; without rates given: 2.20 a GPU-hour and 0.03 a GiB-hour."""

    def make(*rates: Rate, gaps: GapRules | None = None) -> dict[str, PriceBook]:
        chosen = rates or (make_rate(), make_rate("vram", "0.03", "GiB-hour", basis=VramBasis.MAX))
        return {"retail": PriceBook("retail", "CNY", gaps or GapRules(), tuple(chosen))}

    return make


@pytest.fixture
def tenants() -> dict[str, Tenant]:
    """The tenant acme, in UTC, rated by `retail`."""
    return {"acme": Tenant("acme", ZoneInfo("UTC"), "CNY", ((0, "retail"),))}


@pytest.fixture
def bill(make_book: MakeBook, tenants: dict[str, Tenant]) -> Bill:
    """Charges of grants by evidence; `rates` make the book, `tenants_` replace acme in UTC."""

    def rated(
        evidence: Evidence,
        *grants: Grant,
        rates: tuple[Rate, ...] = (),
        gaps: GapRules | None = None,
        tenants_: dict[str, Tenant] | None = None,
    ) -> list[Charge]:
        return rate(evidence, grants, tenants_ or tenants, make_book(*rates, gaps=gaps))

    return rated


@pytest.fixture
def make_samples() -> MakeSamples:
    """Samples out of (series, gpu_uuid, mig_uuid, owner, second as offset into the hour, value)."""
    return facts.make_samples


@pytest.fixture
def use_of() -> UseOf:
    """Samples of a card that is up and uses `used` bytes in each of the seconds (offsets into the hour)."""
    return facts.use_of


@pytest.fixture
def observe() -> Observe:
    """Evidence of [start, end) out of rows for `make_samples`; heartbeats and seconds are offsets into the hour."""
    return facts.observe


@pytest.fixture
def operator() -> Principal:
    return Principal.local_operator()


@pytest.fixture
def database_clock() -> FrozenClock:
    """The clock of the test's ledger, at the beginning of the hour until it is moved."""
    return FrozenClock(START_US)


@pytest.fixture
def at(database_clock: FrozenClock) -> At:
    """Moves the ledger's clock to an offset into the hour, which it gives back as an instant."""

    def moved(offset: float) -> int:
        database_clock.advance_us(instant_us(offset) - database_clock.now_us())
        return database_clock.now_us()

    return moved


@pytest.fixture
def open_ledger(migrated_url: str, database_clock: FrozenClock) -> Iterator[OpenLedger]:
    """Opens the test's ledger; again and again, as processes would."""
    opened: list[Database] = []

    def open_(kind: type[Database] = Database) -> Database:
        database = kind(migrated_url)
        keep_time(database, database_clock)
        opened.append(database)
        return database

    yield open_
    for database in opened:
        database.close()


@pytest.fixture
def ledger(open_ledger: OpenLedger, operator: Principal, make_book: MakeBook) -> Database:
    """The tenant acme rated by `retail`, and the node n1 with two RTX 4090, known for ever, heard up to hour + 10 h."""
    database = open_ledger()
    add_acme(database, operator, make_book()["retail"])
    add_node(database, "n1", reported=36_000)
    for index in (0, 1):
        add_card(database, f"GPU-{index + 1}", index=index)
    return database


@pytest.fixture
def put_grants(ledger: Database, database_clock: FrozenClock) -> PutGrants:
    """Records grants, each with its allocation, at the time of the ledger's clock or at another."""

    def put(*grants: Grant, changed_us: int | None = None) -> None:
        add_grants(ledger, grants, database_clock.now_us() if changed_us is None else changed_us)

    return put


@pytest.fixture
def granted(put_grants: PutGrants, make_grant: MakeGrant) -> None:
    """acme holds GPU-1 for the whole hour."""
    put_grants(make_grant())


@pytest.fixture
def recorded(make_samples: MakeSamples) -> Recorded:
    """Observations of n1 out of rows for `make_samples`; complete until an offset into the hour, or never said.

    `skew` is how far the node's clock is from the allocator's, if that was ever said.
    """

    def make(rows: Iterable[Any] = (), complete: int | None = None, skew: float | None = None) -> RecordedObservations:
        marks = {} if complete is None else {"n1": HOUR_S + complete}
        return RecordedObservations({"n1": make_samples(rows)}, marks, {} if skew is None else {"n1": skew})

    return make


@pytest.fixture
def evidence_store(tmp_path: Path) -> EvidenceStore:
    """Where evidence is frozen: the folder `tmp_path / "evidence"`, unless a file has a fixture of its own."""
    return FolderStore(tmp_path / "evidence")


@pytest.fixture
def make_observer(ledger: Database, operator: Principal, evidence_store: EvidenceStore) -> MakeObserver:
    """What reads windows of the ledger, with their evidence in `evidence_store`."""

    def make(observations: Observations, database: Database = ledger, *, accepts_skew: bool = False) -> Observer:
        rules = SettleRules(grace_us=30 * MICROSECONDS, deadline_us=72 * HOUR_US, accepts_skew=accepts_skew)
        return Observer(database, operator, observations, evidence_store, rules)

    return make


@pytest.fixture
def make_rater(ledger: Database, operator: Principal, make_observer: MakeObserver) -> MakeRater:
    """Raters over such readers."""

    def make(observations: Observations, database: Database = ledger, *, accepts_skew: bool = False) -> WindowRater:
        observer = make_observer(observations, database, accepts_skew=accepts_skew)
        return WindowRater(database, operator, observer)

    return make


@pytest.fixture(name="everything")
def _everything(ledger: Database, tmp_path: Path) -> Everything:
    """All rows of all tables, but for bookkeeping, and the bytes of all evidence, to be compared."""
    return partial(everything, ledger, tmp_path / "evidence")


@pytest.fixture
def pass_at(make_rater: MakeRater) -> PassAt:
    """One pass over the hour of n1, so many seconds after the hour began."""

    def rated(observations: Observations, now: float, node: str = "n1", **changes: Any) -> WindowResult:
        return make_rater(observations, **changes).rate_window(node, START_US, instant_us(now))

    return rated


@pytest.fixture
def backlog(
    ledger: Database, operator: Principal, make_rater: MakeRater, recorded: Recorded, use_of: UseOf, at: At
) -> Backlog:
    """The windows of the ledger, rated by samples of GPU-1 each minute of four hours."""
    return Backlog(ledger, operator, at, make_rater, recorded(use_of(range(0, 4 * 3_600, 60)), 100 * 3_600))


@pytest.fixture
def two_hours(backlog: Backlog, put_grants: PutGrants, make_grant: MakeGrant) -> None:
    """Hours 0 to 3 of n1 have settled a day ago; acme held GPU-1 in the first two, and the cards are gone by now.

    n1 was heard all the time, so every second is billed.
    """
    add_heartbeats(backlog.ledger, 0, 4 * 3_600)
    put_grants(make_grant(0, 7_200))
    end_cards(backlog.ledger, 4 * 3_600)
    backlog.settle(4 * 3_600 + 100)
    backlog.at(4 * 3_600 + 86_400)


@pytest.fixture
def day(put_grants: PutGrants, make_grant: MakeGrant, recorded: Recorded) -> RecordedObservations:
    """Four hours of n1 with grants that begin and end in the middle of them, a record-only one, and holes."""
    put_grants(
        make_grant(100, 9_000),
        make_grant(9_000, 13_000, ordinal=1),
        make_grant(3_500.5, 7_300.5, allocation="a2", gpu_uuid="GPU-2", project="q"),
        make_grant(1_800, 9_999, allocation="a3", gpu_uuid=None, node=""),
    )
    rows = [
        ("gpu_memory_used_bytes", gpu, "", "", second, float(second % 3 * GIB))
        for gpu in ("GPU-1", "GPU-2")
        for second in (*range(3_590), *range(3_605, 7_199), *range(7_201, 14_400, 5))
    ]
    return recorded(rows, 4 * 3_600 + CONTEXT_S)
