"""What a charge is made of: stretches that follow each other, each with its reason, and a sum that is the charge."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.grants import Grant, GrantKind
from domain.prices import PriceBook, VramBasis
from domain.tenants import Tenant
from domain.units import GIB
from meter.evidence.evidence import Evidence
from meter.evidence.presence import Presence
from meter.rating.charges import Charge
from meter.rating.explaining import ExplainedStretch, explain
from meter.rating.gaps import GapClass
from meter.rating.rating import rate
from tests.meter.charges import gpu_charges, vram_charges
from tests.meter.facts import make_grant, make_rate, observe, use_of
from tests.meter.fixture_types import MakeBook
from tests.meter.hour import HOUR_S
from tests.meter.runs import SAMPLES

Explained = list[tuple[int, int, str, str, int | None]]
Explain = Callable[..., Explained]


def _told(stretches: Sequence[ExplainedStretch]) -> Explained:
    return [
        (
            each.start_s - HOUR_S,
            each.end_s - HOUR_S,
            "" if each.presence is None else each.presence.name,
            each.gap.value,
            each.used_bytes,
        )
        for each in stretches
    ]


@pytest.fixture
def told(make_book: MakeBook, tenants: dict[str, Tenant]) -> Explain:
    """The stretches of one charge, of the allocation and dimension that it is for."""

    def of(evidence: Evidence, *grants: Grant, charged: tuple[str, str] = ("a1", "gpu"), **options: Any) -> Explained:
        books = make_book()
        charges = rate(evidence, grants, tenants, books)
        (charge,) = (each for each in charges if (each.allocation, each.dimension) == charged)
        return _told(explain(charge, evidence, grants, tenants, books, **options))

    return of


def test_each_stretch_says_what_was_observed_and_what_it_counts_for(told: Explain) -> None:
    """Sampled, a hole that is bridged, sampled, lost, then nothing: still heard of at first, then no more."""
    rows = [*use_of(range(10)), *use_of(range(12, 20), 2 * GIB), ("gpu_up", "GPU-1", "", "", 20, 0)]
    evidence = observe(rows, end=60, heard=[(0, 20)], devices=[("GPU-1", "")])
    assert told(evidence, make_grant(0, 60)) == [
        (0, 10, "SAMPLED", "measured", GIB),
        (10, 12, "COLLECTOR_DOWN", "bridged", None),
        (12, 20, "SAMPLED", "measured", 2 * GIB),
        (20, 21, "LOST", "free", None),
        (21, 30, "COLLECTOR_DOWN", "on_record", None),
        (30, 60, "HOST_UNREACHABLE", "free", None),
    ]


def test_a_reading_that_no_card_can_have_made_is_told_where_it_was(
    make_book: MakeBook, tenants: dict[str, Tenant]
) -> None:
    """Garbage is another thing than no reading, and than a reading of 0."""
    rows = [
        *use_of([0, 1], 0),
        ("gpu_up", "GPU-1", "", "", 2, 1.0),
        ("gpu_memory_used_bytes", "GPU-1", "", "", 2, -5.0),
    ]
    evidence = observe([*rows, ("gpu_up", "GPU-1", "", "", 3, 1.0)], end=4)
    grant, books = make_grant(0, 4), make_book()
    (charge,) = vram_charges(rate(evidence, [grant], tenants, books))
    stretches = explain(charge, evidence, [grant], tenants, books)
    assert [(each.seconds, each.used_bytes, each.quarantined) for each in stretches] == [
        (2, 0, 0),
        (1, None, 1),
        (1, None, 0),
    ]


def test_a_line_for_each_second_is_the_same_in_more_lines(told: Explain) -> None:
    evidence = observe(use_of(range(5)), end=10, heard=[(0, 5)])
    by_second = told(evidence, make_grant(0, 10), by_second=True)
    assert [(start, end) for start, end, *_ in by_second] == [(second, second + 1) for second in range(10)]
    assert [what for *_, what, _ in by_second] == ["measured"] * 5 + ["on_record"] * 5


def test_a_share_is_explained_by_what_was_proved_to_be_its_own(told: Explain) -> None:
    rows = [
        *use_of(range(10), 20 * GIB),
        *use_of(range(10), 3 * GIB, owner="alloc:a1"),
        *use_of(range(10), GIB, owner="alloc:a2"),
    ]
    shares = [
        make_grant(0, 10, allocation=name, kind=GrantKind.SHARE, compute_units=500, vram_bytes=12 * GIB)
        for name in ("a1", "a2")
    ]
    assert told(observe(rows, end=10), *shares, charged=("a1", "vram")) == [(0, 10, "SAMPLED", "measured", 3 * GIB)]
    assert told(observe(rows, end=10), *shares, charged=("a2", "vram")) == [(0, 10, "SAMPLED", "measured", GIB)]


def test_who_was_on_the_card_and_how_busy_it_was_is_told(make_book: MakeBook, tenants: dict[str, Tenant]) -> None:
    busy = [("gpu_busy_ratio", "GPU-1", "", "", second, 0.25) for second in (0, 1)]
    owned = [*use_of([1, 2], GIB, owner="alloc:a1"), *use_of([2], GIB, owner="unattributed")]
    evidence = observe([*use_of(range(3), 2 * GIB), *busy, *owned], end=3)
    grant, books = make_grant(0, 3), make_book()
    (charge,) = gpu_charges(rate(evidence, [grant], tenants, books))
    stretches = explain(charge, evidence, [grant], tenants, books)
    assert [(each.busy_millionths, each.owners) for each in stretches] == [
        (250_000, ()),
        (250_000, ("alloc:a1",)),
        (None, ("alloc:a1", "unattributed")),
    ]


def test_a_grant_without_a_device_is_on_record_and_nothing_was_observed(told: Explain) -> None:
    record = make_grant(0, 60, gpu_uuid=None)
    assert told(observe([], node=""), record) == [(0, 60, "", "on_record", None)]


def test_a_card_that_nobody_ever_spoke_of_is_explained_by_its_node(told: Explain) -> None:
    evidence = observe(use_of(range(10), gpu="GPU-2"), end=20, heard=[(0, 20)])
    assert told(evidence, make_grant(0, 20)) == [
        (0, 10, "ABSENT", "free", None),
        (10, 20, "COLLECTOR_DOWN", "on_record", None),
    ]


def test_a_charge_that_no_grant_makes_is_explained_by_nothing(make_book: MakeBook, tenants: dict[str, Tenant]) -> None:
    evidence, books = observe(use_of(range(10)), end=10), make_book()
    charge = gpu_charges(rate(evidence, [make_grant(0, 10)], tenants, books))[0]
    assert explain(charge, evidence, [make_grant(0, 10, allocation="a2")], tenants, books) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=SAMPLES,
    spans=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30)), min_size=1, max_size=3),
    by_second=st.booleans(),
)
def test_the_quantities_of_any_charge_sum_to_it(
    make_book: MakeBook, tenants: dict[str, Tenant], rows: list[Any], spans: list[tuple[int, int]], by_second: bool
) -> None:
    """Whatever was observed, and with prices that change meanwhile; the stretches are the seconds that were granted."""
    grants = [
        make_grant(start, start + length, allocation=f"a{number}", gpu_uuid=f"GPU-{number % 2 + 1}")
        for number, (start, length) in enumerate(spans)
    ]
    rates = (
        make_rate("gpu", "2.20", end=15),
        make_rate("gpu", "3.30", start=15),
        make_rate("vram", "0.03", "GiB-hour", basis=VramBasis.MAX),
        make_rate("vram_overuse", "0.5", "GiB-hour"),
    )
    books: dict[str, PriceBook] = make_book(*rates)
    evidence = observe(rows, end=60, heard=[(0, 30)])
    charges: list[Charge] = rate(evidence, grants, tenants, books)
    for charge in charges:
        stretches = explain(charge, evidence, grants, tenants, books, by_second=by_second)
        assert sum(each.quantity for each in stretches) == charge.quantity
        assert sum(each.seconds for each in stretches) == charge.granted_seconds
        for gap in GapClass:
            seconds = sum(each.seconds for each in stretches if each.gap is gap)
            assert seconds == getattr(charge, f"{gap.value}_seconds")
        assert {each.rate for each in stretches} == {next(r for r in rates if r.rate_id == charge.rate_id)}
        assert all(each.presence in (None, *Presence) for each in stretches)
