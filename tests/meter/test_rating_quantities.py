"""How much of a card a charge is for: public billing bugs with a right answer, named by their case in the notes."""

from fractions import Fraction

import pytest

from domain.grants import GrantKind
from domain.prices import VramBasis
from domain.units import GIB, MIB
from meter.evidence.evidence import MILLION
from tests.meter.charges import gpu_charges, vram_charges
from tests.meter.fixture_types import Bill, MakeGrant, MakeRate, Observe, UseOf

A100 = {"model": "NVIDIA A100-SXM4-80GB", "sku": "a100-80g/3g.40gb", "kind": GrantKind.MIG, "compute_units_total": 98}


def test_a1_replicas_do_not_multiply_the_card(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, make_rate: MakeRate
) -> None:
    """Four quarters of a card at 0.48 an hour cost 0.12 each and 0.48 together."""
    quarters = [make_grant(allocation=f"a{n}", kind=GrantKind.SHARE, compute_units=250) for n in range(4)]
    charges = gpu_charges(bill(observe(use_of(range(3600))), *quarters, rates=(make_rate("gpu", "0.48"),)))
    assert [charge.amount_nano for charge in charges] == [120_000_000] * 4
    assert sum(Fraction(charge.quantity, charge.quantity_whole) for charge in charges) == 3_600


def test_a2_a_fraction_is_not_read_as_the_whole_card(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant
) -> None:
    """25 % of the cores for an hour is a quarter of a GPU-hour, alone or not (OpenCost 3828)."""
    (charge,) = gpu_charges(bill(observe(use_of(range(3600))), make_grant(kind=GrantKind.SHARE, compute_units=250)))
    assert (charge.granted_seconds, charge.quantity, charge.quantity_whole) == (3_600, 900_000, 1_000)
    assert charge.amount_nano == 550_000_000


def test_a5_two_slices_are_priced_by_their_sms(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, make_rate: MakeRate
) -> None:
    """3.00 an hour x 42 of 98 SMs each; what no profile can use beside them is nobody's charge."""
    grants = [
        make_grant(allocation=f"a{n}", mig_uuid=f"MIG-{n}", compute_units=42, vram_bytes=40_192 * MIB, **A100)
        for n in (1, 2)
    ]
    rows = [*use_of(range(3600)), *use_of(range(3600), mig="MIG-1"), *use_of(range(3600), mig="MIG-2")]
    charges = gpu_charges(bill(observe(rows), *grants, rates=(make_rate("gpu", "3.00"),)))
    assert [charge.amount_nano for charge in charges] == [1_285_714_286] * 2
    assert sum(Fraction(charge.quantity, charge.quantity_whole) * 3 / 3_600 for charge in charges) == Fraction(18, 7)


def test_a13_what_was_granted_and_what_was_busy_are_two_numbers(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant
) -> None:
    """An hour at 10 % is 3,600 granted and 360 busy seconds (koku-metrics-operator 938, OpenCost 3900)."""
    rows = [*use_of(range(3600)), *(("gpu_busy_ratio", "GPU-1", "", "", second, 0.1) for second in range(3600))]
    evidence = observe(rows)
    (charge,) = gpu_charges(bill(evidence, make_grant()))
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
    assert [charge.quantity for charge in vram_charges(charges)] == [10 * 4 * GIB]


def test_a14_a_record_that_does_not_name_its_instance_is_not_measured_by_the_card(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, make_rate: MakeRate
) -> None:
    """Imported MIG records may lack the instance: what it used is not known, and is not what the card used."""
    grant = make_grant(mig_uuid=None, compute_units=42, vram_bytes=10 * GIB, **A100)
    rates = (make_rate("vram", "1", "GiB-second", basis=VramBasis.MAX),)
    charges = bill(observe(use_of(range(10), 30 * GIB), end=10), grant, rates=rates)
    (vram,) = vram_charges(charges)
    assert (vram.quantity, vram.covered_seconds, vram.measured_seconds) == (10 * 10 * GIB, 0, 10)


