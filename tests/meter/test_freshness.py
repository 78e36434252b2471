"""How far the charges of some days can be relied on: told of one's own windows, and as an invoice tells it."""

from collections.abc import Callable

import pytest

from domain.errors import AccessError, InputError
from domain.period import HOUR_US
from meter.bills.freshness_store import Freshness, load_freshness
from meter.bills.invoice_store import load_draft
from meter.ledger.ledger_store import Window, save_window
from store.access import Principal, Role
from store.database import Database
from store.tenants import create_project, create_tenant
from tests.meter.charges import make_charge
from tests.meter.fixture_types import At, MakeGrant, PutGrants
from tests.meter.hour import START_US, instant_us

SetWindow = Callable[..., None]
ACME = Principal("tok_a", Role.TENANT, tenant="acme")
NOTHING = Freshness(None, None, 0)


@pytest.fixture
def set_window(ledger: Database, operator: Principal) -> SetWindow:
    """A window that begins so many hours after the hour, rated to an offset; settled, unless it is said to be open.

    It holds a charge of a tenant where one is named, on 1 March.
    """

    def put(
        hours: int, rated: float, state: str = "settled", *, node: str = "n1", charged: str | None = "acme"
    ) -> None:
        start_us = START_US + hours * HOUR_US
        digest = None if state == "open" else "d"
        window = Window(node, start_us, state, instant_us(rated), 1, digest, 0, 0, 0, 1)
        charge = make_charge(node=node, window_start_us=start_us, tenant=charged or "acme", allocation=f"a-{charged}")
        with ledger.write() as connection:
            save_window(connection, operator, window, [charge] if charged else [], None)

    return put


@pytest.fixture
def load(ledger: Database, operator: Principal) -> Callable[..., Freshness]:
    """Of 1 March; the operator's view of all tenants, unless it is said whose and of whom."""

    def loaded(who: Principal = operator, tenant: str | None = None, day: str = "2026-03-01") -> Freshness:
        with ledger.read() as connection:
            return load_freshness(connection, who, day, day, tenant=tenant)

    return loaded


@pytest.fixture
def globex(ledger: Database, operator: Principal) -> None:
    """Another tenant."""
    with ledger.write() as connection:
        create_tenant(connection, operator, tenant="globex", zone="UTC", currency="CNY", now_us=0)
        create_project(connection, operator, tenant="globex", project="p", now_us=0)


Load = Callable[..., Freshness]


def test_where_nothing_was_rated_nothing_is_claimed(load: Load) -> None:
    assert load() == NOTHING


def test_settled_windows_are_good_to_their_end(load: Load, set_window: SetWindow, put_grants: PutGrants) -> None:
    put_grants()
    set_window(0, 3_600)
    set_window(1, 7_200)
    assert load() == Freshness(instant_us(7_200), instant_us(7_200), 0)
    assert load(day="2026-03-02") == NOTHING


def test_an_open_window_is_good_to_where_it_is_rated(
    load: Load, set_window: SetWindow, put_grants: PutGrants, make_grant: MakeGrant, ledger: Database
) -> None:
    """And says what the draft invoice says."""
    put_grants(make_grant(0, 8_000))
    set_window(0, 3_600)
    set_window(1, 7_200)
    set_window(2, 7_800, "open")
    assert load() == Freshness(instant_us(7_200), instant_us(7_800), 1)
    with ledger.read() as connection:
        draft = load_draft(connection, ACME, "acme", "2026-03-01", "2026-03-01")
    assert (draft.rated_until_us, draft.settled) == (instant_us(7_800), False)


@pytest.mark.parametrize(("end", "hours"), [(None, 3), (7_200.000001, 2), (7_200, 1), (3_600, 0)])
def test_hours_that_the_meter_has_not_looked_at_are_open(
    load: Load,
    set_window: SetWindow,
    put_grants: PutGrants,
    make_grant: MakeGrant,
    ledger: Database,
    at: At,
    end: float | None,
    hours: int,
) -> None:
    """It was stopped after the first hour, and it is the fourth: a day of which it has seen half is no whole day."""
    put_grants(make_grant(0, end))
    set_window(0, 3_600)
    at(3 * 3_600 + 100)
    assert load() == Freshness(instant_us(3_600), instant_us(3_600), hours)
    assert load(day="2026-03-02") == NOTHING
    with ledger.read() as connection:
        draft = load_draft(connection, ACME, "acme", "2026-03-01", "2026-03-01")
    assert (draft.rated_until_us, draft.settled) == (instant_us(3_600), hours == 0)


