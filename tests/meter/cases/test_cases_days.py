"""Days, months and clocks: public bugs with a right answer, in the ledger or out of what it is made of."""

from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from domain.clock import MICROSECONDS
from domain.errors import InputError
from domain.grants import Grant
from domain.money import NANO
from domain.prices import PriceBook
from domain.skus import load_skus
from domain.tenants import Tenant
from domain.units import GIB
from meter.bills.invoice_store import load_draft
from meter.bills.spend_store import spend_by_day
from meter.prices.price_book import read_price_book
from meter.rating.rating import rate
from meter.rating.usage import usage
from store.access import Principal
from store.database import Database
from tests.meter.cases.booking import FREE_MEMORY, add_customer, rate_hours
from tests.meter.charges import gpu_charges, vram_charges
from tests.meter.facts import make_grant, make_rate, observe, use_of
from tests.meter.fixture_types import At, MakeBook, MakeRater, PutGrants, Recorded
from tests.meter.hour import HOUR_S, instant_us, stretch
from tests.meter.ledgers import charges_of

HOUR = 3_600
DAY = 24 * HOUR
# From 2026-03-01T10:00 to the next midnight in UTC.
MIDNIGHT = 14 * HOUR


def _offset(instant: str) -> int:
    """A whole second as an offset into the hour."""
    return int(datetime.fromisoformat(instant).timestamp()) - HOUR_S


def _over_windows(grant: Grant, tenant: Tenant, books: dict[str, PriceBook], starts: range) -> dict[str, int]:
    """GPU-seconds by billing date, over windows that begin at these offsets, of a grant without a device."""
    sums: dict[str, int] = {}
    for start in starts:
        evidence = observe(node="", start=start, end=start + starts.step)
        for each in gpu_charges(rate(evidence, [grant], {tenant.tenant: tenant}, books)):
            sums[each.billing_date] = sums.get(each.billing_date, 0) + each.quantity // each.quantity_whole
    return sums


@pytest.mark.parametrize("unit", ["GPU-month", "GPU-day", "GPU-minute", ""])
def test_a_price_has_no_period_that_could_be_of_another_length(tmp_path: Path, unit: str) -> None:
    """metering B23, metering D43: a plan's price was divided by 42 of its 91 days (Lago 6194); an hour was read as a
    month (OpenCost 3781). Prices are per hour or second only, and the unit is said in every row.
    """
    path = tmp_path / "book.yaml"
    row = f'{{dimension: gpu, sku: "*", price: "91", unit: "{unit}", from: 2026-04-01T00:00:00Z}}'
    path.write_text(f"book: b\ncurrency: CNY\nrates:\n  - {row}\n", "utf-8")
    with pytest.raises(InputError, match=r"rate 1: .*GPU-hour"):
        read_price_book(path, load_skus())


def test_what_begins_within_a_period_costs_its_own_days(make_book: MakeBook) -> None:
    """metering B23: from 20 May to the end of June are 42 days of 91, at the price of a day (Lago 6194)."""
    start = _offset("2026-05-20T00:00:00+00:00")
    grant = make_grant(start, _offset("2026-07-01T00:00:00+00:00"), gpu_uuid=None, node="")
    tenant = Tenant("acme", ZoneInfo("UTC"), "CNY", ((0, "retail"),))
    quarter = _offset("2026-04-01T00:00:00+00:00")
    days = range(quarter, quarter + 91 * DAY, DAY)
    by_date = _over_windows(grant, tenant, make_book(make_rate("gpu", "1")), days)
    assert (set(by_date.values()), len(by_date)) == ({DAY}, 42)


def test_a_meter_that_runs_twice_around_a_local_midnight_makes_one_bill_a_day(
    ledger: Database, operator: Principal, make_rater: MakeRater, put_grants: PutGrants, recorded: Recorded, at: At
) -> None:
    """metering B24: at UTC+9 the day ends at 15:00Z (Lago 879 and 662)."""
    add_customer(ledger, make_rate("gpu", "2.52"), FREE_MEMORY, zone="Asia/Tokyo")
    put_grants(make_grant(4 * HOUR, 6 * HOUR, tenant="beta"))
    seen = recorded(use_of(range(4 * HOUR - 60, 7 * HOUR)), 7 * HOUR)
    for now in (5 * HOUR - 10, 5 * HOUR + 10, 6 * HOUR + 60, 6 * HOUR + 70):
        rate_hours(ledger, make_rater(seen), range(4, 6), at(now))
    with ledger.read() as connection:
        spent = spend_by_day(connection, operator, "2026-02-01", "2026-04-01", tenant="beta")
    days = [(each.billing_date, each.charges, each.amount_nano) for each in spent if each.dimension == "gpu"]
    assert days == [("2026-03-01", 1, 2_520_000_000), ("2026-03-02", 1, 2_520_000_000)]


