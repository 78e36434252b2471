"""A draft invoice: lines that add up, what is unpriced in sight, and how far it can be trusted."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.clock import FrozenClock
from domain.errors import NotFoundError
from domain.grants import Grant
from domain.money import Quote, round_half_even
from domain.period import HOUR_US
from domain.prices import Rate
from domain.tenants import Tenant
from meter.bills.invoice_store import load_draft
from meter.bills.invoices import Invoice, draft_invoice
from meter.ledger.ledger_store import Window
from meter.rating.charges import Charge
from meter.windows.passes import rate_period
from store.access import Principal, Role
from store.database import Database
from store.tenants import create_project, create_tenant
from tests.meter.charges import make_charge
from tests.meter.fixture_types import At, MakeGrant, MakeRater, PutGrants, Recorded, UseOf
from tests.meter.hour import START_US, instant_us, stretch
from tests.meter.ledgers import charges_of

CENT = 10_000_000
ACME = Tenant("acme", ZoneInfo("UTC"), "CNY", ())
RATE = Rate("rate_1", "gpu", "*", None, None, Quote(Decimal("2.49"), "GPU-hour"), None, 0, None)


def _charge(number: int = 0, **changes: Any) -> Charge:
    """A hundred seconds, of which twenty were free."""
    values = {
        "allocation": f"a{number}",
        "rate_id": "rate_1",
        "granted_seconds": 100,
        "measured_seconds": 80,
        "free_seconds": 20,
        "covered_seconds": 80,
        "quantity": 80_000,
        "amount_nano": 55_333_333,
    }
    return make_charge(**{**values, **changes})


def _draft(*charges: Charge, tenant: Tenant = ACME, windows: dict[Any, Window] | None = None) -> Invoice:
    settled = Window("n1", START_US, "settled", START_US + HOUR_US, 1, "d", 0, 0, 0, 1)
    known = windows or {(each.node, each.window_start_us): replace(settled, node=each.node) for each in charges}
    return draft_invoice(tenant, "2026-03-01", "2026-03-31", charges, {"rate_1": RATE}, known)


def test_charges_of_one_price_are_one_line() -> None:
    draft = _draft(
        _charge(1), _charge(2), _charge(3, project="q"), _charge(4, dimension="vram", rate_id=None, amount_nano=0)
    )
    lines = [(line.project, line.dimension, line.rate, line.granted_seconds, line.amount_nano) for line in draft.lines]
    assert lines == [
        ("p", "gpu", RATE, 200, 110_666_666),
        ("p", "vram", None, 100, 0),
        ("q", "gpu", RATE, 100, 55_333_333),
    ]
    assert [line.free_seconds for line in draft.lines] == [40, 20, 20]


def test_lines_of_a_half_and_of_a_whole_card_do_not_mix_their_units() -> None:
    draft = _draft(_charge(1), _charge(2, quantity=80 * 98, quantity_whole=98))
    assert [(line.quantity, line.quantity_whole) for line in draft.lines] == [(80 * 98, 98), (80_000, 1_000)]


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=30), st.sampled_from(["CNY", "JPY", "KWD"]))
@settings(deadline=None)
def test_d45_lines_add_up_to_the_total_in_what_can_be_paid(amounts: list[int], currency: str) -> None:
    """The total is the exact sum, rounded once; no line is off by a whole cent, fen or yen (Lago 5121)."""
    step = {"CNY": CENT, "JPY": 100 * CENT, "KWD": CENT // 10}[currency]
    charges = [_charge(n, project=f"p{n}", amount_nano=amount) for n, amount in enumerate(amounts)]
    draft = _draft(*charges, tenant=replace(ACME, currency=currency))
    assert draft.total_nano == sum(line.payable_nano for line in draft.lines)
    assert draft.total_nano == round_half_even(Fraction(sum(amounts), step)) * step
    assert all(abs(line.payable_nano - line.amount_nano) < step for line in draft.lines)


def test_what_no_rate_covers_is_in_sight() -> None:
    """Kept as a line of its own, payable nothing, and counted (OpenCost 3444)."""
    draft = _draft(_charge(1), _charge(2, rate_id=None, amount_nano=0))
    assert draft.unpriced_seconds == 100
    assert [(line.rate is None, line.payable_nano) for line in draft.lines] == [(True, 0), (False, 6 * CENT)]


def test_coverage_is_null_where_no_device_is_known_and_0_where_one_was_never_sampled() -> None:
    record, never, card = _charge(1, covered_seconds=None), _charge(2, covered_seconds=0), _charge(3)
    seen = [
        (draft.covered_seconds, draft.coverable_seconds)
        for draft in (_draft(record), _draft(never), _draft(record, never, card))
    ]
    assert seen == [(None, 0), (0, 100), (80, 200)]
    assert _draft(record).lines[0].covered_seconds is None


def test_the_coverage_of_a_line_is_of_the_seconds_that_could_be_covered() -> None:
    """A line of a card that was always sampled and of a record without one is covered whole."""
    (line,) = _draft(_charge(1, covered_seconds=None), _charge(2, covered_seconds=100)).lines
    assert (line.granted_seconds, line.covered_seconds, line.coverable_seconds) == (200, 100, 100)
    (line,) = _draft(_charge(1), _charge(2, dimension="gpu", covered_seconds=0)).lines
    assert (line.granted_seconds, line.covered_seconds, line.coverable_seconds) == (200, 80, 200)
    (line,) = _draft(_charge(1, covered_seconds=None)).lines
    assert (line.covered_seconds, line.coverable_seconds) == (None, 0)


def test_an_invoice_of_nothing_is_empty_and_says_so() -> None:
    draft = _draft()
    assert (draft.lines, draft.total_nano, draft.rated_until_us, draft.covered_seconds) == ((), 0, None, None)


# The rest is of drafts out of a ledger.


@pytest.fixture
def billed(
    ledger: Database, make_rater: MakeRater, put_grants: PutGrants, recorded: Recorded, use_of: UseOf, at: At
) -> Callable[..., None]:
    """Rates everything of acme: n1 sampled and complete up to an offset into the hour, asked for at another."""

    def bill(*grants: Grant, complete: int, now: float) -> None:
        put_grants(*grants)
        rater = make_rater(recorded(use_of(range(complete)), complete))
        period = stretch(-86_400, 86_400)
        list(rate_period(ledger, Principal.local_operator(), rater, period, FrozenClock(at(now)), pytest.fail))

    return bill


def _load(ledger: Database, first: str = "2026-03-01", last: str = "2026-03-31", tenant: str = "acme") -> Invoice:
    with ledger.read() as connection:
        return load_draft(connection, Principal.local_operator(), tenant, first, last)


def test_a_draft_is_to_the_last_complete_second(
    ledger: Database, billed: Callable[..., None], make_grant: MakeGrant
) -> None:
    """While the hour fills: the mark; when it has settled and the grant is over: the hour's end."""
    billed(make_grant(0, 3_000), complete=1_234, now=1_300)
    draft = _load(ledger)
    assert (draft.rated_until_us, draft.settled) == (instant_us(1_234), False)
    assert draft.lines[0].granted_seconds == 1_234
    billed(complete=3_700, now=3_800)
    draft = _load(ledger)
    assert (draft.rated_until_us, draft.settled) == (instant_us(3_600), True)
    assert draft.lines[0].granted_seconds == 3_000