def test_a_meter_that_never_ran_has_looked_at_nothing(
    load: Load, put_grants: PutGrants, make_grant: MakeGrant, at: At
) -> None:
    put_grants(make_grant(0, 3_600), make_grant(1_800, None, allocation="a2", gpu_uuid=None, node="n7"))
    at(5_400)
    assert load() == Freshness(None, None, 3)


def test_one_node_that_is_behind_keeps_the_others_from_looking_settled(
    load: Load, set_window: SetWindow, put_grants: PutGrants, make_grant: MakeGrant, ledger: Database
) -> None:
    """n2 has said nothing for two hours, in which n1 was settled."""
    put_grants(make_grant(0, 7_200), make_grant(100, 7_200, allocation="a2", node="n2", gpu_uuid="GPU-9"))
    for hours in (0, 1):
        set_window(hours, 3_600 * (hours + 1))
        set_window(hours, 3_600 * hours, "open", node="n2", charged=None)
    assert load() == Freshness(instant_us(0), instant_us(0), 2)
    with ledger.read() as connection:
        assert load_draft(connection, ACME, "acme", "2026-03-01", "2026-03-01").rated_until_us == instant_us(0)


@pytest.mark.usefixtures("globex")
def test_a_tenant_learns_of_its_own_windows_only(
    load: Load, set_window: SetWindow, put_grants: PutGrants, make_grant: MakeGrant
) -> None:
    """The operator sees that something is open, acme nothing of the kind."""
    put_grants(make_grant(0, 3_000), make_grant(4_000, 7_200, allocation="a2", tenant="globex"))
    set_window(0, 3_600)
    set_window(1, 5_000, "open", charged="globex")
    settled = Freshness(instant_us(3_600), instant_us(3_600), 0)
    assert load(ACME) == load(tenant="acme") == settled
    assert load(ACME, tenant="globex") == NOTHING
    assert load(tenant="globex") == Freshness(None, instant_us(5_000), 1)
    assert load() == Freshness(instant_us(3_600), instant_us(5_000), 1)


@pytest.mark.parametrize(
    ("start", "end", "is_held"),
    [(0, 3_600, False), (0, 3_600.000001, True), (3_700, 3_700, False), (7_199, None, True), (7_200, None, False)],
)
def test_a_window_is_held_where_a_grant_has_an_instant_of_it(
    load: Load,
    set_window: SetWindow,
    put_grants: PutGrants,
    make_grant: MakeGrant,
    start: float,
    end: float | None,
    is_held: bool,
) -> None:
    put_grants(make_grant(start, end))
    set_window(1, 3_600, "open", charged=None)
    assert load().open_windows == int(is_held)


def test_a_grant_without_a_device_is_in_the_windows_of_no_node(
    load: Load, set_window: SetWindow, put_grants: PutGrants, make_grant: MakeGrant
) -> None:
    put_grants(make_grant(0, 3_600, node="n7", gpu_uuid=None))
    set_window(0, 0, "open", node="n7", charged=None)
    assert load().open_windows == 0
    set_window(0, 0, "open", node="", charged=None)
    assert load().open_windows == 1


def test_days_are_those_of_each_tenants_zone(
    ledger: Database,
    operator: Principal,
    load: Load,
    set_window: SetWindow,
    put_grants: PutGrants,
    make_grant: MakeGrant,
) -> None:
    """1 March of Kiritimati, at UTC+14, ends at 10:00Z, where the hour begins; that of acme goes on."""
    with ledger.write() as connection:
        create_tenant(connection, operator, tenant="atoll", zone="Pacific/Kiritimati", currency="CNY", now_us=0)
        create_project(connection, operator, tenant="atoll", project="p", now_us=0)
    put_grants(make_grant(-7_200, 7_200, tenant="atoll"))
    for hours in (-2, -1, 0, 1):
        set_window(hours, 3_600 * hours, "open", charged=None)
    assert load(tenant="atoll").open_windows == 2
    assert load(tenant="atoll", day="2026-03-02").open_windows == 2
    assert load(tenant="acme").open_windows == 0


@pytest.mark.usefixtures("ledger")
def test_days_beyond_the_calendar_are_refused(load: Load) -> None:
    with pytest.raises(InputError, match=r"^cannot use the days '9999-12-31' to '9999-12-31': "):
        load(day="9999-12-31")


@pytest.mark.usefixtures("ledger")
def test_a_node_learns_nothing(load: Load) -> None:
    with pytest.raises(AccessError):
        load(Principal("n", Role.NODE, node="n1"))
