"""One pass over a period: every window that it touches, and the same ledger whatever time is cut into."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.clock import FrozenClock
from meter.evidence.observations import RecordedObservations
from meter.windows.passes import rate_period
from meter.windows.windows import Outcome, WindowResult
from store.access import Principal
from store.database import Database
from tests.meter.fixture_types import At, Everything, MakeRater
from tests.meter.hour import hours_after, stretch
from tests.meter.ledgers import forget_bills

Run = Callable[..., list[WindowResult]]


@pytest.fixture
def run(ledger: Database, operator: Principal, day: RecordedObservations, make_rater: MakeRater, at: At) -> Run:
    """One pass over [start, end) of the day at `now`, all offsets into the hour."""

    def ran(start: float, end: float, now: float) -> list[WindowResult]:
        return list(
            rate_period(ledger, operator, make_rater(day), stretch(start, end), FrozenClock(at(now)), pytest.fail)
        )

    return ran


def test_a_period_rates_every_window_it_touches_as_a_whole(run: Run) -> None:
    """By hour and node; '' are the grants without a device, which come only where there are some."""
    results = run(3_599.5, 7_201, 15_000)
    assert [(hours_after(each.start_us), each.node) for each in results] == [
        (0, ""),
        (0, "n1"),
        (1, ""),
        (1, "n1"),
        (2, ""),
        (2, "n1"),
    ]
    assert {each.outcome for each in results} == {Outcome.SETTLED}


@pytest.mark.parametrize(("start", "end"), [(0, 0), (1_800, 1_800), (-7_200, 0), (-5_000, -4_000)])
def test_a_period_without_a_second_of_anything_rates_nothing(run: Run, start: float, end: float) -> None:
    assert run(start, end, 15_000) == []


def test_what_lies_ahead_is_not_rated(run: Run) -> None:
    """Neither at first nor when its window is there already."""
    assert run(9_000, 14_400, 4_000) == []
    results = run(0, 14_400, 4_000)
    assert [hours_after(each.start_us) for each in results] == [0, 0, 1, 1]
    run(0, 14_400, 15_000)
    assert run(9_000, 14_400, 4_000) == []


@given(cuts=st.lists(st.integers(1, 14_399), max_size=5, unique=True), backwards=st.booleans())
@settings(
    max_examples=settings().max_examples * 5 // 100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_cut_of_the_time_leaves_the_same_ledger_to_the_byte(
    ledger: Database, run: Run, everything: Everything, cuts: list[int], backwards: bool
) -> None:
    """In one run or many, in any order, each window rated once or several times."""
    forget_bills(ledger)
    run(0, 14_400, 15_000)
    whole = everything()
    assert len(whole["charges"]) > 15
    forget_bills(ledger)
    borders = [0, *sorted(cuts), 14_400]
    pieces = list(pairwise(borders))
    for start, end in reversed(pieces) if backwards else pieces:
        run(start, end, 15_000)
    assert everything() == whole
