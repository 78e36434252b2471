"""Public billing bugs as small inputs with a right answer; each test names its case in the research notes."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from domain.grants import Grant, GrantKind
from domain.money import NANO
from domain.prices import GapPolicy, GapRules, PriceBook, Rate, VramBasis
from domain.tenants import Tenant
from meter.charges import Charge
from meter.evidence import MILLION, Evidence
from meter.rating import rate

Observe = Callable[..., Evidence]
UseOf = Callable[..., list[Any]]
MakeGrant = Callable[..., Grant]
MakeRate = Callable[..., Rate]
Bill = Callable[..., list[Charge]]
GIB = 2**30
A100 = {"model": "NVIDIA A100-SXM4-80GB", "sku": "a100-80g/3g.40gb", "kind": GrantKind.MIG, "compute_units_total": 98}


@pytest.fixture
def bill(make_book: Callable[..., dict[str, PriceBook]], tenants: dict[str, Tenant]) -> Bill:
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


def _gpu(charges: list[Charge]) -> list[Charge]:
    return [charge for charge in charges if charge.dimension == "gpu"]


def test_a1_replicas_do_not_multiply_the_card(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, make_rate: MakeRate
) -> None:
    """Four quarters of a card at 0.48 an hour cost 0.12 each and 0.48 together."""
    quarters = [make_grant(allocation=f"a{n}", kind=GrantKind.SHARE, compute_units=250) for n in range(4)]
    charges = _gpu(bill(observe(use_of(range(3600))), *quarters, rates=(make_rate("gpu", "0.48"),)))
    assert [charge.amount_nano for charge in charges] == [120_000_000] * 4
    assert sum(Fraction(charge.quantity, charge.quantity_whole) for charge in charges) == 3_600


def test_a2_a_fraction_is_not_read_as_the_whole_card(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant
) -> None:
    """cases.md A16 too: 25 % of the cores for an hour is a quarter of a GPU-hour, alone or not."""
    (charge,) = _gpu(bill(observe(use_of(range(3600))), make_grant(kind=GrantKind.SHARE, compute_units=250)))
    assert (charge.granted_seconds, charge.quantity, charge.quantity_whole) == (3_600, 900_000, 1_000)
    assert charge.amount_nano == 550_000_000


def test_a5_two_slices_are_priced_by_their_sms(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, make_rate: MakeRate
) -> None:
    """3.00 an hour x 42 of 98 SMs each; what no profile can use beside them is nobody's charge."""
    grants = [
        make_grant(allocation=f"a{n}", mig_uuid=f"MIG-{n}", compute_units=42, vram_bytes=40_192 * 2**20, **A100)
        for n in (1, 2)
    ]
    rows = [*use_of(range(3600)), *use_of(range(3600), mig="MIG-1"), *use_of(range(3600), mig="MIG-2")]
    charges = _gpu(bill(observe(rows), *grants, rates=(make_rate("gpu", "3.00"),)))
    assert [charge.amount_nano for charge in charges] == [1_285_714_286] * 2
    assert sum(Fraction(charge.quantity, charge.quantity_whole) * 3 / 3_600 for charge in charges) == Fraction(18, 7)


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


def test_a13_what_was_granted_and_what_was_busy_are_two_numbers(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant
) -> None:
    """cases.md A8 and A17 too: an hour at 10 % is 3,600 granted and 360 busy seconds."""
    rows = [*use_of(range(3600)), *(("gpu_busy_ratio", "GPU-1", "", "", second, 0.1) for second in range(3600))]
    evidence = observe(rows)
    (charge,) = _gpu(bill(evidence, make_grant()))
    busy = sum(run["value"] * run["seconds"] for run in evidence.quantity("busy").iter_rows(named=True))
    assert (charge.quantity, charge.quantity_whole, busy) == (3_600_000, 1_000, 360 * MILLION)


