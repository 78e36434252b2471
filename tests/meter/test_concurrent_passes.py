"""Several meters over one ledger: whoever comes second either agrees or gives way, and the ledger stays readable."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from domain.errors import ConflictError
from domain.grants import Grant
from domain.inventory import CONTACT_SECONDS
from meter.evidence import CONTEXT_S
from meter.ledger_store import load_charges
from meter.observations import Observations, RecordedObservations
from meter.windows import Outcome, WindowRater, WindowResult
from store.access import Principal
from store.database import Database

US = 1_000_000
DONE = 3_600 + CONTEXT_S
# Seconds after a last sample in which the node still counts as heard from, and is billed.
TAIL = CONTACT_SECONDS - 1
Recorded = Callable[..., RecordedObservations]
MakeRater = Callable[..., WindowRater]


class _Meanwhile:
    """Observations during whose reading something else happens, once."""

    def __init__(self, inner: Observations, happens: Callable[[], Any]) -> None:
        self._inner = inner
        self._happens: Callable[[], Any] | None = happens

    def samples(self, node: str, start_s: int, end_s: int) -> pl.DataFrame:
        frame = self._inner.samples(node, start_s, end_s)
        happens, self._happens = self._happens, None
        if happens is not None:
            happens()
        return frame

    def complete_until_s(self, node: str) -> int | None:
        return self._inner.complete_until_s(node)

    def clock_skew_s(self, node: str, start_s: int, end_s: int) -> float | None:
        return self._inner.clock_skew_s(node, start_s, end_s)


@pytest.fixture
def rate_at(
    make_rater: MakeRater, put_grants: Callable[..., None], make_grant: Callable[..., Grant], hour_s: int
) -> Callable[[Observations, int], WindowResult]:
    """A pass of a meter of its own over the hour, in which acme holds GPU-1."""
    put_grants(make_grant())
    return lambda observations, now: make_rater(observations).rate_window("n1", hour_s * US, (hour_s + now) * US)


def _gpu_seconds(database: Database) -> int:
    with database.read() as connection:
        charges = load_charges(connection, Principal.local_operator())
    return sum(each.quantity // each.quantity_whole for each in charges if each.dimension == "gpu")


def test_a_meter_that_has_seen_less_gives_way_to_one_that_settled_meanwhile(
    ledger: Database,
    rate_at: Callable[[Observations, int], WindowResult],
    recorded: Recorded,
    use_of: Callable[..., list[Any]],
    everything: Callable[[], dict[str, Any]],
) -> None:
    """Both settle for the first time, by different samples: the second is refused and spoils nothing of the first."""
    fewer, more = recorded(use_of(range(1_000)), DONE), recorded(use_of(range(2_000)), DONE)
    states: list[dict[str, Any]] = []

    def other_settles() -> None:
        rate_at(more, 3_700)
        states.append(everything())

    with pytest.raises(ConflictError, match=r"^cannot rate the window 'n1' .*run again"):
        rate_at(_Meanwhile(fewer, other_settles), 3_700)
    assert {name: everything()[name] for name in states[0]} == states[0]
    assert _gpu_seconds(ledger) == 2_000 + TAIL
    # The next pass reads the frozen evidence, so it must be what the ledger says it is.
    assert rate_at(fewer, 3_800).kept_frozen
    assert _gpu_seconds(ledger) == 2_000 + TAIL


def test_an_open_pass_does_not_undo_a_settled_one(
    ledger: Database,
    rate_at: Callable[[Observations, int], WindowResult],
    recorded: Recorded,
    use_of: Callable[..., list[Any]],
) -> None:
    rows = use_of(range(3_600))
    slow = _Meanwhile(recorded(rows, 3_600), lambda: rate_at(recorded(rows, DONE), 3_700))
    with pytest.raises(ConflictError, match="run again"):
        rate_at(slow, 3_610)
    with ledger.read() as connection:
        assert len(load_charges(connection, Principal.local_operator())) == 2
    assert rate_at(recorded(rows, DONE), 3_800).outcome is Outcome.SETTLED
    assert _gpu_seconds(ledger) == 3_600


def test_two_meters_that_saw_the_same_agree(
    ledger: Database,
    rate_at: Callable[[Observations, int], WindowResult],
    recorded: Recorded,
    use_of: Callable[..., list[Any]],
    everything: Callable[[], dict[str, Any]],
) -> None:
    observations = recorded(use_of(range(3_600)), DONE)
    states: list[dict[str, Any]] = []

    def other_settles() -> None:
        rate_at(observations, 3_700)
        states.append(everything())

    assert rate_at(_Meanwhile(observations, other_settles), 3_700).outcome is Outcome.SETTLED
    assert everything() == states[0]


def test_many_meters_at_once_leave_what_one_would_have_left(
    ledger: Database,
    open_ledger: Callable[[], Database],
    make_rater: MakeRater,
    put_grants: Callable[..., None],
    make_grant: Callable[..., Grant],
    recorded: Recorded,
    use_of: Callable[..., list[Any]],
    everything: Callable[[], dict[str, Any]],
    hour_s: int,
    tmp_path: Path,
) -> None:
    """Eight passes in threads with engines of their own, as processes have; same samples, so same bytes."""
    put_grants(make_grant(0, 7_200), make_grant(100, 3_000, allocation="a2", gpu_uuid="GPU-2"))
    observations = recorded([*use_of(range(7_300)), *use_of(range(0, 7_300, 3), gpu="GPU-2")], 2 * 3_600 + CONTEXT_S)

    def work(database: Database) -> None:
        rater = make_rater(observations, database)
        for hour in (0, 1):
            rater.rate_window("n1", (hour_s + hour * 3_600) * US, (hour_s + 8_000) * US)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, [open_ledger() for _ in range(8)]))
    after = everything()
    assert _gpu_seconds(ledger) == 7_200 + 2_900
    for hour in (0, 1):
        make_rater(observations).rate_window("n1", (hour_s + hour * 3_600) * US, (hour_s + 9_000) * US)
    assert everything() == after
    assert not list((tmp_path / "evidence").rglob("*.partial"))
