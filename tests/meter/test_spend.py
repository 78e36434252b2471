"""Spend by day adds up to the invoice, line by line, in what can be paid."""

from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.money import minor_unit_nano
from domain.tenants import Tenant
from meter.bills.invoices import draft_invoice
from meter.bills.spend import SpendRow, coverage, with_payables
from meter.rating.charges import Charge
from tests.meter.charges import make_charge
from tests.meter.spend_rows import CENT, make_row


def payables(*rows: SpendRow) -> list[int]:
    """In cents."""
    return [row.payable_nano // CENT for row in with_payables(rows)]


CHARGES = st.lists(
    st.builds(
        make_charge,
        billing_date=st.sampled_from(["2026-03-01", "2026-03-02", "2026-03-03"]),
        project=st.sampled_from(["p", "q"]),
        dimension=st.sampled_from(["gpu", "vram"]),
        rate_id=st.just("rate_1"),
        quantity_whole=st.sampled_from([1_000, 98]),
        amount_nano=st.integers(0, 10 * CENT) | st.integers(0, 2**62),
    ),
    min_size=1,
    max_size=40,
)


@given(CHARGES, st.sampled_from(["CNY", "JPY", "KWD"]))
@settings(max_examples=settings().max_examples * 2)
def test_the_days_of_each_invoice_line_add_up_to_it(charges: list[Charge], currency: str) -> None:
    """To the last cent, fen, yen or fils: whoever adds up the page by project or dimension finds the invoice."""
    tenant = Tenant("acme", ZoneInfo("UTC"), currency, ())
    rates: Any = {"rate_1": None}
    invoice = draft_invoice(tenant, "2026-03-01", "2026-03-31", charges, rates, {})
    rows = [
        make_row(
            **{name: getattr(charge, name) for name in ("billing_date", "project", "dimension", "quantity_whole")},
            amount_nano=charge.amount_nano,
            currency=currency,
        )
        for charge in charges
    ]
    by_line: dict[tuple[str, str, int], int] = {}
    for row in with_payables(rows):
        assert row.payable_nano % minor_unit_nano(currency) == 0
        assert abs(row.payable_nano - row.amount_nano) < minor_unit_nano(currency)
        key = (row.project, row.dimension, row.quantity_whole)
        by_line[key] = by_line.get(key, 0) + row.payable_nano
    assert by_line == {(line.project, line.dimension, line.quantity_whole): line.payable_nano for line in invoice.lines}


def test_each_tenant_is_rounded_by_itself() -> None:
    """Two tenants who owe 0.6 cents each owe a cent each, and the operator is shown two."""
    rows = [make_row(tenant=tenant, amount_nano=6_000_000) for tenant in ("acme", "globex")]
    assert payables(*rows) == [1, 1]


def test_what_is_lost_in_rounding_goes_to_the_day_with_the_largest_remainder() -> None:
    days = [make_row(billing_date=f"2026-03-0{day}", amount_nano=nano) for day, nano in enumerate((14, 17, 19), 1)]
    assert payables(*(replace(day, amount_nano=day.amount_nano * CENT // 10) for day in days)) == [1, 2, 2]


def test_a_line_that_the_invoice_rounds_up_is_a_cent_on_one_day() -> None:
    """Each day of it is 0.2 cents, all of it 0.4; the cent that the two lines make together went to it."""
    line = [make_row(billing_date=f"2026-03-0{day}", amount_nano=CENT // 5) for day in (1, 2)]
    other = make_row(dimension="vram", quantity_whole=1, amount_nano=CENT // 5)
    assert payables(*line, other) == [1, 0, 0]


def test_rows_keep_their_order_and_nothing_gives_nothing() -> None:
    rows = [make_row(billing_date=f"2026-03-0{day}") for day in (3, 1, 2)]
    assert [row.billing_date for row in with_payables(rows)] == ["2026-03-03", "2026-03-01", "2026-03-02"]
    assert with_payables([]) == []


@pytest.mark.parametrize(
    ("rows", "covered"),
    [
        ([], (None, 0, 0)),
        ([make_row(covered_seconds=None, coverable_seconds=0)], (None, 0, 10)),
        ([make_row(covered_seconds=0)], (0, 10, 10)),
        ([make_row(covered_seconds=4), make_row(covered_seconds=None, coverable_seconds=0)], (4, 10, 20)),
        ([make_row(), make_row(dimension="vram", covered_seconds=1)], (10, 10, 10)),
    ],
)
def test_coverage_is_of_compute_and_unknown_where_no_device_is(rows: list[SpendRow], covered: Any) -> None:
    assert coverage(rows) == covered
