"""Several meters over one ledger: whoever comes second either agrees or gives way, and the ledger stays readable."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from domain.errors import ConflictError, UnavailableError
from meter.evidence.evidence import CONTEXT_S
from meter.evidence.observations import Observations
from meter.ledger.leases_store import LEASE_S, take_lease
from meter.windows.windows import Outcome, WindowResult
from store.access import Principal
from store.database import Database
from tests.meter.fixture_types import At, Everything, MakeGrant, MakeRater, OpenLedger, PutGrants, Recorded, UseOf
from tests.meter.hour import DONE, START_US, TAIL, instant_us
from tests.meter.ledgers import gpu_seconds
from tests.meter.observations import Meanwhile

RateAt = Callable[[Observations, int], WindowResult]


@pytest.fixture
def rate_at(make_rater: MakeRater, put_grants: PutGrants, make_grant: MakeGrant) -> RateAt:
    """A pass of a meter of its own over the hour, in which acme holds GPU-1."""
    put_grants(make_grant())
    return lambda observations, now: make_rater(observations).rate_window("n1", START_US, instant_us(now))


def test_a_window_that_a_meter_is_at_work_on_is_left_to_it(
    rate_at: RateAt, recorded: Recorded, use_of: UseOf, everything: Everything
) -> None:
    """The second finds the window busy and changes nothing; the first ends as if it had been alone."""
    observations = recorded(use_of(range(3_600)), DONE)
    others: list[WindowResult] = []

    def other_comes() -> None:
        before = everything()
        others.append(rate_at(observations, 3_700))
        assert everything() == before

    assert rate_at(Meanwhile(observations, other_comes), 3_700).outcome is Outcome.SETTLED
    (other,) = others
    assert (other.outcome, other.window, other.charges) == (Outcome.BUSY, None, ())
    after = everything()
    assert rate_at(observations, 3_700).outcome is Outcome.SETTLED
    assert everything() == after


def test_a_meter_that_was_overtaken_writes_nothing(
    ledger: Database, rate_at: RateAt, recorded: Recorded, use_of: UseOf, everything: Everything, at: At
) -> None:
    """It took longer than its lease, and another has settled the window by more samples meanwhile."""
    fewer, more = recorded(use_of(range(1_000)), DONE), recorded(use_of(range(2_000)), DONE)
    states: list[dict[str, Any]] = []

    def other_settles() -> None:
        at(3_700 + LEASE_S)
        assert rate_at(more, 3_700).outcome is Outcome.SETTLED
        states.append(everything())

    at(3_700)
    with pytest.raises(ConflictError, match=r"^cannot rate the window 'n1' .* has taken it over; run again$"):
        rate_at(Meanwhile(fewer, other_settles), 3_700)
    assert {name: everything()[name] for name in states[0]} == states[0]
    assert gpu_seconds(ledger) == 2_000 + TAIL
    # The next pass reads the frozen evidence, so it must be what the ledger says it is.
    assert rate_at(fewer, 3_800).kept_frozen
    assert gpu_seconds(ledger) == 2_000 + TAIL


def test_a_pass_that_fails_gives_its_window_back(
    rate_at: RateAt, recorded: Recorded, use_of: UseOf, everything: Everything
) -> None:
    """Another need not wait for the lease to end."""
    observations = recorded(use_of(range(3_600)), DONE)
    before = everything()

    def store_goes_down() -> None:
        raise UnavailableError("cannot reach the store")

    with pytest.raises(UnavailableError, match="cannot reach the store"):
        rate_at(Meanwhile(observations, store_goes_down), 3_700)
    assert everything() == before
    assert rate_at(observations, 3_700).outcome is Outcome.SETTLED


@pytest.mark.parametrize(("later_s", "outcome"), [(LEASE_S - 1, Outcome.BUSY), (LEASE_S, Outcome.SETTLED)])
def test_a_meter_that_was_killed_keeps_its_window_for_its_lease_and_no_longer(
    ledger: Database,
    operator: Principal,
    rate_at: RateAt,
    recorded: Recorded,
    use_of: UseOf,
    at: At,
    later_s: int,
    outcome: Outcome,
) -> None:
    """What a kill leaves behind is the lease alone."""
    at(3_700)
    with ledger.write() as connection:
        assert take_lease(connection, operator, "n1", START_US) is not None
    at(3_700 + later_s)
    assert rate_at(recorded(use_of(range(3_600)), DONE), 3_800).outcome is outcome


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
    """Eight passes in threads with engines of their own, as processes have; same samples, so same bytes.

    A window that is busy is left to who is at work on it.
    """
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
