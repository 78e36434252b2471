"""Which windows there are to rate: each hour found once, and a settled one again when what it stands on changes."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection, delete, insert, select, update

from domain.clock import FrozenClock
from domain.errors import AccessError
from domain.grants import Grant
from domain.period import HOUR_US, Period
from domain.prices import GapRules, PriceBook, Rate
from meter.backlog_store import due_windows, find_windows, windows_of
from meter.evidence import CONTEXT_S
from meter.ledger_store import load_charges
from meter.observations import Observations, RecordedObservations
from meter.passes import rate_period
from meter.price_store import load_book, load_named_book
from meter.windows import WindowRater
from store.access import Principal, Role
from store.database import Database
from store.tables.billing import windows
from store.tables.capacity import device_periods, grants, node_contacts, nodes
from store.tenants import assign_book, create_project, create_tenant

US = 1_000_000
HOUR_S = 1_772_359_200
HOURS = 4
PutGrants = Callable[..., None]
At = Callable[[float], int]
MakeGrant = Callable[..., Grant]


@pytest.fixture
def find(ledger: Database, operator: Principal, at: At) -> Callable[[float], list[tuple[int, str]]]:
    """Looks for windows at an offset into the hour; gives all there are, as (hours from the hour, node)."""

    def found(offset: float) -> list[tuple[int, str]]:
        at(offset)
        find_windows(ledger, operator)
        with ledger.read() as connection:
            return _by_hour(windows_of(connection, operator, Period(0, 2**60)))

    return found


@pytest.fixture
def due(ledger: Database, operator: Principal) -> Callable[[], list[tuple[int, str]]]:
    """The windows to rate, after looking for them, as (hours from the hour, node)."""

    def listed() -> list[tuple[int, str]]:
        find_windows(ledger, operator)
        with ledger.read() as connection:
            return _by_hour(due_windows(connection, operator))

    return listed


@pytest.fixture
def settle(
    ledger: Database,
    operator: Principal,
    make_rater: Callable[..., WindowRater],
    recorded: Callable[..., RecordedObservations],
    use_of: Callable[..., list[Any]],
    at: At,
) -> Callable[[float], None]:
    """Rates every window at an offset into the hour, by samples of GPU-1 each minute of four hours."""
    observations = recorded(use_of(range(0, HOURS * 3_600, 60)), 100 * 3_600)

    def settled(offset: float, observations: Observations = observations) -> None:
        now_us = at(offset)
        rater = make_rater(observations)
        list(rate_period(ledger, operator, rater, Period(0, now_us), now_us))

    return settled


def _by_hour(places: list[tuple[str, int]]) -> list[tuple[int, str]]:
    return [((start_us - HOUR_S * US) // HOUR_US, node) for node, start_us in places]


def _end_cards(ledger: Database, offset: float) -> None:
    """The cards of n1 are gone from then on, as was known all the time."""
    with ledger.write() as connection:
        connection.execute(update(device_periods).values(end_us=HOUR_S * US + round(offset * US)))


def _granted_seconds(ledger: Database) -> dict[tuple[int, str], int]:
    """By (hours from the hour, allocation)."""
    with ledger.read() as connection:
        return {
            ((each.window_start_us - HOUR_S * US) // HOUR_US, each.allocation): each.granted_seconds
            for each in load_charges(connection, Principal.local_operator())
            if each.dimension == "gpu"
        }


# Finding


def test_every_hour_in_which_a_card_stood_or_something_was_held_has_a_window(
    find: Callable[[float], Any], put_grants: PutGrants, make_grant: MakeGrant
) -> None:
    """The hours between busy stretches have none; a record without a device is of node '', whatever node it names."""
    put_grants(
        make_grant(-4 * 3_600 + 10, -4 * 3_600 + 20),
        make_grant(-3_600, -3_599.5, allocation="a2", node="n2", gpu_uuid="GPU-9"),
        make_grant(-10, 3_600, allocation="a3", node="n5", gpu_uuid=None),
    )
    assert find(3_600) == [(-4, "n1"), (-1, ""), (-1, "n2"), (0, ""), (0, "n1")]
    assert find(3_600.001) == [(-4, "n1"), (-1, ""), (-1, "n2"), (0, ""), (0, "n1"), (1, "n1")]


def test_hours_that_have_not_begun_are_not_found(
    find: Callable[[float], Any], put_grants: PutGrants, make_grant: MakeGrant
) -> None:
    """Neither of what stands for ever nor of what is booked ahead."""
    put_grants(make_grant(2 * 3_600 + 5, None, node="n2", gpu_uuid="GPU-9"))
    assert find(0) == []
    assert find(0.001) == [(0, "n1")]
    assert find(2 * 3_600 + 5) == [(0, "n1"), (1, "n1"), (2, "n1")]
    assert find(2 * 3_600 + 5.001) == [(0, "n1"), (1, "n1"), (2, "n1"), (2, "n2")]


def test_what_goes_on_is_found_hour_by_hour_and_after_a_long_pause(
    ledger: Database, find: Callable[[float], Any], put_grants: PutGrants, make_grant: MakeGrant
) -> None:
    """A meter that was off for days finds every hour of them."""
    put_grants(make_grant(0, 5 * 3_600, node="n2", gpu_uuid="GPU-9"), make_grant(0, 1, allocation="a2", gpu_uuid=None))
    for hour in range(3):
        assert find(hour * 3_600 + 60)[-1] == (hour, "n2")
    found = find(50 * 3_600)
    assert [hour for hour, node in found if node == "n2"] == list(range(5))
    assert [hour for hour, node in found if node == "n1"] == list(range(50))
    assert [hour for hour, node in found if node == ""] == [0]


def test_a_time_of_zero_is_a_time(find: Callable[[float], Any], put_grants: PutGrants, make_grant: MakeGrant) -> None:
    """A trace that counts from 0 has its first hours in 1970."""
    put_grants(replace(make_grant(0, 1, gpu_uuid=None, node=""), start_us=0, end_us=HOUR_US + 1))
    assert [hour + HOUR_S // 3_600 for hour, _ in find(0)] == [0, 1]


def test_a_record_of_long_ago_is_found_when_it_is_written(
    find: Callable[[float], Any], put_grants: PutGrants, make_grant: MakeGrant
) -> None:
    """An import of last month, long after the meter has passed that month."""
    find(40 * 3_600)
    put_grants(make_grant(-700 * 3_600, -698 * 3_600, gpu_uuid=None))
    assert find(40 * 3_600 + 5)[:3] == [(-700, ""), (-699, ""), (0, "n1")]


def test_a_record_that_took_long_to_commit_is_found(
    find: Callable[[float], Any], put_grants: PutGrants, make_grant: MakeGrant, at: At
) -> None:
    """It was stamped before the meter last looked, and could be seen only after that."""
    find(40 * 3_600)
    put_grants(make_grant(-7_200, -3_600, gpu_uuid=None), changed_us=at(40 * 3_600 - 300))
    assert (-2, "") in find(40 * 3_600 + 5)


class _NeverWrites(Database):
    """A ledger that nobody may write to."""

    @contextmanager
    def write(self) -> Iterator[Connection]:
        raise AssertionError("nothing was to be written")
        yield


def test_where_nothing_is_new_nothing_is_written_and_nothing_is_due_again(
    ledger: Database,
    operator: Principal,
    settle: Callable[[float], None],
    put_grants: PutGrants,
    make_grant: MakeGrant,
    due: Callable[[], Any],
    at: At,
    open_ledger: Callable[..., Database],
) -> None:
    """However often the meter looks; it does not even take the write lock."""
    put_grants(make_grant(0, 7_000), make_grant(100, 3_700, allocation="a2", gpu_uuid=None))
    at(HOURS * 3_600 - 900)
    put_grants(make_grant(100, 3_700, allocation="a3", gpu_uuid="GPU-2"))
    _end_cards(ledger, HOURS * 3_600)
    settle(HOURS * 3_600 + 100)
    with ledger.read() as connection:
        before = connection.execute(select(windows)).all()
    quiet = open_ledger(_NeverWrites)
    for offset in (100, 105, 700, 1_300, 100_000):
        at(HOURS * 3_600 + offset)
        find_windows(quiet, operator)
        assert due() == []
    with ledger.read() as connection:
        assert connection.execute(select(windows)).all() == before


def test_many_meters_that_look_at_once_find_each_window_once(
    ledger: Database,
    open_ledger: Callable[[], Database],
    operator: Principal,
    put_grants: PutGrants,
    make_grant: MakeGrant,
    due: Callable[[], Any],
    at: At,
) -> None:
    put_grants(*(make_grant(0, 3_600 * n, allocation=f"a{n}", node=f"m{n}", gpu_uuid=f"GPU-m{n}") for n in range(6)))
    at(6 * 3_600)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda database: find_windows(database, operator), [open_ledger() for _ in range(8)]))
    assert len(due()) == len(set(due())) == 6 + sum(range(6))


@pytest.mark.parametrize(
    ("start", "end", "hours"),
    [
        (0, 3_600, [0]),
        (3_599.999999, 3_600.000001, [0, 1]),
        (3_600, 7_200, [1]),
        (-9_000, 1, [0]),
        (1_800, 1_800, []),
        (0, 0, []),
        (7_200, 99_999, [2]),
    ],
)
def test_windows_are_those_whose_hour_the_period_touches(
    ledger: Database, operator: Principal, find: Callable[[float], Any], start: float, end: float, hours: list[int]
) -> None:
    """One without an instant touches none."""
    find(3 * 3_600)
    period = Period(HOUR_S * US + round(start * US), HOUR_S * US + round(end * US))
    with ledger.read() as connection:
        assert [hour for hour, _ in _by_hour(windows_of(connection, operator, period))] == hours


@pytest.mark.parametrize("role", [Role.TENANT, Role.NODE])
def test_windows_are_found_for_staff_only(ledger: Database, role: Role) -> None:
    with pytest.raises(AccessError, match="use one of role operator or billing"):
        find_windows(ledger, Principal("p", role, tenant="acme" if role is Role.TENANT else None))


# Due again


@pytest.fixture
def two_hours(
    ledger: Database, settle: Callable[[float], None], put_grants: PutGrants, make_grant: MakeGrant, at: At
) -> None:
    """Hours 0 to 3 of n1 have settled a day ago; acme held GPU-1 in the first two, and the cards are gone by now.

    n1 was heard all the time, so every second is billed.
    """
    with ledger.write() as connection:
        heard = {"node": "n1", "start_us": HOUR_S * US, "end_us": HOUR_S * US + HOURS * HOUR_US}
        connection.execute(insert(node_contacts).values(**heard))
    put_grants(make_grant(0, 7_200))
    _end_cards(ledger, HOURS * 3_600)
    settle(HOURS * 3_600 + 100)
    at(HOURS * 3_600 + 86_400)


@pytest.mark.usefixtures("two_hours")
def test_a_grant_that_comes_to_light_makes_the_hours_it_touches_due_once_more(
    ledger: Database,
    settle: Callable[[float], None],
    put_grants: PutGrants,
    make_grant: MakeGrant,
    due: Callable[[], Any],
) -> None:
    """An import into a settled hour; hours it does not touch are left alone."""
    assert due() == []
    put_grants(make_grant(3_000, 8_000, allocation="late", gpu_uuid="GPU-2"))
    assert due() == [(0, "n1"), (1, "n1"), (2, "n1")]
    assert due() == [(0, "n1"), (1, "n1"), (2, "n1")]
    settle(HOURS * 3_600 + 90_000)
    assert due() == []
    assert {key: seconds for key, seconds in _granted_seconds(ledger).items() if key[1] == "late"} == {
        (0, "late"): 600,
        (1, "late"): 3_600,
        (2, "late"): 800,
    }


@pytest.mark.usefixtures("two_hours")
def test_a_record_that_was_replaced_takes_its_charges_out_of_the_hour_it_left(
    ledger: Database,
    settle: Callable[[float], None],
    database_clock: FrozenClock,
    due: Callable[[], Any],
) -> None:
    """A corrected import says that it began an hour later: nobody holds anything in the first hour any more."""
    with ledger.write() as connection:
        moved = {"start_us": HOUR_S * US + HOUR_US, "changed_us": database_clock.now_us()}
        connection.execute(update(grants).values(**moved))
    assert due() == [(0, "n1"), (1, "n1")]
    settle(HOURS * 3_600 + 90_000)
    assert _granted_seconds(ledger) == {(1, "a1"): 3_600}
    assert due() == []


@pytest.mark.usefixtures("two_hours")
def test_a_record_that_moves_to_another_node_leaves_its_own(
    ledger: Database, settle: Callable[[float], None], put_grants: PutGrants, make_grant: MakeGrant, due: Any
) -> None:
    """As an import replaces it: the old row is gone, and the new one is of another node."""
    with ledger.write() as connection:
        connection.execute(delete(grants))
    put_grants(make_grant(0, 3_600, node="n2", gpu_uuid="GPU-9"))
    assert due() == [(0, "n1"), (0, "n2"), (1, "n1")]
    settle(HOURS * 3_600 + 90_000)
    assert {(each, seconds) for each, seconds in _granted_seconds(ledger).items()} == set()
    # n2 never said a word, so its window waits for the deadline.
    settle(100 * 3_600)
    assert _granted_seconds(ledger) == {(0, "a1"): 3_600}


@pytest.mark.usefixtures("two_hours")
def test_an_end_that_becomes_known_makes_the_hours_of_the_grant_due(
    ledger: Database, put_grants: PutGrants, make_grant: MakeGrant, database_clock: FrozenClock, due: Any
) -> None:
    """And no hours of other nodes."""
    put_grants(make_grant(0, 7_200, allocation="a2", node="", gpu_uuid=None), changed_us=0)
    with ledger.write() as connection:
        ended = {"end_us": HOUR_S * US + 100 * US, "changed_us": database_clock.now_us()}
        connection.execute(update(grants).where(grants.c.allocation == "a1").values(**ended))
    assert due() == [(0, "n1"), (1, "n1")]


@pytest.mark.usefixtures("two_hours")
def test_a_card_that_comes_to_light_makes_its_hours_due(
    ledger: Database, database_clock: FrozenClock, settle: Callable[[float], None], due: Any
) -> None:
    """Its capacity is to be accounted for, in settled hours too."""
    with ledger.write() as connection:
        row = dict(connection.execute(select(device_periods).limit(1)).mappings().one())
        del row["device_period_id"]
        late = {"gpu_uuid": "GPU-3", "start_us": HOUR_S * US + HOUR_US, "end_us": HOUR_S * US + 2 * HOUR_US}
        connection.execute(insert(device_periods).values(**{**row, **late, "changed_us": database_clock.now_us()}))
    assert due() == [(1, "n1")]
    settle(HOURS * 3_600 + 90_000)
    assert due() == []


@pytest.fixture
def price(ledger: Database, operator: Principal, database_clock: FrozenClock) -> Callable[..., None]:
    """Loads rates into the book `retail`, now."""

    def load(*rates: Rate, book: str = "retail", gaps: GapRules | None = None) -> None:
        with ledger.write() as connection:
            new = PriceBook(book, "CNY", gaps or GapRules(), rates)
            load_book(connection, operator, new, now_us=database_clock.now_us())

    return load


@pytest.mark.usefixtures("two_hours")
def test_a_rate_that_is_said_late_reprices_the_hours_from_its_own_on(
    ledger: Database,
    settle: Callable[[float], None],
    price: Callable[..., None],
    make_rate: Callable[..., Rate],
    due: Callable[[], Any],
) -> None:
    """From the middle of the second hour on the tenant has a price of its own; the first hour is left alone."""
    price(make_rate(price="1.10", tenant="acme", start=5_400))
    assert due() == [(1, "n1"), (2, "n1"), (3, "n1")]
    settle(HOURS * 3_600 + 90_000)
    assert due() == []
    with ledger.read() as connection:
        charges = [each for each in load_charges(connection, Principal.local_operator()) if each.dimension == "gpu"]
    assert sorted((each.granted_seconds, each.amount_nano) for each in charges) == [
        (1_800, 550_000_000),
        (1_800, 1_100_000_000),
        (3_600, 2_200_000_000),
    ]


@pytest.mark.usefixtures("two_hours")
def test_a_rate_that_begins_tomorrow_makes_nothing_due(
    price: Callable[..., None], make_rate: Callable[..., Rate], due: Callable[[], Any]
) -> None:
    price(make_rate(price="1.10", tenant="acme", start=HOURS * 3_600 + 86_400))
    assert due() == []


@pytest.mark.usefixtures("two_hours")
def test_an_end_of_a_rate_that_is_said_late_reprices(
    ledger: Database,
    operator: Principal,
    settle: Callable[[float], None],
    database_clock: FrozenClock,
    due: Callable[[], Any],
) -> None:
    """What comes after it is unpriced, where something is held there by the time it is rated."""
    with ledger.write() as connection:
        book = load_named_book(connection, operator, "retail")
        ended = replace(book, rates=tuple(replace(each, end_us=HOUR_S * US + 2 * HOUR_US) for each in book.rates))
        load_book(connection, operator, ended, now_us=database_clock.now_us())
    assert {hour for hour, _ in due()} >= {2, 3}
    settle(HOURS * 3_600 + 90_000)
    assert due() == []


def test_a_book_that_is_assigned_late_prices_what_was_unpriced(
    ledger: Database,
    operator: Principal,
    settle: Callable[[float], None],
    put_grants: PutGrants,
    make_grant: MakeGrant,
    at: At,
    due: Callable[[], Any],
) -> None:
    with ledger.write() as connection:
        create_tenant(connection, operator, tenant="globex", zone="UTC", currency="CNY", now_us=0)
        create_project(connection, operator, tenant="globex", project="p", now_us=0)
    put_grants(make_grant(0, 7_200, tenant="globex"))
    _end_cards(ledger, 7_200)
    settle(7_300)

    def unpriced() -> list[int]:
        with ledger.read() as connection:
            return list(connection.execute(select(windows.c.unpriced_seconds).order_by(windows.c.start_us)).scalars())

    assert unpriced() == [7_200, 7_200]
    start_us, now_us = HOUR_S * US + HOUR_US, at(50_000)
    with ledger.write() as connection:
        assign_book(connection, operator, tenant="globex", book="retail", start_us=start_us, now_us=now_us)
    assert due() == [(1, "n1")]
    settle(50_100)
    assert due() == []
    assert unpriced() == [7_200, 0]


def test_a_grant_that_was_on_its_way_while_its_hour_settled_is_not_forgotten(
    ledger: Database,
    settle: Callable[..., None],
    put_grants: PutGrants,
    make_grant: MakeGrant,
    at: At,
    due: Callable[[], Any],
) -> None:
    """Stamped before the meter read the record and committed after it, as a long import is; due again, and once."""
    _end_cards(ledger, 3_600)
    stamp_us = at(3_690)

    class Meanwhile(RecordedObservations):
        def samples(self, node: str, start_s: int, end_s: int) -> Any:
            put_grants(make_grant(0, 600), changed_us=stamp_us)
            return super().samples(node, start_s, end_s)

    settle(3_700, Meanwhile({}, {"n1": HOUR_S + 3_600 + CONTEXT_S}))
    assert _granted_seconds(ledger) == {}
    again = 0
    for seconds in range(5, 3_600, 60):
        at(3_700 + seconds)
        if due():
            again += 1
            settle(3_700 + seconds)
    assert _granted_seconds(ledger) == {(0, "a1"): 600}
    assert again == 1


@pytest.mark.usefixtures("two_hours")
def test_a_closed_window_is_never_due_again(
    ledger: Database,
    put_grants: PutGrants,
    make_grant: MakeGrant,
    price: Callable[..., None],
    make_rate: Callable[..., Rate],
    due: Callable[[], Any],
) -> None:
    """Promise 11: what is late then is for a correction."""
    with ledger.write() as connection:
        connection.execute(update(windows).where(windows.c.start_us == HOUR_S * US).values(state="closed"))
        before = connection.execute(select(windows).where(windows.c.state == "closed")).all()
    put_grants(make_grant(0, 7_200, allocation="late", gpu_uuid="GPU-2"))
    price(make_rate(price="1.10", tenant="acme"))
    assert (0, "n1") not in due()
    assert (1, "n1") in due()
    with ledger.read() as connection:
        assert connection.execute(select(windows).where(windows.c.state == "closed")).all() == before


def test_an_open_window_is_due_until_it_settles(
    ledger: Database, operator: Principal, settle: Callable[..., None], at: At, due: Callable[[], Any]
) -> None:
    """Also one of a node that reports nothing, until the deadline; by hour, then by node."""
    with ledger.write() as connection:
        connection.execute(insert(nodes).values(node="m1", created_us=0))
        connection.execute(update(device_periods).where(device_periods.c.gpu_uuid == "GPU-2").values(node="m1"))
    _end_cards(ledger, 7_200)
    at(3_500)
    assert due() == [(0, "m1"), (0, "n1")]
    settle(3_610)
    assert due() == [(0, "m1"), (0, "n1"), (1, "m1"), (1, "n1")]
    settle(7_300)
    assert due() == [(0, "m1"), (1, "m1")]
    settle(80 * 3_600)
    assert due() == []
