"""What a second costs: public billing bugs with a right answer, each named by its case in the notes."""

from fractions import Fraction
from zoneinfo import ZoneInfo

from domain.money import NANO
from domain.prices import GapPolicy, GapRules, PriceBook, VramBasis
from domain.tenants import Tenant
from domain.units import GIB
from meter.rating.rating import rate
from tests.meter.charges import gpu_charges
from tests.meter.fixture_types import Bill, MakeGrant, MakeRate, Observe, UseOf
from tests.meter.hour import instant_us


def test_a9_use_without_a_price_stays_and_is_unpriced(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, make_rate: MakeRate
) -> None:
    """The list has A100 only; an H100 runs for an hour: the quantity is kept, the amount is 0, there is no rate."""
    rates = (make_rate("gpu", "2.00", sku="a100-80g"),)
    charges = bill(observe(use_of(range(3600))), make_grant(sku="h100-80g"), rates=rates)
    assert [(charge.dimension, charge.rate_id, charge.quantity, charge.amount_nano) for charge in charges] == [
        ("gpu", None, 3_600_000, 0),
        ("vram", None, 3_600 * 24 * GIB, 0),
    ]


def test_a_tenant_without_a_book_is_counted_as_unpriced(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant
) -> None:
    bookless = {"acme": Tenant("acme", ZoneInfo("UTC"), "CNY", ())}
    charges = bill(observe(use_of(range(3600))), make_grant(), tenants_=bookless)
    assert [(charge.rate_id, charge.granted_seconds, charge.amount_nano) for charge in charges] == [
        (None, 3_600, 0)
    ] * 2


def test_b22_a_price_change_inside_a_grant_makes_two_rows(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, make_rate: MakeRate
) -> None:
    """2.40 until 10:30:15, then 3.00: the minute from 10:30:00 costs 0.01 + 0.0375."""
    old, new = make_rate("gpu", "2.40", end=1_815), make_rate("gpu", "3.00", start=1_815)
    charges = gpu_charges(bill(observe(use_of(range(3600))), make_grant(1_800, 1_860), rates=(old, new)))
    by_rate = {charge.rate_id: (charge.granted_seconds, charge.amount_nano) for charge in charges}
    assert by_rate == {old.rate_id: (15, 10_000_000), new.rate_id: (45, 37_500_000)}


def test_the_price_of_a_second_is_the_one_in_force_at_it(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, make_rate: MakeRate
) -> None:
    """A change at .5 of a second: that second began before it and keeps the old price."""
    old, new = make_rate("gpu", "1", end=9.5), make_rate("gpu", "2", start=9.5)
    charges = gpu_charges(bill(observe(use_of(range(20))), make_grant(0, 20), rates=(old, new)))
    assert {charge.rate_id: charge.granted_seconds for charge in charges} == {old.rate_id: 10, new.rate_id: 10}


def test_one_charge_per_rate_however_often_it_comes_and_goes(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, make_rate: MakeRate
) -> None:
    """A natural key has no start: two stretches of one rate inside a window are one row, rounded once."""
    general, special = make_rate("gpu", "1"), make_rate("gpu", "0.5", tenant="acme", start=10, end=20)
    charges = gpu_charges(bill(observe(use_of(range(30))), make_grant(0, 30), rates=(general, special)))
    assert {charge.rate_id: charge.granted_seconds for charge in charges} == {general.rate_id: 20, special.rate_id: 10}


def test_a_book_that_changes_inside_an_hour_brings_its_own_gap_rules(
    observe: Observe, use_of: UseOf, make_grant: MakeGrant, make_rate: MakeRate
) -> None:
    """Before 10:00:10 seconds without a collector are billed, from then on they are free; prices change with it."""
    strict, old, new = GapRules(0, collector_down=GapPolicy.FREE), make_rate("gpu", "1"), make_rate("gpu", "2")
    books = {
        "old": PriceBook("old", "CNY", GapRules(0), (old,)),
        "new": PriceBook("new", "CNY", strict, (new,)),
    }
    grant = make_grant(0, 20)
    at_us = instant_us(10)
    tenants = {"acme": Tenant("acme", ZoneInfo("UTC"), "CNY", ((0, "old"), (at_us, "new")))}
    charges = gpu_charges(rate(observe([], heard=[(0, 60)]), [grant], tenants, books))
    assert {charge.rate_id: (charge.on_record_seconds, charge.free_seconds) for charge in charges} == {
        old.rate_id: (10, 0),
        new.rate_id: (0, 10),
    }


def test_overuse_may_have_a_price_of_its_own(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, make_rate: MakeRate
) -> None:
    rates = (
        make_rate("vram", "1", "GiB-second", basis=VramBasis.GRANTED),
        make_rate("vram_overuse", "5", "GiB-second"),
    )
    charges = bill(observe(use_of(range(10), 7 * GIB)), make_grant(0, 10, vram_bytes=4 * GIB), rates=rates)
    assert {charge.dimension: charge.amount_nano for charge in charges} == {
        "gpu": 0,
        "vram": 40 * NANO,
        "vram_overuse": 150 * NANO,
    }


def test_a_dimension_that_is_priced_for_others_does_not_block_this_grant(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, make_rate: MakeRate
) -> None:
    """Overuse is priced on one SKU: a grant of another has no unpriced overuse, which would never let it close."""
    rates = (
        make_rate("gpu"),
        make_rate("vram", "1", "GiB-hour", basis=VramBasis.GRANTED),
        make_rate("vram_overuse", "5", "GiB-hour", sku="h100-80g"),
    )
    charges = bill(observe(use_of(range(10), 30 * GIB)), make_grant(0, 10), rates=rates)
    assert [(charge.dimension, charge.rate_id is None) for charge in charges] == [("gpu", False), ("vram", False)]


def test_d43_an_hour_is_not_read_as_a_month(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, make_rate: MakeRate
) -> None:
    (charge,) = gpu_charges(bill(observe(use_of(range(3600))), make_grant(), rates=(make_rate("gpu", "0.95"),)))
    assert charge.amount_nano == 950_000_000


def test_d44_components_are_not_rescaled_to_each_other(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, make_rate: MakeRate
) -> None:
    rates = (make_rate("gpu", "1.0"), make_rate("vram", "1.0", "GiB-hour", basis=VramBasis.GRANTED))
    charges = bill(observe(use_of(range(3600))), make_grant(), rates=rates)
    assert [charge.amount_nano for charge in charges] == [NANO, 24 * NANO]


def test_d46_a_day_at_2_49_is_not_rounded_each_second(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, make_rate: MakeRate
) -> None:
    """24 windows of a whole hour sum to 59.76 to the last digit; of 1,234 s each, to half a nano-unit a charge."""
    rates = (make_rate("gpu", "2.49"),)
    total, pieces = 0, 0
    for hour in range(24):
        window = (hour * 3_600, (hour + 1) * 3_600)
        evidence = observe(use_of(range(*window)), start=window[0], end=window[1])
        total += gpu_charges(bill(evidence, make_grant(0, None), rates=rates))[0].amount_nano
        pieces += gpu_charges(bill(evidence, make_grant(window[0], window[0] + 1_234), rates=rates))[0].amount_nano
    assert total == 59_760_000_000
    assert abs(pieces - Fraction("2.49") * 24 * 1_234 * NANO / 3_600) <= 12
