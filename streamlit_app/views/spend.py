"""Spend by tenant and billing day: chart, table, download, and how far the figures can be relied on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from zoneinfo import ZoneInfo

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from domain.period import billing_date
from domain.prices import Rate
from domain.tenants import Tenant
from meter.bills.freshness_store import load_freshness
from meter.bills.spend import SpendRow
from meter.bills.spend_store import charged_dates, spend_by_day
from meter.prices.price_store import load_rates
from store.access import Principal, Role
from store.database import Database, now_us
from store.tenants import load_tenants
from streamlit_app import spend_csv
from streamlit_app.amounts import shown
from streamlit_app.breakdown import Breakdown, Grouping, break_down
from streamlit_app.chart import spend_chart
from streamlit_app.reliability import draft_from, reliability, unpriced
from streamlit_app.spend_table import spend_table

_TABLE_ROWS_MAX = 16
_ROW_PIXELS = 35
# Both days of a range are seen whole.
_DAYS_PIXELS = 225
_TENANT_PIXELS = 190


@dataclass(frozen=True, slots=True)
class Choice:
    """What is asked for: billing dates, both included, of one tenant or of all that are seen (None)."""

    tenant: str | None
    first: date
    last: date
    grouping: Grouping

    @property
    def days(self) -> str:
        """The days in words."""
        return f"{self.first}" if self.first == self.last else f"{self.first} to {self.last}"


def show(database: Database, principal: Principal, still_admitted: Callable[[], Principal]) -> None:
    """The page, of what the principal may see.

    `still_admitted` raises AccessError where its token is no longer good: a download may be asked for at any time.
    """
    with database.read() as connection:
        tenants = load_tenants(connection, principal)
        charged = charged_dates(connection, principal)
        at_us = now_us(connection)
    if not tenants:
        st.info("There is no tenant yet. The operator adds the first by `gputab tenant create`.")
        return
    choice, beside = _choose(principal, tenants, charged, at_us)
    first_date, last_date = choice.first.isoformat(), choice.last.isoformat()
    with database.read() as connection:
        rows = spend_by_day(connection, principal, first_date, last_date, tenant=choice.tenant)
        rates = load_rates(connection, principal, {row.rate_id for row in rows if row.rate_id is not None})
        freshness = load_freshness(connection, principal, first_date, last_date, tenant=choice.tenant)
        charged = charged_dates(connection, principal, tenant=choice.tenant)
    zones = {each.zone for each in tenants if choice.tenant in (None, each.tenant)}
    st.caption(reliability(rows, freshness, _only(zones) or ZoneInfo("UTC")))
    if not rows:
        st.info(_nothing(choice, charged))
        return
    if warning := unpriced(rows):
        st.warning(warning)
    unfinished = draft_from(freshness, choice.first, zones, at_us)
    for breakdown in break_down(rows, choice.first, choice.last, choice.grouping):
        _show_currency(breakdown, choice, _only(zones), unfinished)
    beside.download_button(
        "Download CSV",
        partial(_csv, rows, rates, still_admitted),
        spend_csv.file_name(choice.tenant or principal.tenant, first_date, last_date),
        spend_csv.MIME,
        icon=":material/download:",
    )


def _choose(
    principal: Principal, tenants: Sequence[Tenant], charged: tuple[str, str] | None, at_us: int
) -> tuple[Choice, DeltaGenerator]:
    """Draw the filters; what is chosen in them, and the place beside them.

    By default this month so far, in the zone whose day is furthest.
    """
    today = max(billing_date(at_us, each.zone) for each in tenants)
    month = today.replace(day=1)
    first_charged, last_charged = (date.fromisoformat(day) for day in charged or (month.isoformat(),) * 2)
    is_staff = principal.role is not Role.TENANT
    groupings = [each for each in Grouping if is_staff or each is not Grouping.TENANT]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        days = st.date_input(
            "Billing days",
            (month, today),
            min_value=min(first_charged, month),
            max_value=max(last_charged, today),
            format="YYYY-MM-DD",
            key="days",
            width=_DAYS_PIXELS,
        )
        tenant: str | None = None
        if is_staff:
            names = ["", *(each.tenant for each in tenants)]
            chosen = st.selectbox(
                "Tenant", names, format_func=lambda name: name or "all tenants", key="of", width=_TENANT_PIXELS
            )
            tenant = chosen or None
        grouping = st.segmented_control(
            "Divided by",
            groupings,
            default=groupings[0],
            required=True,
            format_func=str,
            key="by",
            width="content",
        )
        beside = st.container(horizontal=True, horizontal_alignment="right")
    # While a range is being picked there is its first day only.
    first, last = (days[0], days[-1]) if days else (month, today)
    return Choice(tenant, first, last, grouping or groupings[0]), beside


def _nothing(choice: Choice, charged: tuple[str, str] | None) -> str:
    whose = f" of {choice.tenant}" if choice.tenant else ""
    if charged is None:
        return f"There are no charges{whose} yet. They come as soon as the meter has rated what was granted."
    return f"Nothing was charged on {choice.days}. There are charges{whose} from {charged[0]} to {charged[1]}."


def _show_currency(breakdown: Breakdown, choice: Choice, zone: ZoneInfo | None, unfinished: date) -> None:
    """Total, chart and table of one currency."""
    currency, grouping = breakdown.currency, choice.grouping
    total = shown(breakdown.total_nano, currency)
    st.subheader(f"{total} {currency}", anchor=False)
    st.plotly_chart(
        spend_chart(breakdown, zone=zone.key if zone else "each tenant's own zone", draft_from=unfinished),
        key=f"chart {currency}",
        config={"displayModeBar": False},
        alt=f"Spend a day in {currency} by {grouping}, {total} in all; the table below has every number.",
    )
    if any(breakdown.day_nano(day) is not None for day in breakdown.days if date.fromisoformat(day) >= unfinished):
        st.caption(f"Hatched: draft, not settled, from {unfinished} on.")
    frame, headings = spend_table(breakdown)
    st.dataframe(
        frame,
        width="content",
        placeholder="",
        key=f"table {currency}",
        hide_index=True,
        height=_ROW_PIXELS * min(frame.height + 1, _TABLE_ROWS_MAX) + 2,
        column_config=headings,
        alt=f"Spend a day in {currency} by {grouping}; the first row is the total.",
    )


def _csv(rows: Sequence[SpendRow], rates: Mapping[str, Rate], still_admitted: Callable[[], Principal]) -> bytes:
    # The page that offers it may have been open for hours.
    still_admitted()
    return spend_csv.to_csv(rows, rates)


def _only(zones: set[ZoneInfo]) -> ZoneInfo | None:
    """The zone, where there is one only."""
    return next(iter(zones)) if len(zones) == 1 else None
