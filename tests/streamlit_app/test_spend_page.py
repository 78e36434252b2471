"""The page's figures are the ledger's: to the cent of the invoice, by the tenant's own days, and of nobody else."""

from collections.abc import Callable
from datetime import date
from decimal import Decimal

import pytest
from streamlit.testing.v1 import AppTest

from domain.money import format_nano
from meter.bills.invoice_store import load_draft
from store.access import Principal, Role
from store.database import Database
from tests.streamlit_app.conftest import SPRING, Tokens
from tests.streamlit_app.pages import charts, days, figures, table, words

LogIn = Callable[[str], AppTest]
Look = Callable[..., AppTest]


@pytest.fixture
def look(log_in: LogIn, token_of: Tokens) -> Look:
    """The page over some days, as the tenant named sees it; None: as the operator does."""

    def looked(tenant: str | None, first: date = SPRING[0], last: date = SPRING[1]) -> AppTest:
        role = Role.TENANT if tenant else Role.OPERATOR
        page = log_in(token_of.make(role, tenant=tenant).secret)
        page.date_input[0].set_value((first, last)).run()
        assert not page.exception
        return page

    return looked


def test_the_page_adds_up_to_the_invoice(look: Look, ledger: Database) -> None:
    """The heading, the total of the table and the sum of its days, by project as by dimension."""
    page = look("acme")
    with ledger.read() as connection:
        draft = load_draft(connection, Principal.local_operator(), "acme", *map(str, SPRING))
    assert [heading.value for heading in page.subheader] == [f"{format_nano(draft.total_nano)} CNY"]
    for grouping in ("project", "dimension"):
        page.segmented_control[0].set_value(grouping).run()
        total, *rows = table(page)
        names = sorted({getattr(line, grouping) for line in draft.lines})
        by_name = {
            name: Decimal(
                format_nano(sum(line.payable_nano for line in draft.lines if getattr(line, grouping) == name))
            )
            for name in names
        }
        groups = [key for key in total if key.startswith("group ")]
        assert sorted(total[key] for key in groups) == sorted(by_name.values())
        assert total["sum"] == sum(by_name.values()) == Decimal(format_nano(draft.total_nano)) > 0
        for key in ("sum", *groups):
            assert total[key] == sum(row[key] for row in rows if row[key] is not None)


def test_a_day_without_a_charge_is_empty_and_not_0(look: Look) -> None:
    sums = {row["day"]: row["sum"] for row in table(look("acme"))[1:]}
    assert list(sums) == ["2025-03-10", "2025-03-09", "2025-03-08"]
    assert sums["2025-03-10"] is None
    assert sums["2025-03-08"] is not None


def test_the_days_of_23_and_of_25_hours_hold_what_the_ledger_does(look: Look) -> None:
    """In New York, at 1.00 an hour: on the days around them nothing was held."""
    spring = look("globex", date(2025, 3, 9), date(2025, 3, 10))
    assert [(row["day"], row["sum"]) for row in table(spring)] == [
        ("total", Decimal("23.00")),
        ("2025-03-10", None),
        ("2025-03-09", Decimal("23.00")),
    ]
    autumn = look("globex", date(2025, 11, 1), date(2025, 11, 3))
    assert [row["sum"] for row in table(autumn)] == [Decimal("25.00"), None, Decimal("25.00"), None]


def test_the_chart_names_days_and_never_times(look: Look) -> None:
    """A category axis of ISO dates, which no browser's zone moves (Streamlit 4342)."""
    (figure,) = charts(look("acme"))
    assert figure["layout"]["xaxis"]["type"] == "category"
    assert figure["layout"]["xaxis"]["categoryarray"] == ["2025-03-08", "2025-03-09", "2025-03-10"]
    assert figure["layout"]["xaxis"]["title"]["text"] == "billing day, Asia/Shanghai"
    assert figure["layout"]["yaxis"]["title"]["text"] == "CNY"
    assert {bar["name"] for bar in figure["data"]} == {"vision", "search"}


