"""What the page says of how far its figures go."""

from datetime import date
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from domain.period import parse_instant
from meter.bills.freshness_store import Freshness
from meter.bills.spend import SpendRow
from streamlit_app.reliability import draft_from, reliability, unpriced
from tests.meter.spend_rows import make_row

SHANGHAI, NEW_YORK = ZoneInfo("Asia/Shanghai"), ZoneInfo("America/New_York")
NOON_US = parse_instant("2026-03-10T12:00:30.9Z")
HOUR_US = parse_instant("2026-03-10T12:00:00Z")
NOW_US = parse_instant("2026-03-10T12:01:00Z")
FIRST = date(2026, 3, 1)


@pytest.mark.parametrize(
    ("freshness", "said"),
    [
        (Freshness(None, None, 0), "nothing settled yet · 0 windows still open · "),
        (Freshness(HOUR_US, HOUR_US, 0), "settled up to 2026-03-10 20:00:00 · 0 windows still open · "),
        (
            Freshness(HOUR_US, NOON_US, 1),
            "settled up to 2026-03-10 20:00:00 · rated up to 2026-03-10 20:00:30 · 1 window still open · ",
        ),
        (
            Freshness(None, None, 1_234),
            "nothing settled yet · nothing rated yet · 1,234 windows still open · ",
        ),
    ],
)
def test_up_to_when_is_said_in_the_zone_of_the_days(freshness: Freshness, said: str) -> None:
    text = reliability([], freshness, SHANGHAI)
    assert text.startswith(said)
    assert text.endswith("times in Asia/Shanghai")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "none granted"),
        ([make_row(covered_seconds=None, coverable_seconds=0)], "not known of 10 granted"),
        ([make_row(covered_seconds=0)], "0 of 10 granted (0.00 %)"),
        ([make_row(granted_seconds=3, coverable_seconds=3, covered_seconds=2)], "2 of 3 granted (66.66 %)"),
        (
            [make_row(granted_seconds=10**6, coverable_seconds=10**6, covered_seconds=10**6 - 1)],
            "999,999 of 1,000,000 granted (99.99 %)",
        ),
        (
            [make_row(), make_row(covered_seconds=None, coverable_seconds=0)],
            "10 of 10 granted (100.00 %), not known of 10 more",
        ),
    ],
)
def test_coverage_that_is_not_known_is_not_0_and_100_percent_is_every_second(rows: list[SpendRow], said: str) -> None:
    assert f"covered seconds: {said} · " in reliability(rows, Freshness(None, None, 0), SHANGHAI)


def test_what_has_no_price_is_counted_and_named() -> None:
    assert unpriced([make_row()]) is None
    rows: list[Any] = [make_row(rate_id=None, charges=2), make_row(), make_row(rate_id=None, dimension="vram")]
    said = unpriced(rows)
    assert said is not None
    assert said.startswith("3 charges without a price, for gpu of rtx4090-24g, vram of rtx4090-24g: ")
    assert said.endswith("`gputab prices load`.")


@pytest.mark.parametrize(
    ("settled", "windows", "expected"),
    [
        # All has settled: only the day that goes on is a draft.
        ("2026-03-05T00:00:00Z", 0, date(2026, 3, 10)),
        # Settled to Shanghai's midnight: the whole day before it.
        ("2026-03-05T16:00:00Z", 1, date(2026, 3, 6)),
        ("2026-03-05T15:00:00Z", 1, date(2026, 3, 5)),
        (None, 1, FIRST),
        # Before the days asked for: all of them are drafts.
        ("2026-02-01T00:00:00Z", 1, FIRST),
    ],
)
def test_a_day_is_a_draft_until_all_of_it_has_settled(settled: str | None, windows: int, expected: date) -> None:
    settled_us = None if settled is None else parse_instant(settled)
    assert draft_from(Freshness(settled_us, settled_us, windows), FIRST, [SHANGHAI], NOW_US) == expected


def test_of_several_zones_the_one_whose_day_is_earliest_counts() -> None:
    """At noon UTC it is evening in Shanghai and morning in New York, of the same day; at 20:00 of two."""
    late_us = parse_instant("2026-03-10T20:00:00Z")
    settled = Freshness(late_us, late_us, 0)
    assert draft_from(settled, FIRST, [SHANGHAI], late_us) == date(2026, 3, 11)
    assert draft_from(settled, FIRST, [SHANGHAI, NEW_YORK], late_us) == date(2026, 3, 10)