def test_a_node_that_was_never_rated_keeps_an_invoice_from_looking_settled(
    ledger: Database, billed: Callable[..., None], make_grant: MakeGrant
) -> None:
    """Two hours of n1 have settled; n2 granted in the second of them and never said a word."""
    billed(
        make_grant(0, 7_200),
        make_grant(4_000, 5_000, allocation="a2", node="n2", gpu_uuid="GPU-9"),
        complete=7_300,
        now=7_400,
    )
    draft = _load(ledger)
    assert draft.lines[0].granted_seconds == 7_200
    assert not draft.settled
    assert draft.rated_until_us == instant_us(3_600)


def test_an_open_grant_keeps_the_draft_open_where_rating_ends(
    ledger: Database, billed: Callable[..., None], make_grant: MakeGrant
) -> None:
    billed(make_grant(0, None), complete=3_700, now=3_650)
    draft = _load(ledger)
    assert (draft.rated_until_us, draft.settled) == (instant_us(3_650), False)


def test_a_grant_that_nobody_rated_yet_is_not_an_invoice_of_nothing(
    ledger: Database, put_grants: PutGrants, make_grant: MakeGrant
) -> None:
    put_grants(make_grant(600, 7_200))
    draft = _load(ledger)
    assert (draft.lines, draft.rated_until_us, draft.settled) == ((), None, False)
    assert _load(ledger, "2026-04-01", "2026-04-30").settled


