"""A store that is down, a kill, a disk that fails: the pass is lost, and nothing that was there before it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection

from domain.clock import FrozenClock
from domain.errors import InputError, UnavailableError
from meter.evidence.evidence import CONTEXT_S
from meter.windows.passes import rate_period
from meter.windows.windows import Outcome
from store.access import Principal
from store.database import Database
from tests.databases import url_of
from tests.meter.facts import make_grant
from tests.meter.fixture_types import At, Everything, MakeRater, PassAt, PutGrants, Recorded, UseOf
from tests.meter.hour import DONE, HOUR_S, START_US, TAIL, hours_after, stretch
from tests.meter.ledgers import charges_of, gpu_seconds
from tests.meter.observations import Down


@pytest.mark.usefixtures("granted")
@pytest.mark.parametrize("is_settled", [False, True])
@pytest.mark.parametrize("answers", [False, True])
def test_a_store_that_is_down_is_not_taken_for_an_empty_one(
    ledger: Database,
    pass_at: PassAt,
    recorded: Recorded,
    use_of: UseOf,
    everything: Everything,
    is_settled: bool,
    answers: bool,
) -> None:
    """The window stays as it is and is filled later; nothing is written, also at the deadline.

    CEEMS commits such a window as done.
    """
    if is_settled:
        pass_at(recorded(use_of(range(1_000)), DONE), 3_700)
    before = everything()
    for now in (3_800, 100 * 3_600):
        with pytest.raises(UnavailableError, match="the store does not answer"):
            pass_at(Down(HOUR_S + DONE if answers else None), now)
        assert everything() == before
    pass_at(recorded(use_of(range(2_000)), DONE), 100 * 3_600)
    assert gpu_seconds(ledger) == 2_000 + TAIL


class _DiesAtWrite(Database):
    """A process that is killed after its evidence was written and before the ledger is."""

    @contextmanager
    def write(self) -> Iterator[Connection]:
        raise KeyboardInterrupt
        yield


@pytest.mark.usefixtures("granted")
@pytest.mark.parametrize("revision", [1, 2])
@pytest.mark.parametrize("later", [1_500, 1_600])
def test_a_kill_between_evidence_and_ledger_costs_only_the_pass(
    ledger: Database,
    pass_at: PassAt,
    recorded: Recorded,
    use_of: UseOf,
    everything: Everything,
    revision: int,
    later: int,
) -> None:
    """Whether the next pass sees the same samples or more: it succeeds, and so does the one after it."""
    if revision == 2:
        pass_at(recorded(use_of(range(1_000)), DONE), 3_700)
    rows = everything()
    dying = _DiesAtWrite(url_of(ledger))
    with pytest.raises(KeyboardInterrupt):
        pass_at(recorded(use_of(range(1_500)), DONE), 3_700, database=dying)
    dying.close()
    tables = {name: content for name, content in everything().items() if not name.endswith(".parquet")}
    assert tables == {name: content for name, content in rows.items() if not name.endswith(".parquet")}

    result = pass_at(recorded(use_of(range(later)), DONE), 3_900)
    assert result.window is not None
    assert (result.outcome, result.window.revision) == (Outcome.SETTLED, revision)
    assert gpu_seconds(ledger) == later + TAIL
    after = everything()
    pass_at(recorded(use_of(range(later)), DONE), 4_000)
    assert everything() == after


@pytest.mark.usefixtures("granted")
def test_no_half_written_file_is_left_where_evidence_cannot_be_written(
    ledger: Database, pass_at: PassAt, recorded: Recorded, use_of: UseOf, everything: Everything, tmp_path: Path
) -> None:
    (tmp_path / "evidence").write_text("in the way", "utf-8")
    before = everything()
    with pytest.raises(UnavailableError, match=r"^cannot write evidence"):
        pass_at(recorded(use_of(range(1_000)), DONE), 3_700)
    assert everything() == before


def test_a_charge_that_the_ledger_cannot_hold_fails_its_window_alone(
    ledger: Database,
    operator: Principal,
    put_grants: PutGrants,
    make_rater: MakeRater,
    recorded: Recorded,
    at: At,
    everything: Everything,
) -> None:
    """A row that no door lets in any more, or that a hand wrote: it is named in one line, and the others are rated."""
    put_grants(make_grant(0, 3_600, vram_bytes=2**60), make_grant(3_600, 7_200, allocation="a2"))
    said: list[str] = []
    clock = FrozenClock(at(2 * 3_600 + 100))
    rater = make_rater(recorded([], 2 * 3_600 + CONTEXT_S))
    for _ in range(2):
        results = list(rate_period(ledger, operator, rater, stretch(0, 7_200), clock, said.append))
        assert [(hours_after(each.start_us), each.outcome) for each in results] == [(1, Outcome.SETTLED)]
    assert {each.allocation for each in charges_of(ledger)} == {"a2"}
    (line,) = set(said)
    assert line.startswith("cannot rate the window 'n1' '2026-03-01T10:00:00Z': cannot keep this in the database: ")
    assert line.endswith("; use a smaller number, or plain text")
    assert "\n" not in line
    before = everything()
    with pytest.raises(InputError):
        rater.rate_window("n1", START_US, clock.now_us())
    assert everything() == before


@pytest.mark.usefixtures("granted")
def test_evidence_that_is_gone_stops_the_rating_of_its_window(
    pass_at: PassAt, recorded: Recorded, use_of: UseOf, everything: Everything, tmp_path: Path
) -> None:
    pass_at(recorded(use_of(range(1_000)), DONE), 3_700)
    for path in (tmp_path / "evidence").rglob("*.parquet"):
        path.unlink()
    before = everything()
    with pytest.raises(UnavailableError, match=r"^cannot read the evidence .*restore it from a backup"):
        pass_at(recorded(use_of(range(2_000)), DONE), 3_800)
    assert everything() == before
