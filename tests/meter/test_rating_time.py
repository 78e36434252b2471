"""Which seconds are billed: public billing bugs with a right answer, each named by its case in the notes."""

from zoneinfo import ZoneInfo

import pytest

from domain.grants import GrantKind
from domain.prices import VramBasis
from domain.tenants import Tenant
from domain.units import GIB
from tests.meter.charges import gpu_charges, vram_charges
from tests.meter.fixture_types import Bill, MakeGrant, MakeRate, Observe, UseOf
from tests.meter.hour import HOUR_S, instant_us


def test_b16_the_tail_after_the_last_sample_is_billed(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant
) -> None:
    """Life 100 s, samples at 0 and 60 s, the node heard from: 100 s, not 60."""
    evidence = observe(use_of([0, 60]), heard=[(0, 200)])
    (charge,) = gpu_charges(bill(evidence, make_grant(0, 100)))
    assert (charge.granted_seconds, charge.measured_seconds, charge.on_record_seconds) == (100, 2, 98)
    assert charge.quantity == 100_000


@pytest.mark.parametrize(("start", "end", "seconds"), [(0, 899.98, 900), (0.02, 900, 899), (0.02, 900.02, 900)])
def test_b17_a_window_is_not_cut_to_minutes(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, start: float, end: float, seconds: int
) -> None:
    (charge,) = gpu_charges(bill(observe(use_of(range(3600))), make_grant(start, end)))
    assert (charge.granted_seconds, charge.measured_seconds) == (seconds, seconds)


def test_b18_grants_and_samples_meet_on_whole_seconds(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant
) -> None:
    """A grant from .918285 on holds the next second's sample and not the one that was cut to .918."""
    (charge,) = gpu_charges(bill(observe(use_of([0, 1])), make_grant(0.918285, 2)))
    assert (charge.granted_seconds, charge.measured_seconds) == (1, 1)


def test_b19_the_instant_keeps_its_microseconds(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant
) -> None:
    border_us = instant_us(10)
    before, after = make_grant(0, end_us=border_us), make_grant(0, end_us=border_us + 1)
    counted = [gpu_charges(bill(observe(use_of(range(20))), each))[0].granted_seconds for each in (before, after)]
    assert counted == [10, 11]


def test_b20_a_window_without_a_sample_never_runs_backwards(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant
) -> None:
    """76 s without a sample are 76 granted seconds, free; 15 min alive are 900 s (OpenCost 2096, OpenCost 4057)."""
    (short,) = gpu_charges(bill(observe([]), make_grant(57, 133)))
    assert (short.granted_seconds, short.free_seconds, short.quantity, short.amount_nano) == (76, 76, 0, 0)
    (alive,) = gpu_charges(bill(observe(use_of(range(3600))), make_grant(297, 1_197)))
    assert alive.granted_seconds == 900


def test_b24_a_charge_never_crosses_the_tenants_midnight(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant
) -> None:
    """At UTC+05:30 midnight falls into the middle of a UTC hour; each side has its own date."""
    assert HOUR_S % 86_400 == 10 * 3_600
    kolkata = {"acme": Tenant("acme", ZoneInfo("Asia/Kolkata"), "CNY", ((0, "retail"),))}
    rows = use_of(range(8 * 3_600, 9 * 3_600))
    evidence = observe(rows, start=8 * 3_600, end=9 * 3_600)
    charges = gpu_charges(bill(evidence, make_grant(0, None), tenants_=kolkata))
    assert [(charge.billing_date, charge.granted_seconds) for charge in charges] == [
        ("2026-03-01", 1_800),
        ("2026-03-02", 1_800),
    ]


def test_a_grant_that_changes_its_size_inside_a_second_changes_with_the_next(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant
) -> None:
    """A quarter until 10:30:00.4, then half: that second is the old size's to its end, in compute and in VRAM."""
    small = make_grant(0, 1_800.4, kind=GrantKind.SHARE, compute_units=250, vram_bytes=6 * GIB)
    large = make_grant(1_800.4, 3_600, ordinal=1, kind=GrantKind.SHARE, compute_units=500, vram_bytes=12 * GIB)
    charges = bill(observe(use_of(range(3600))), small, large)
    assert [charge.quantity for charge in gpu_charges(charges)] == [1_801 * 250, 1_799 * 500]
    assert [charge.quantity for charge in vram_charges(charges)] == [1_801 * 6 * GIB, 1_799 * 12 * GIB]