def test_currencies_are_never_added(look: Look) -> None:
    """A heading, a chart and a table each; the days are each tenant's own."""
    page = look(None)
    assert [heading.value.partition(" ")[2] for heading in page.subheader] == ["CNY", "USD"]
    assert len(page.dataframe) == len(charts(page)) == 2
    assert page.subheader[1].value == "23.00 USD"
    figure = charts(page)[0]
    assert figure["layout"]["xaxis"]["title"]["text"] == "billing day, each tenant's own zone"


def test_staff_looks_at_all_tenants_or_at_one(look: Look) -> None:
    page = look(None)
    assert page.selectbox[0].options == ["all tenants", "acme", "globex"]
    page.selectbox[0].set_value("globex").run()
    assert [heading.value for heading in page.subheader] == ["23.00 USD"]
    figure = charts(page)[0]
    assert [bar["name"] for bar in figure["data"]] == ["globex"]
    page.selectbox[0].set_value("").run()
    assert len(page.subheader) == 2


def test_projects_of_two_tenants_are_told_apart(look: Look) -> None:
    page = look(None)
    page.segmented_control[0].set_value("project").run()
    page.selectbox[0].set_value("acme").run()
    figure = charts(page)[0]
    assert {bar["name"] for bar in figure["data"]} == {"vision", "search"}
    page.selectbox[0].set_value("").run()
    assert {bar["name"] for bar in charts(page)[0]["data"]} == {"acme/vision", "acme/search"}


def test_a_tenant_gets_no_choice_of_tenants_and_no_word_of_another(look: Look) -> None:
    page = look("acme")
    assert not page.selectbox
    assert page.segmented_control[0].options == ["project", "dimension"]
    told = words(page) + str([table(page), charts(page)])
    assert "globex" not in told
    assert "training" not in told
    assert "USD" not in told


def test_neither_address_nor_session_state_shows_another_tenant(look: Look) -> None:
    """Whatever a browser sends along, what is seen follows from the token alone."""
    page = look("acme")
    before = table(page)
    for name in ("tenant", "of", "principal", "role", "days_of"):
        page.query_params[name] = "globex"
        page.session_state[name] = "globex"
    page.session_state["by"] = "tenant"
    page.run()
    assert not page.exception
    assert table(page) == before
    assert "globex" not in words(page)
    page.session_state["token"] = "globex"
    page.run()
    assert not figures(page)
    assert page.text_input


def test_a_range_that_is_half_picked_is_its_first_day(look: Look) -> None:
    page = look("acme")
    page.date_input[0].set_value((date(2025, 3, 8),)).run()
    assert [row["day"] for row in table(page)] == ["total", "2025-03-08"]


def test_how_far_the_figures_go_is_said(look: Look) -> None:
    """Settled to the end of the last hour in which something was held; what no device is known for is not covered."""
    caption = look("acme").caption[1].value
    assert caption == (
        "settled up to 2025-03-09 13:00:00 · 0 windows still open · covered seconds: not known of 17,705 granted · "
        "times in Asia/Shanghai"
    )


def test_what_has_no_price_is_a_warning(look: Look) -> None:
    """The H100 of the ledger has no rate for its compute."""
    (warning,) = look("acme").warning
    assert warning.value.startswith("1 charge without a price, for gpu of h100-80g: ")
    assert not look("globex").warning


def test_a_month_without_charges_says_where_there_are_some(log_in: LogIn, token_of: Tokens) -> None:
    """By default the page is of the month so far, in which this ledger holds nothing."""
    page = log_in(token_of.make(Role.TENANT, tenant="acme").secret)
    first, last = days(page)
    assert (first.day, first.month, first.year) == (1, last.month, last.year)
    (info,) = page.info
    assert info.value.startswith(f"Nothing was charged on {first}")
    assert info.value.endswith("There are charges from 2025-03-08 to 2025-03-09.")
    assert not figures(page)
    staff = log_in(token_of.make(Role.BILLING).secret)
    staff.selectbox[0].set_value("globex").run()
    assert staff.info[0].value.endswith("There are charges of globex from 2025-03-09 to 2025-11-02.")