def test_a14_an_instance_is_measured_by_its_own_readings(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, make_rate: MakeRate
) -> None:
    """The card's 30 GiB are not on each of its slices."""
    grant = make_grant(mig_uuid="MIG-1", compute_units=42, vram_bytes=40 * GIB, **A100)
    rates = (make_rate("vram", "1", "GiB-second", basis=VramBasis.USED),)
    rows = [*use_of(range(10), 30 * GIB), *use_of(range(10), 4 * GIB, mig="MIG-1")]
    charges = bill(observe(rows, end=10), grant, rates=rates)
    assert [charge.quantity for charge in charges if charge.dimension == "vram"] == [10 * 4 * GIB]


def test_a14_a_record_that_does_not_name_its_instance_is_not_measured_by_the_card(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, make_rate: MakeRate
) -> None:
    """Imported MIG records may lack the instance: what it used is not known, and is not what the card used."""
    grant = make_grant(mig_uuid=None, compute_units=42, vram_bytes=10 * GIB, **A100)
    rates = (make_rate("vram", "1", "GiB-second", basis=VramBasis.MAX),)
    charges = bill(observe(use_of(range(10), 30 * GIB), end=10), grant, rates=rates)
    (vram,) = [charge for charge in charges if charge.dimension == "vram"]
    assert (vram.quantity, vram.covered_seconds, vram.measured_seconds) == (10 * 10 * GIB, 0, 10)


def test_a15_a_sentinel_changes_no_charge(bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant) -> None:
    """Blank on MIG, or 9223372036854775807 %, is neither 0 nor a number."""
    rows = use_of(range(100))
    odd = [("gpu_busy_ratio", "GPU-1", "", "", second, 9.223372036854776e18) for second in range(100)]
    assert bill(observe([*rows, *odd], end=100), make_grant()) == bill(observe(rows, end=100), make_grant())


def test_b16_the_tail_after_the_last_sample_is_billed(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant
) -> None:
    """Life 100 s, samples at 0 and 60 s, the node heard from: 100 s, not 60."""
    evidence = observe(use_of([0, 60]), heard=[(0, 200)])
    (charge,) = _gpu(bill(evidence, make_grant(0, 100)))
    assert (charge.granted_seconds, charge.measured_seconds, charge.on_record_seconds) == (100, 2, 98)
    assert charge.quantity == 100_000


@pytest.mark.parametrize(("start", "end", "seconds"), [(0, 899.98, 900), (0.02, 900, 899), (0.02, 900.02, 900)])
def test_b17_a_window_is_not_cut_to_minutes(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, start: float, end: float, seconds: int
) -> None:
    (charge,) = _gpu(bill(observe(use_of(range(3600))), make_grant(start, end)))
    assert (charge.granted_seconds, charge.measured_seconds) == (seconds, seconds)


def test_b18_grants_and_samples_meet_on_whole_seconds(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant
) -> None:
    """A grant from .918285 on holds the next second's sample and not the one that was cut to .918."""
    (charge,) = _gpu(bill(observe(use_of([0, 1])), make_grant(0.918285, 2)))
    assert (charge.granted_seconds, charge.measured_seconds) == (1, 1)


def test_b19_the_instant_keeps_its_microseconds(bill: Bill, observe: Observe, use_of: UseOf, hour_s: int) -> None:
    grant = Grant("a1", 0, "acme", "p", "n1", "GPU-1", None, GrantKind.WHOLE, "m", "s", 1_000, 1_000, 1, 0, 0)
    border_us = (hour_s + 10) * 1_000_000
    before = replace(grant, start_us=hour_s * 1_000_000, end_us=border_us)
    after = replace(grant, start_us=hour_s * 1_000_000, end_us=border_us + 1)
    counted = [_gpu(bill(observe(use_of(range(20))), each))[0].granted_seconds for each in (before, after)]
    assert counted == [10, 11]


def test_b20_a_window_without_a_sample_never_runs_backwards(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant
) -> None:
    """cases.md A10 and A11 too: 76 s without a sample are 76 granted seconds, free; 15 min alive are 900 s."""
    (short,) = _gpu(bill(observe([]), make_grant(57, 133)))
    assert (short.granted_seconds, short.free_seconds, short.quantity, short.amount_nano) == (76, 76, 0, 0)
    (alive,) = _gpu(bill(observe(use_of(range(3600))), make_grant(297, 1_197)))
    assert alive.granted_seconds == 900


