"""Dividing spend by day and by one thing more, and what is drawn and written of it."""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.money import NANO
from meter.bills.spend import SpendRow
from streamlit_app.amounts import exact, shown
from streamlit_app.breakdown import Breakdown, Grouping, break_down
from streamlit_app.chart import GROUPS_MAX, spend_chart
from streamlit_app.spend_table import spend_table
from tests.meter.spend_rows import CENT, make_row

FIRST, LAST = date(2026, 2, 27), date(2026, 3, 2)
DAYS = ("2026-02-27", "2026-02-28", "2026-03-01", "2026-03-02")
FAR = date(2027, 1, 1)


def _row(tenant: str, cents: int, day: str = "2026-03-01", **changes: Any) -> SpendRow:
    return make_row(tenant=tenant, billing_date=day, payable_nano=cents * CENT, **changes)


def _one(*rows: SpendRow, grouping: Grouping = Grouping.TENANT) -> Breakdown:
    (found,) = break_down(rows, FIRST, LAST, grouping)
    return found


def _many(number: int) -> Breakdown:
    """Tenants t00, t01 and so on, each with less than the one before it."""
    return _one(*(_row(f"t{each:02}", 100 - each) for each in range(number)))


def test_every_day_of_the_range_is_there_and_an_empty_one_is_not_0() -> None:
    found = _one(_row("acme", 5), _row("acme", 7), _row("globex", 0, "2026-02-28"))
    assert found.days == DAYS
    assert found.groups == ("acme", "globex")
    assert [found.day_nano(day) for day in DAYS] == [None, 0, 12 * CENT, None]
    assert [found.group_nano(group) for group in found.groups] == [12 * CENT, 0]
    assert found.total_nano == 12 * CENT


def test_groups_come_by_falling_total_and_equal_ones_by_name() -> None:
    assert _one(_row("b", 5), _row("c", 9), _row("a", 5)).groups == ("c", "a", "b")


def test_a_currency_has_a_breakdown_of_its_own() -> None:
    """Although a tenant of each is called the same here."""
    found = break_down([_row("acme", 5, currency="USD"), _row("acme", 7)], FIRST, LAST, Grouping.TENANT)
    assert [(each.currency, each.total_nano) for each in found] == [("CNY", 7 * CENT), ("USD", 5 * CENT)]
    assert break_down([], FIRST, LAST, Grouping.TENANT) == []


@pytest.mark.parametrize(
    ("tenants", "grouping", "groups"),
    [
        ("ab", Grouping.TENANT, ("a", "b")),
        ("ab", Grouping.PROJECT, ("a/p", "b/p")),
        ("aa", Grouping.PROJECT, ("p",)),
        ("ab", Grouping.DIMENSION, ("gpu",)),
    ],
)
def test_a_group_is_named_after_what_it_is(tenants: str, grouping: Grouping, groups: tuple[str, ...]) -> None:
    assert _one(*(_row(tenant, 1) for tenant in tenants), grouping=grouping).groups == groups


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3), st.integers(0, 10**12))), st.integers(1, 12))
def test_no_cent_is_lost_among_the_others(cells: list[tuple[int, int, int]], most: int) -> None:
    rows = [_row(f"t{tenant}", cents, DAYS[day]) for tenant, day, cents in cells]
    for found in break_down(rows, FIRST, LAST, Grouping.TENANT):
        largest = found.largest(most)
        assert largest.total_nano == found.total_nano == sum(row.payable_nano for row in rows)
        assert [largest.day_nano(day) for day in DAYS] == [found.day_nano(day) for day in DAYS]
        assert len(largest.groups) <= most + 1


def test_the_smallest_groups_are_drawn_as_one_where_there_are_many() -> None:
    """Nine and the others; ten are drawn as they are, since one other has a name."""
    assert [bar.name for bar in spend_chart(_many(10), zone="UTC", draft_from=FAR).data] == list(_many(10).groups)
    figure = spend_chart(_many(13), zone="UTC", draft_from=FAR)
    assert [bar.name for bar in figure.data] == [*(f"t{each:02}" for each in range(GROUPS_MAX)), "4 others"]
    assert figure.data[-1].customdata[2] == shown(sum(100 - each for each in range(9, 13)) * CENT, "CNY") == "3.58"
    assert figure.data[-1].y[0] is None


def test_the_table_has_every_group_however_many_there_are() -> None:
    frame, headings = spend_table(_many(13))
    assert frame.width == 2 + 13
    assert [heading["label"] for heading in headings.values()][2:] == [f"t{each:02}" for each in range(13)]


def test_a_day_that_has_not_settled_is_hatched() -> None:
    figure = spend_chart(_one(_row("acme", 5)), zone="UTC", draft_from=date(2026, 3, 1))
    assert figure.data[0].marker.pattern.shape == ("", "", "/", "/")


def test_what_a_bar_says_is_exact_where_its_height_is_not() -> None:
    """More cents than a float can count."""
    cents = 2**60 + 1
    figure = spend_chart(_one(_row("acme", cents)), zone="UTC", draft_from=FAR)
    assert figure.data[0].customdata[2] == "11,529,215,046,068,469.77"
    assert figure.data[0].hovertemplate == "%{customdata} CNY"


def test_the_table_holds_exact_decimals_with_the_digits_of_the_currency() -> None:
    frame, headings = spend_table(_one(_row("acme", 5), _row("total", 2**60 + 1, "2026-02-28")))
    assert frame["day"].to_list() == ["total", *reversed(DAYS)]
    assert frame["sum"].to_list() == [
        Decimal("11529215046068469.82"),
        None,
        Decimal("0.05"),
        Decimal("11529215046068469.77"),
        None,
    ]
    assert [heading["label"] for heading in headings.values()] == ["billing day", "total, CNY", "total", "acme"]
    assert headings["sum"]["type_config"]["format"] == "%,.2f"


@pytest.mark.parametrize(
    ("amount_nano", "currency", "text"),
    [
        (1_234_500_000_000, "CNY", "1,234.50"),
        (1_234 * NANO, "JPY", "1,234"),
        (1_234_567_000_000, "KWD", "1,234.567"),
        (0, "USD", "0.00"),
    ],
)
def test_amounts_have_the_digits_of_their_currency(amount_nano: int, currency: str, text: str) -> None:
    assert shown(amount_nano, currency) == text
    assert exact(amount_nano, currency) == Decimal(amount_nano) / NANO
