"""What is said twice, late, or by two: public bugs with a right answer, each through the real way to the ledger."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection

from domain.grants import GrantKind
from domain.prices import VramBasis
from domain.units import GIB
from meter.bills.spend_store import spend_by_day
from meter.ledger.leases_store import LEASE_S
from meter.windows.windows import Outcome
from store.access import Principal
from store.database import Database
from tests.meter.cases.booking import FREE_MEMORY, add_customer, at_offset, billed_seconds, rate_hours, take_in
from tests.meter.charges import gpu_charges, vram_charges
from tests.meter.facts import make_grant, make_rate, observe, use_of
from tests.meter.fixture_types import At, Bill, MakeRater, OpenLedger, PassAt, PutGrants, Recorded
from tests.meter.hour import DONE, TAIL
from tests.meter.ledgers import charges_of

HOUR = 3_600
DAY = 24 * HOUR


class _Killed(Database):
    """A process that is killed at its n-th change of the ledger, before it or right after; no change follows."""

    number = 0
    is_after = False

    @contextmanager
    def write(self) -> Iterator[Connection]:
        self.number -= 1
        if self.number < 0 or (self.number == 0 and not self.is_after):
            raise KeyboardInterrupt
        with super().write() as connection:
            yield connection
        if self.number == 0:
            raise KeyboardInterrupt


@pytest.mark.usefixtures("granted")
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("is_after", [False, True])
def test_a_mark_and_what_it_marks_are_one_write(
    ledger: Database,
    open_ledger: OpenLedger,
    pass_at: PassAt,
    recorded: Recorded,
    at: At,
    number: int,
    is_after: bool,
) -> None:
    """metering C32: claimed and not written was counted 0 times, written and not marked twice (OpenMeter 5118, 4485).

    Once, whichever change the meter died before or after: the first takes the window, the second has all that it rated.
    """
    seen = recorded(use_of(range(1_000)), DONE)
    dying = open_ledger(_Killed)
    assert isinstance(dying, _Killed)
    dying.number, dying.is_after = number, is_after
    with pytest.raises(KeyboardInterrupt):
        pass_at(seen, 3_700, database=dying)
    written = is_after and number == 2
    assert billed_seconds(ledger) == ({("a1", 0): 1_000 + TAIL} if written else {})
    at(LEASE_S + 1)
    assert pass_at(seen, 3_700).outcome is Outcome.SETTLED
    assert billed_seconds(ledger) == {("a1", 0): 1_000 + TAIL}
    assert len(charges_of(ledger)) == 2


def test_of_rules_that_overlap_the_narrower_prices_a_second_once(
    ledger: Database, pass_at: PassAt, put_grants: PutGrants, recorded: Recorded
) -> None:
    """metering C34: a card that two rules matched was counted by both (Lago 5916)."""
    rates = [make_rate("gpu", price, sku=sku) for price, sku in (("1", "*"), ("2.52", "h100-80g"), ("3", "a100-80g"))]
    add_customer(ledger, *rates, FREE_MEMORY)
    put_grants(make_grant(tenant="beta", sku="h100-80g/1g.10gb"))
    pass_at(recorded(use_of(range(HOUR)), DONE), 3_700)
    (charge,) = gpu_charges(charges_of(ledger))
    assert (charge.rate_id, charge.amount_nano) == (rates[1].rate_id, 2_520_000_000)


def test_use_that_is_found_by_two_names_of_one_grant_is_counted_once(bill: Bill) -> None:
    """metering C34: matched by id and by tag (Koku 816): the record's source and its id both lead to one owner."""
    share = make_grant(0, 10, kind=GrantKind.SHARE, compute_units=500, source="slurm", source_id="slurm:17")
    rows = [*use_of(range(10), 9 * GIB), *use_of(range(10), 2 * GIB, owner="slurm:17")]
    rates = (make_rate("vram", "1", "GiB-second", basis=VramBasis.USED),)
    charges = vram_charges(bill(observe(rows, end=10), share, rates=rates))
    assert [(each.quantity, each.covered_seconds) for each in charges] == [(10 * 2 * GIB, 10)]


