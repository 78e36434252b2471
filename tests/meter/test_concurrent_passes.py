"""Several meters over one ledger: whoever comes second either agrees or gives way, and the ledger stays readable."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from domain.errors import ConflictError
from meter.evidence.evidence import CONTEXT_S
from meter.evidence.observations import Observations
from meter.windows.windows import Outcome, WindowResult
from store.database import Database
from tests.meter.fixture_types import Everything, MakeGrant, MakeRater, OpenLedger, PutGrants, Recorded, UseOf
from tests.meter.hour import DONE, START_US, TAIL, instant_us
from tests.meter.ledgers import charges_of, gpu_seconds
from tests.meter.observations import Meanwhile

RateAt = Callable[[Observations, int], WindowResult]


@pytest.fixture
def rate_at(make_rater: MakeRater, put_grants: PutGrants, make_grant: MakeGrant) -> RateAt:
    """A pass of a meter of its own over the hour, in which acme holds GPU-1."""
    put_grants(make_grant())
    return lambda observations, now: make_rater(observations).rate_window("n1", START_US, instant_us(now))


def test_a_meter_that_has_seen_less_gives_way_to_one_that_settled_meanwhile(
    ledger: Database, rate_at: RateAt, recorded: Recorded, use_of: UseOf, everything: Everything
) -> None:
    """Both settle for the first time, by different samples: the second is refused and spoils nothing of the first."""
    fewer, more = recorded(use_of(range(1_000)), DONE), recorded(use_of(range(2_000)), DONE)
    states: list[dict[str, Any]] = []

    def other_settles() -> None:
        rate_at(more, 3_700)
        states.append(everything())

    with pytest.raises(ConflictError, match=r"^cannot rate the window 'n1' .*run again"):
        rate_at(Meanwhile(fewer, other_settles), 3_700)
    assert {name: everything()[name] for name in states[0]} == states[0]
    assert gpu_seconds(ledger) == 2_000 + TAIL
    # The next pass reads the frozen evidence, so it must be what the ledger says it is.
    assert rate_at(fewer, 3_800).kept_frozen
    assert gpu_seconds(ledger) == 2_000 + TAIL


def test_an_open_pass_does_not_undo_a_settled_one(
    ledger: Database, rate_at: RateAt, recorded: Recorded, use_of: UseOf
) -> None:
    rows = use_of(range(3_600))
    slow = Meanwhile(recorded(rows, 3_600), lambda: rate_at(recorded(rows, DONE), 3_700))
    with pytest.raises(ConflictError, match="run again"):
        rate_at(slow, 3_610)
    assert len(charges_of(ledger)) == 2
    assert rate_at(recorded(rows, DONE), 3_800).outcome is Outcome.SETTLED
    assert gpu_seconds(ledger) == 3_600


def test_two_meters_that_saw_the_same_agree(
    ledger: Database, rate_at: RateAt, recorded: Recorded, use_of: UseOf, everything: Everything
) -> None:
    observations = recorded(use_of(range(3_600)), DONE)
    states: list[dict[str, Any]] = []

    def other_settles() -> None:
        rate_at(observations, 3_700)
        states.append(everything())

    assert rate_at(Meanwhile(observations, other_settles), 3_700).outcome is Outcome.SETTLED
    assert everything() == states[0]


def test_many_meters_at_once_leave_what_one_would_have_left(
    ledger: Database,
    open_ledger: OpenLedger,
    make_rater: MakeRater,
    put_grants: PutGrants,
    make_grant: MakeGrant,
    recorded: Recorded,
    use_of: UseOf,
    everything: Everything,
    tmp_path: Path,
) -> None:
    """Eight passes in threads with engines of their own, as processes have; same samples, so same bytes."""
    put_grants(make_grant(0, 7_200), make_grant(100, 3_000, allocation="a2", gpu_uuid="GPU-2"))
    observations = recorded([*use_of(range(7_300)), *use_of(range(0, 7_300, 3), gpu="GPU-2")], 2 * 3_600 + CONTEXT_S)

    def work(database: Database) -> None:
        rater = make_rater(observations, database)
        for hour in (0, 1):
            rater.rate_window("n1", instant_us(hour * 3_600), instant_us(8_000))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, [open_ledger() for _ in range(8)]))
    after = everything()
    assert gpu_seconds(ledger) == 7_200 + 2_900
    for hour in (0, 1):
        make_rater(observations).rate_window("n1", instant_us(hour * 3_600), instant_us(9_000))
    assert everything() == after
    assert not list((tmp_path / "evidence").rglob("*.partial"))