def test_a15_a_sentinel_changes_no_charge(bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant) -> None:
    """Blank on MIG, or 9223372036854775807 %, is neither 0 nor a number."""
    rows = use_of(range(100))
    odd = [("gpu_busy_ratio", "GPU-1", "", "", second, 9.223372036854776e18) for second in range(100)]
    assert bill(observe([*rows, *odd], end=100), make_grant()) == bill(observe(rows, end=100), make_grant())


def test_an_instance_is_billed_by_the_size_the_hardware_reports(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant
) -> None:
    """A 1g.10gb of an A100 has 9,856 MiB, not the 10 GB of its name (gpustack 6054)."""
    grant = make_grant(0, 100, mig_uuid="MIG-1", compute_units=14, vram_bytes=9_856 * MIB, **A100)
    charges = bill(observe(use_of(range(100), 0, mig="MIG-1")), grant)
    assert [charge.quantity for charge in charges] == [14 * 100, 9_856 * MIB * 100]


@pytest.mark.parametrize(
    ("sizes", "gpu_seconds"), [([(4, 1_800), (1, 1_200)], 8_400), ([(1, 1_800), (4, 1_200)], 6_600)]
)
def test_a_change_of_size_inside_an_hour_is_billed_by_its_parts(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, sizes: list[tuple[int, int]], gpu_seconds: int
) -> None:
    """30 min at 4 and 20 min at 1 are 8,400 GPU-seconds; the other way 6,600 (gpustack 6054)."""
    grants, start = [], 0
    for part, (cards, seconds) in enumerate(sizes):
        grants += [
            make_grant(start, start + seconds, ordinal=10 * part + card, gpu_uuid=f"GPU-{card}")
            for card in range(cards)
        ]
        start += seconds
    rows = [row for card in range(4) for row in use_of(range(3600), gpu=f"GPU-{card}")]
    charges = gpu_charges(bill(observe(rows), *grants))
    assert sum(charge.quantity for charge in charges) == gpu_seconds * 1_000


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
    charges = vram_charges(bill(observe(rows), *shares, rates=rates))
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
    assert [charge.quantity for charge in vram_charges(charges)] == [gib_seconds * GIB]


def test_readings_of_any_size_sum_to_the_last_byte(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, make_rate: MakeRate
) -> None:
    """The largest valid reading for three hours is more byte-seconds than 64 bits hold, where polars would wrap."""
    largest, seconds = 2**50 - 1, range(10_800)
    rates = (make_rate("vram", "1", basis=VramBasis.USED, unit="GiB-hour"), make_rate("vram_overuse", "1", "GiB-hour"))
    evidence = observe(use_of(seconds, largest), end=10_800)
    charges = bill(evidence, make_grant(0, None, vram_bytes=1), rates=rates)
    assert [charge.quantity for charge in charges if charge.dimension != "gpu"] == [
        10_800 * largest,
        10_800 * (largest - 1),
    ]
    assert 10_800 * (largest - 1) > 2**63


def test_the_largest_grants_divide_the_largest_reading_of_their_owner_to_the_last_byte(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, make_rate: MakeRate
) -> None:
    """A reading times the VRAM it is divided by is beyond 64 bits; the parts still sum to it."""
    rates = (make_rate("vram", "1", basis=VramBasis.USED, unit="GiB-hour"),)
    shares = [make_grant(0, 10, ordinal=n, kind=GrantKind.SHARE, vram_bytes=2**63 - 1 - n) for n in range(3)]
    rows = [*use_of(range(10)), *use_of(range(10), 2**50 - 1, owner="alloc:a1")]
    parts = [charge.quantity for charge in vram_charges(bill(observe(rows), *shares, rates=rates))]
    assert parts == [10 * (2**50 // 3), 10 * (2**50 // 3), 10 * (2**50 // 3)]
    assert sum(parts) == 10 * (2**50 - 1)