def test_b22_a_price_change_inside_a_grant_makes_two_rows(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, make_rate: MakeRate
) -> None:
    """2.40 until 10:30:15, then 3.00: the minute from 10:30:00 costs 0.01 + 0.0375."""
    old, new = make_rate("gpu", "2.40", end=1_815), make_rate("gpu", "3.00", start=1_815)
    charges = _gpu(bill(observe(use_of(range(3600))), make_grant(1_800, 1_860), rates=(old, new)))
    by_rate = {charge.rate_id: (charge.granted_seconds, charge.amount_nano) for charge in charges}
    assert by_rate == {old.rate_id: (15, 10_000_000), new.rate_id: (45, 37_500_000)}


def test_b24_a_charge_never_crosses_the_tenants_midnight(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, hour_s: int
) -> None:
    """At UTC+05:30 midnight falls into the middle of a UTC hour; each side has its own date."""
    assert hour_s % 86_400 == 10 * 3_600
    kolkata = {"acme": Tenant("acme", ZoneInfo("Asia/Kolkata"), "CNY", ((0, "retail"),))}
    rows = use_of(range(8 * 3_600, 9 * 3_600))
    evidence = observe(rows, start=8 * 3_600, end=9 * 3_600)
    charges = _gpu(bill(evidence, make_grant(0, None), tenants_=kolkata))
    assert [(charge.billing_date, charge.granted_seconds) for charge in charges] == [
        ("2026-03-01", 1_800),
        ("2026-03-02", 1_800),
    ]


def test_b26_a_name_that_is_reused_is_two_allocations(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant
) -> None:
    """10:00-10:10 and 10:20-10:30 are 600 s each under two ids, never 1,800."""
    first, second = make_grant(0, 600, allocation="a1"), make_grant(1_200, 1_800, allocation="a2")
    charges = _gpu(bill(observe(use_of(range(3600))), first, second))
    assert [(charge.allocation, charge.granted_seconds) for charge in charges] == [("a1", 600), ("a2", 600)]


def test_c29_to_c31_two_collectors_bill_one_second(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, make_rate: MakeRate
) -> None:
    """Identity is (card, instance, second): a pair of collectors, or one that sends all again, changes no charge."""
    rows, rates = use_of(range(100), 3 * GIB), (make_rate("vram", "1", basis=VramBasis.USED, unit="GiB-second"),)
    once = bill(observe(rows), make_grant(0, 100), rates=rates)
    assert bill(observe([*rows, *rows[::-1]]), make_grant(0, 100), rates=rates) == once
    assert [charge.quantity for charge in once if charge.dimension == "vram"] == [100 * 3 * GIB]


def test_c33_rating_again_adds_nothing(bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant) -> None:
    evidence, grants = observe(use_of(range(0, 3600, 2))), [make_grant(allocation=f"a{n}") for n in range(5)]
    first = bill(evidence, *grants)
    again = bill(evidence, *grants[::-1])
    assert first == again
    assert [each.charge_id for each in first] == [each.charge_id for each in again]
    assert len({each.charge_id for each in first}) == len(first)


def test_c41_the_grant_owns_the_time_not_the_label(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant
) -> None:
    """An owner's series lives on for 30 min: nothing is billed. It is missing while granted: that is billed."""
    share = make_grant(0, 600, kind=GrantKind.SHARE, compute_units=500, vram_bytes=4 * GIB)
    lingering = observe([*use_of(range(3600)), *use_of(range(600, 2_400), owner="alloc:a1")])
    for charge in bill(lingering, share):
        assert (charge.granted_seconds, charge.measured_seconds, charge.free_seconds) == (600, 600, 0)


