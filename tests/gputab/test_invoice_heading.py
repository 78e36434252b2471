"""The heading of a draft says how far it goes, and never that nothing is rated over amounts."""

from collections.abc import Callable
from typing import Any

Gputab = Callable[..., Any]
Record = Callable[..., None]
# Of 1 April in UTC+8.
HOURS = ("2026-03-31T16:00:00Z", "2026-03-31T17:00:00Z", "2026-03-31T18:00:00Z", "2026-03-31T19:00:00Z")


def _heading(gputab: Gputab) -> str:
    draft = gputab("invoice", "acme", "--month", "2026-04")
    assert draft.code == 0, draft.err
    heading: str = draft.out.splitlines()[0]
    return heading.removeprefix("DRAFT invoice acme, 2026-04-01 to 2026-04-30, ")


def _run(gputab: Gputab, start: str, end: str) -> None:
    assert gputab("meter", "run", "--from", start, "--to", end).code == 0


def test_what_is_rated_before_the_first_hour_is_said_to_be_a_part(gputab: Gputab, ledger: str, record: Record) -> None:
    record({"allocation": "a1", "start": HOURS[0], "end": HOURS[3]})
    assert _heading(gputab) == "nothing rated yet"
    _run(gputab, HOURS[1], HOURS[2])
    assert _heading(gputab) == f"rated until {HOURS[0]}, and in part after it"
    data = gputab("invoice", "acme", "--month", "2026-04", "--format", "json").data
    assert (data["rated_until"], data["is_rated_beyond"], data["settled"]) == (HOURS[0], True, False)
    assert data["total"] != "0.00"
    _run(gputab, HOURS[0], HOURS[1])
    assert _heading(gputab) == f"rated until {HOURS[2]}"
    _run(gputab, HOURS[2], HOURS[3])
    assert _heading(gputab) == f"rated until {HOURS[3]}"


def test_a_hole_between_rated_hours_is_where_the_draft_stops(gputab: Gputab, ledger: str, record: Record) -> None:
    record({"allocation": "a1", "start": HOURS[0], "end": HOURS[3]})
    for start, end in (HOURS[0:2], HOURS[2:4]):
        _run(gputab, start, end)
    assert _heading(gputab) == f"rated until {HOURS[1]}, and in part after it"