def test_a_grant_across_the_seam_of_two_windows_has_each_second_in_one_of_them(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant
) -> None:
    """From .5 before the hour to .5 after it, it holds the second that begins with the new hour, and no other."""
    rows = use_of(range(3_500, 3_700))
    first, second = observe(rows), observe(rows, start=3_600, end=7_200)
    assert bill(first, make_grant(3_599.5, 3_600.5)) == []
    (charge,) = gpu_charges(bill(second, make_grant(3_599.5, 3_600.5)))
    assert (charge.window_start_us, charge.granted_seconds) == (instant_us(3_600), 1)
    parts = [gpu_charges(bill(each, make_grant(3_590.5, 3_605.5)))[0].granted_seconds for each in (first, second)]
    assert parts == [9, 6]


def test_a_grant_that_ends_inside_the_last_second_before_midnight_is_of_the_old_day(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant
) -> None:
    """Kathmandu's midnight is 18:15Z; up to .999 before it there is one day, a microsecond after it there are two."""
    midnight = 8 * 3_600 + 900
    kathmandu = {"acme": Tenant("acme", ZoneInfo("Asia/Kathmandu"), "CNY", ((0, "retail"),))}
    evidence = observe(use_of(range(midnight - 900, midnight + 900)), start=8 * 3_600, end=9 * 3_600)
    dates = [
        [
            (charge.billing_date, charge.granted_seconds)
            for charge in gpu_charges(bill(evidence, make_grant(midnight - 10.5, end), tenants_=kathmandu))
        ]
        for end in (midnight - 0.001, midnight, midnight + 0.000001)
    ]
    assert dates == [[("2026-03-01", 10)], [("2026-03-01", 10)], [("2026-03-01", 10), ("2026-03-02", 1)]]


def test_b26_a_name_that_is_reused_is_two_allocations(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant
) -> None:
    """10:00-10:10 and 10:20-10:30 are 600 s each under two ids, never 1,800."""
    first, second = make_grant(0, 600, allocation="a1"), make_grant(1_200, 1_800, allocation="a2")
    charges = gpu_charges(bill(observe(use_of(range(3600))), first, second))
    assert [(charge.allocation, charge.granted_seconds) for charge in charges] == [("a1", 600), ("a2", 600)]


def test_c29_to_c31_two_collectors_bill_one_second(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, make_rate: MakeRate
) -> None:
    """Identity is (card, instance, second): a pair of collectors, or one that sends all again, changes no charge."""
    rows, rates = use_of(range(100), 3 * GIB), (make_rate("vram", "1", basis=VramBasis.USED, unit="GiB-second"),)
    once = bill(observe(rows), make_grant(0, 100), rates=rates)
    assert bill(observe([*rows, *rows[::-1]]), make_grant(0, 100), rates=rates) == once
    assert [charge.quantity for charge in vram_charges(once)] == [100 * 3 * GIB]


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


def test_a_host_that_is_gone_is_not_sold(bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant) -> None:
    """The stretch from ten seconds after it was last seen is visible as free, and grows no bill (gpustack 6279)."""
    (charge,) = gpu_charges(bill(observe(use_of(range(100))), make_grant(0, None)))
    assert (charge.granted_seconds, charge.free_seconds, charge.quantity) == (3_600, 3_491, 109_000)


def test_uptime_does_not_depend_on_the_interval_of_samples(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant
) -> None:
    """An hour with one sample a minute is 3,600 s on record, 60 of them measured (koku-metrics-operator 938)."""
    (charge,) = gpu_charges(bill(observe(use_of(range(0, 3600, 60)), heard=[(0, 3600)]), make_grant()))
    assert (charge.granted_seconds, charge.measured_seconds, charge.quantity) == (3_600, 60, 3_600_000)


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
    (charge,) = gpu_charges(bill(evidence, make_grant(0, 20, gpu_uuid="GPU-404")))
    # Others sampled: free; heard from until 16: on record; then nothing.
    assert (charge.free_seconds, charge.on_record_seconds, charge.measured_seconds) == (5 + 4, 11, 0)
    assert charge.covered_seconds == 0


@pytest.mark.parametrize(("start", "end"), [(5, 5), (-10, 0), (3_600, 3_700), (9.2, 9.8)])
def test_a_grant_that_holds_no_second_of_the_window_has_no_charge(
    bill: Bill, observe: Observe, use_of: UseOf, make_grant: MakeGrant, start: float, end: float
) -> None:
    assert bill(observe(use_of(range(3600))), make_grant(start, end)) == []