def test_d43_an_hour_is_not_read_as_a_month(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, make_rate: MakeRate
) -> None:
    (charge,) = _gpu(bill(observe(use_of(range(3600))), make_grant(), rates=(make_rate("gpu", "0.95"),)))
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
        total += _gpu(bill(evidence, make_grant(0, None), rates=rates))[0].amount_nano
        pieces += _gpu(bill(evidence, make_grant(window[0], window[0] + 1_234), rates=rates))[0].amount_nano
    assert total == 59_760_000_000
    assert abs(pieces - Fraction("2.49") * 24 * 1_234 * NANO / 3_600) <= 12


@pytest.mark.parametrize(
    ("sizes", "gpu_seconds"), [([(4, 1_800), (1, 1_200)], 8_400), ([(1, 1_800), (4, 1_200)], 6_600)]
)
def test_a_change_of_size_inside_an_hour_is_billed_by_its_parts(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, sizes: list[tuple[int, int]], gpu_seconds: int
) -> None:
    """cases.md A1 and A2: 30 min at 4 and 20 min at 1 are 8,400 GPU-seconds; the other way 6,600."""
    grants, start = [], 0
    for part, (cards, seconds) in enumerate(sizes):
        grants += [
            make_grant(start, start + seconds, ordinal=10 * part + card, gpu_uuid=f"GPU-{card}")
            for card in range(cards)
        ]
        start += seconds
    rows = [row for card in range(4) for row in use_of(range(3600), gpu=f"GPU-{card}")]
    charges = _gpu(bill(observe(rows), *grants))
    assert sum(charge.quantity for charge in charges) == gpu_seconds * 1_000


def test_an_instance_is_billed_by_the_size_the_hardware_reports(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant
) -> None:
    """cases.md A4: a 1g.10gb of an A100 has 9,856 MiB, not the 10 GB of its name."""
    grant = make_grant(0, 100, mig_uuid="MIG-1", compute_units=14, vram_bytes=9_856 * 2**20, **A100)
    charges = bill(observe(use_of(range(100), 0, mig="MIG-1")), grant)
    assert [charge.quantity for charge in charges] == [14 * 100, 9_856 * 2**20 * 100]


def test_a_host_that_is_gone_is_not_sold(bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant) -> None:
    """cases.md A7: the stretch from ten seconds after it was last seen is visible as free, and grows no bill."""
    (charge,) = _gpu(bill(observe(use_of(range(100))), make_grant(0, None)))
    assert (charge.granted_seconds, charge.free_seconds, charge.quantity) == (3_600, 3_491, 109_000)


def test_uptime_does_not_depend_on_the_interval_of_samples(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant
) -> None:
    """cases.md A8: an hour with one sample a minute is 3,600 s on record, 60 of them measured."""
    (charge,) = _gpu(bill(observe(use_of(range(0, 3600, 60)), heard=[(0, 3600)]), make_grant()))
    assert (charge.granted_seconds, charge.measured_seconds, charge.quantity) == (3_600, 60, 3_600_000)


def test_a_share_is_measured_by_what_the_node_proved_to_be_its_own(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, make_rate: MakeRate
) -> None:
    """Not by what the card used, and not by the neighbour's series."""
    rates = (make_rate("vram", "1", "GiB-second", basis=VramBasis.USED),)
    shares = [make_grant(0, 10, allocation=f"a{n}", kind=GrantKind.SHARE, compute_units=250) for n in (1, 2, 3)]
    rows = [
        *use_of(range(10), 9 * GIB),
        *use_of(range(10), 2 * GIB, owner="alloc:a1"),
        *use_of(range(5), 3 * GIB, owner="alloc:a2"),
        *use_of(range(10), 4 * GIB, owner="unattributed"),
    ]
    charges = [c for c in bill(observe(rows), *shares, rates=rates) if c.dimension == "vram"]
    assert [(charge.quantity, charge.covered_seconds) for charge in charges] == [
        (10 * 2 * GIB, 10),
        (5 * 3 * GIB, 10),
        (0, 10),
    ]