def test_what_goes_on_without_an_event_is_the_whole_of_each_day(
    ledger: Database, operator: Principal, make_rater: MakeRater, put_grants: PutGrants, recorded: Recorded, at: At
) -> None:
    """metering C36: of 100, nothing and 150 the third day was 150; held and silent is 86,400 s a day (Lago 5616, 5627).

    Charges are of windows and not of the difference to a day before.
    """
    put_grants(make_grant(14 * HOUR, None, gpu_uuid=None, node=""))
    rate_hours(ledger, make_rater(recorded()), range(14, 38), at(38 * HOUR + 60))
    # The meter stood still for a day.
    rate_hours(ledger, make_rater(recorded()), range(62, 86), at(86 * HOUR + 60))
    rate_hours(ledger, make_rater(recorded()), range(38, 62), at(86 * HOUR + 70))
    with ledger.read() as connection:
        days = spend_by_day(connection, operator, "2026-03-01", "2026-03-31")
    held = {each.billing_date: each.granted_seconds for each in days if each.dimension == "gpu"}
    assert held == {"2026-03-02": DAY, "2026-03-03": DAY, "2026-03-04": DAY}


@pytest.mark.parametrize("since_s", [0, 40 * DAY])
def test_a_record_that_comes_later_is_in_the_day_it_is_of(
    ledger: Database, operator: Principal, make_rater: MakeRater, recorded: Recorded, at: At, since_s: int
) -> None:
    """metering C36, metering C37: A of 100 s and B of 50 become A of 130 and no B: 130 that day, and nothing below 0.

    Lago 5102 made -20 of it; what it showed of the day stayed as it was (Lago 6019).
    """
    seen = recorded(use_of(range(HOUR)), DONE)

    def rated() -> list[tuple[str, int]]:
        rate_hours(ledger, make_rater(seen), range(1), at(3_700 + since_s))
        with ledger.read() as connection:
            days = spend_by_day(connection, operator, "2026-01-01", "2026-12-31")
        assert all(each.granted_seconds > 0 and each.amount_nano >= 0 for each in days)
        return [(each.billing_date, each.granted_seconds) for each in days if each.dimension == "gpu"]

    second = {"allocation": "job-2", "start": at_offset(200)}
    take_in(ledger, {"end": at_offset(100)}, {**second, "end": at_offset(250)})
    at(3_700)
    rate_hours(ledger, make_rater(seen), range(1), at(3_700))
    assert rated() == [("2026-03-01", 150)]
    take_in(ledger, {"end": at_offset(130)}, {**second, "end": at_offset(200)})
    assert rated() == [("2026-03-01", 130)]


def test_what_two_share_for_an_hour_is_weighed_once(
    ledger: Database, make_rater: MakeRater, put_grants: PutGrants, recorded: Recorded, at: At
) -> None:
    """metering C39: 2.00 an hour; A alone, then A and B: 3.00 and 1.00, of which B got 0.50 (OpenCost 2129)."""
    add_customer(ledger, make_rate("gpu", "2"), FREE_MEMORY)
    half = {"kind": GrantKind.SHARE, "compute_units": 500, "vram_bytes": 12 * GIB, "tenant": "beta"}
    put_grants(
        make_grant(0, HOUR, allocation="a", tenant="beta"),
        make_grant(HOUR, 2 * HOUR, allocation="a", ordinal=1, **half),
        make_grant(HOUR, 2 * HOUR, allocation="b", **half),
    )
    rate_hours(ledger, make_rater(recorded(use_of(range(2 * HOUR + 60)), 2 * HOUR + 60)), range(2), at(3 * HOUR))
    money = {"a": 0, "b": 0}
    for each in charges_of(ledger):
        money[each.allocation] += each.amount_nano
    assert money == {"a": 3_000_000_000, "b": 1_000_000_000}


def test_what_was_read_for_ten_seconds_is_not_stretched_to_thirty(bill: Bill) -> None:
    """metering C40: of a life of 30 s a counter was seen from 10 to 20; the rest was extrapolated (Prometheus 3886).

    Time is billed as granted. Bytes are billed as read, and the other 20 s say that they were not covered.
    """
    rows = [*(("gpu_up", "GPU-1", "", "", second, 1.0) for second in range(30)), *use_of(range(10, 20), 15 * GIB)]
    rates = (make_rate("gpu", "1"), make_rate("vram", "1", "GiB-second", basis=VramBasis.USED))
    gpu, vram = bill(observe(rows, end=30), make_grant(0, 30), rates=rates)
    assert (gpu.granted_seconds, gpu.quantity) == (30, 30_000)
    assert (vram.granted_seconds, vram.covered_seconds, vram.quantity) == (30, 10, 150 * GIB)