def test_what_is_held_in_another_month_does_not_matter(
    ledger: Database, billed: Callable[..., None], make_grant: MakeGrant
) -> None:
    """Asked for a day: a grant of the next one, unrated, keeps nothing open."""
    day = 14 * 3_600  # the rest of 1 March
    billed(make_grant(0, 3_000), complete=3_700, now=3_800)
    billed(make_grant(day, day + 600, allocation="a2"), complete=3_700, now=3_800)
    draft = _load(ledger, last="2026-03-01")
    assert (draft.rated_until_us, draft.settled) == (instant_us(3_600), True)
    assert not _load(ledger, last="2026-03-02").settled


def test_a_month_is_of_the_tenants_own_days(
    ledger: Database, billed: Callable[..., None], make_grant: MakeGrant, operator: Principal
) -> None:
    """At UTC-11 the first hours of 1 March UTC are still February."""
    with ledger.write() as connection:
        create_tenant(connection, operator, tenant="samoa", zone="Pacific/Pago_Pago", currency="CNY", now_us=0)
        create_project(connection, operator, tenant="samoa", project="p", now_us=0)
    # 10:00Z is 23:00 of 28 February there; midnight is an hour later.
    billed(make_grant(0, 7_200, tenant="samoa"), complete=7_300, now=7_400)
    february, march = _load(ledger, "2026-02-01", "2026-02-28", "samoa"), _load(ledger, tenant="samoa")
    assert [draft.lines[0].granted_seconds for draft in (february, march)] == [3_600, 3_600]
    assert (february.rated_until_us, february.settled) == (instant_us(3_600), True)
    assert (march.rated_until_us, march.settled) == (instant_us(7_200), True)
    assert _load(ledger, "2026-04-01", "2026-04-30", "samoa").rated_until_us is None


def test_a_draft_holds_what_the_ledger_does(
    ledger: Database, billed: Callable[..., None], make_grant: MakeGrant
) -> None:
    billed(
        make_grant(0, 3_000),
        make_grant(100, 5_000, allocation="a2", gpu_uuid=None, node="", project="q"),
        complete=7_300,
        now=7_400,
    )
    draft = _load(ledger)
    assert sum(line.amount_nano for line in draft.lines) == sum(each.amount_nano for each in charges_of(ledger)) > 0
    assert (draft.covered_seconds, draft.coverable_seconds) == (3_000, 3_000)


def test_a_tenant_reads_its_own_draft_and_no_other(
    ledger: Database, billed: Callable[..., None], make_grant: MakeGrant
) -> None:
    billed(make_grant(0, 3_000), complete=3_700, now=3_800)
    with ledger.read() as connection:
        own = load_draft(connection, Principal("t", Role.TENANT, tenant="acme"), "acme", "2026-03-01", "2026-03-31")
        assert own == _load(ledger)
        with pytest.raises(NotFoundError):
            load_draft(connection, Principal("t", Role.TENANT, tenant="globex"), "acme", "2026-03-01", "2026-03-31")