def test_a_day_that_is_asked_for_later_is_that_day(
    ledger: Database, operator: Principal, make_rater: MakeRater, put_grants: PutGrants, recorded: Recorded, at: At
) -> None:
    """metering B25: 2 GB since 25 November, asked on 3 December: 48 GB-hours and not 384 (cf-abacus 182)."""
    add_customer(ledger, make_rate("gpu", "0"), make_rate("vram", "1", "GiB-hour", basis=FREE_MEMORY.basis))
    put_grants(make_grant(MIDNIGHT, None, tenant="beta", gpu_uuid=None, node="", vram_bytes=2 * GIB))
    rate_hours(ledger, make_rater(recorded()), range(14, 38), at(MIDNIGHT + 8 * DAY))
    assert sum(each.quantity for each in vram_charges(charges_of(ledger))) == 48 * GIB * HOUR
    with ledger.read() as connection:
        assert load_draft(connection, operator, "beta", "2026-03-02", "2026-03-02").total_nano == 48 * NANO


def test_a_tenant_that_came_before_the_clocks_changed_pays_what_one_after_does(make_book: MakeBook) -> None:
    """cases 22: equal use up to 04-01T04:00Z, an account of before the change of clocks: two bills (killbill 1934)."""
    zone, books = ZoneInfo("America/New_York"), make_book(make_rate("gpu", "1"))
    change = instant_us(_offset("2026-03-08T07:00:00+00:00"))
    grant = make_grant(
        _offset("2026-03-31T00:00:00+00:00"), _offset("2026-04-01T04:00:00+00:00"), gpu_uuid=None, node=""
    )
    first = _offset("2026-03-31T00:00:00+00:00")
    hours = range(first, first + 30 * HOUR, HOUR)
    bills = [
        _over_windows(grant, Tenant("acme", zone, "CNY", ((since, "retail"),)), books, hours)
        for since in (change - 30 * DAY * MICROSECONDS, change + 3 * DAY * MICROSECONDS)
    ]
    assert bills[0] == bills[1] == {"2026-03-30": 4 * HOUR, "2026-03-31": DAY}


def test_the_day_of_a_second_is_by_the_clocks_of_that_day(make_book: MakeBook) -> None:
    """cases 23: 22:30Z on 31 January was 1 February in Vienna, seen from the summer (openclaw 103092)."""
    second = _offset("2026-01-31T22:30:00+00:00")
    assert datetime.fromtimestamp(HOUR_S + second, UTC).hour == 22
    tenant = Tenant("acme", ZoneInfo("Europe/Vienna"), "CNY", ((0, "retail"),))
    grant = make_grant(second, second + 2 * HOUR, gpu_uuid=None, node="")
    hours = range(second - HOUR // 2, second + 5 * HOUR // 2, HOUR)
    by_date = _over_windows(grant, tenant, make_book(make_rate("gpu", "1")), hours)
    assert by_date == {"2026-01-31": HOUR // 2, "2026-02-01": 3 * HOUR // 2}


def test_how_much_is_held_and_for_how_long_are_not_one_number() -> None:
    """cases 25: one unit from 35 % into the month on was shown as 0.6466 units (Lago 339)."""
    month = stretch(0, 31 * DAY)
    start = 31 * DAY * 3_534 // 10_000
    (row,) = usage([make_grant(start, None, gpu_uuid=None, node="")], month, ["tenant"], lambda node, hour: observe())
    assert row.granted_seconds == 31 * DAY - start
    assert row.milli_gpu_seconds == 1_000 * row.granted_seconds
    assert round(Fraction(row.granted_seconds, 31 * DAY), 4) == Fraction(6_466, 10_000)