@pytest.mark.parametrize(
    ("basis", "gib_seconds"), [(VramBasis.GRANTED, 40), (VramBasis.USED, 4 * 2 + 6 * 7), (VramBasis.MAX, 40 + 6 * 3)]
)
def test_the_basis_of_vram_says_which_bytes_count(
    bill: Bill,
    observe: Observe,
    use_of: UseOf,
    make_grant: MakeGrant,
    make_rate: MakeRate,
    basis: VramBasis,
    gib_seconds: int,
) -> None:
    """4 GiB granted; 2 used for 4 s, then 7 for 6 s: overuse is counted in the seconds it happened, not on average."""
    rates = (make_rate("vram", "1", "GiB-second", basis=basis),)
    rows = [*use_of(range(4), 2 * GIB), *use_of(range(4, 10), 7 * GIB)]
    charges = bill(observe(rows), make_grant(0, 10, vram_bytes=4 * GIB), rates=rates)
    assert [charge.quantity for charge in charges if charge.dimension == "vram"] == [gib_seconds * GIB]


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


def test_a_grant_without_a_device_is_billed_on_record(bill: Bill, observe: Observe, make_grant: MakeGrant) -> None:
    """Priced by its SKU, coverage null and not 0, whatever the node it names did."""
    grant = make_grant(0, 100, gpu_uuid=None, node="")
    charges = bill(observe([], node=""), grant)
    assert [(c.granted_seconds, c.on_record_seconds, c.covered_seconds) for c in charges] == [(100, 100, None)] * 2
    assert [charge.quantity for charge in charges] == [100_000, 100 * 24 * GIB]


def test_a_card_that_evidence_does_not_know_was_absent_and_not_sampled(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant
) -> None:
    """A grant on a card of no inventory shares what is known of its node, and is never measured."""
    evidence = observe(use_of(range(5), gpu="GPU-2"), end=20, heard=[(0, 6)])
    (charge,) = _gpu(bill(evidence, make_grant(0, 20, gpu_uuid="GPU-404")))
    # Others sampled: free; heard from until 16: on record; then nothing.
    assert (charge.free_seconds, charge.on_record_seconds, charge.measured_seconds) == (5 + 4, 11, 0)
    assert charge.covered_seconds == 0


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
    at_us = grant.start_us + 10_000_000
    tenants = {"acme": Tenant("acme", ZoneInfo("UTC"), "CNY", ((0, "old"), (at_us, "new")))}
    charges = _gpu(rate(observe([], heard=[(0, 60)]), [grant], tenants, books))
    assert {charge.rate_id: (charge.on_record_seconds, charge.free_seconds) for charge in charges} == {
        old.rate_id: (10, 0),
        new.rate_id: (0, 10),
    }


def test_the_price_of_a_second_is_the_one_in_force_at_it(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, make_rate: MakeRate
) -> None:
    """A change at .5 of a second: that second began before it and keeps the old price."""
    old, new = make_rate("gpu", "1", end=9.5), make_rate("gpu", "2", start=9.5)
    charges = _gpu(bill(observe(use_of(range(20))), make_grant(0, 20), rates=(old, new)))
    assert {charge.rate_id: charge.granted_seconds for charge in charges} == {old.rate_id: 10, new.rate_id: 10}


def test_one_charge_per_rate_however_often_it_comes_and_goes(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, make_rate: MakeRate
) -> None:
    """A natural key has no start: two stretches of one rate inside a window are one row, rounded once."""
    general, special = make_rate("gpu", "1"), make_rate("gpu", "0.5", tenant="acme", start=10, end=20)
    charges = _gpu(bill(observe(use_of(range(30))), make_grant(0, 30), rates=(general, special)))
    assert {charge.rate_id: charge.granted_seconds for charge in charges} == {general.rate_id: 20, special.rate_id: 10}


@pytest.mark.parametrize(("start", "end"), [(5, 5), (-10, 0), (3_600, 3_700), (9.2, 9.8)])
def test_a_grant_that_holds_no_second_of_the_window_has_no_charge(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, start: float, end: float
) -> None:
    assert bill(observe(use_of(range(3600))), make_grant(start, end)) == []
