"""Whose days and whose prices: a tenant's midnights and the books it was rated by."""

from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from domain.period import Period, parse_instant
from domain.tenants import Tenant

_instants = st.integers(0, 10**6)


def test_a_window_is_cut_at_the_tenants_midnight_only() -> None:
    """At UTC+9 the day ends at 15:00Z, so that hour has two billing dates (Lago 879)."""
    tenant = Tenant("acme", ZoneInfo("Asia/Tokyo"), "JPY", ())
    window = Period(parse_instant("2026-03-01T14:30:00Z"), parse_instant("2026-03-01T15:30:00Z"))
    cut_us = parse_instant("2026-03-01T15:00:00Z")
    assert list(tenant.days(window)) == [
        (Period(window.start_us, cut_us), "2026-03-01"),
        (Period(cut_us, window.end_us), "2026-03-02"),
    ]


def test_an_empty_period_has_no_days() -> None:
    assert list(Tenant("acme", ZoneInfo("UTC"), "CNY", ()).days(Period(5, 5))) == []


def test_the_book_is_the_one_last_assigned() -> None:
    tenant = Tenant("acme", ZoneInfo("UTC"), "CNY", ((10, "old"), (20, "new")))
    assert list(tenant.books_over(Period(0, 30))) == [
        (Period(0, 10), None),
        (Period(10, 20), "old"),
        (Period(20, 30), "new"),
    ]
    assert list(tenant.books_over(Period(10, 20))) == [(Period(10, 20), "old")]


def test_a_tenant_without_a_book_has_none() -> None:
    assert list(Tenant("acme", ZoneInfo("UTC"), "CNY", ()).books_over(Period(0, 30))) == [(Period(0, 30), None)]


@given(st.lists(_instants, max_size=5, unique=True), _instants, st.integers(1, 10**6))
def test_each_instant_has_the_book_of_the_latest_start(starts: list[int], from_us: int, length_us: int) -> None:
    books = tuple((start, f"book{start}") for start in sorted(starts))
    period = Period(from_us, from_us + length_us)
    parts = list(Tenant("acme", ZoneInfo("UTC"), "CNY", books).books_over(period))
    assert [part.start_us for part, _ in parts] == [period.start_us, *(part.end_us for part, _ in parts[:-1])]
    assert parts[-1][0].end_us == period.end_us
    for part, book in parts:
        for instant_us in (part.start_us, part.end_us - 1):
            latest = [start for start in starts if start <= instant_us]
            assert book == (f"book{max(latest)}" if latest else None)
