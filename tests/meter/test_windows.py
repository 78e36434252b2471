"""A window's life: open while it fills, settled when it is complete, re-rated when late data come, closed for ever."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from sqlalchemy import Connection, delete, insert, select, update

from domain.errors import UnavailableError
from domain.grants import Grant
from domain.inventory import CONTACT_SECONDS
from domain.period import Period
from domain.series import COLLECTOR_LATENESS
from meter.charges import Charge
from meter.evidence import CONTEXT_S
from meter.ledger_store import NO_NODE, load_charges, load_windows
from meter.observations import RecordedObservations
from meter.windows import Outcome, WindowRater, WindowResult
from store.access import Principal
from store.database import Database
from store.tables.billing import evidence, windows
from store.tables.capacity import device_periods, node_contacts, nodes

US = 1_000_000
HOUR_US = 3_600 * US
Recorded = Callable[..., RecordedObservations]
MakeRater = Callable[..., WindowRater]
Everything = Callable[[], dict[str, Any]]
DONE = 3_600 + CONTEXT_S
# Seconds after a last sample in which the node still counts as heard from, and is billed.
TAIL = CONTACT_SECONDS - 1


@pytest.fixture
def granted(put_grants: Callable[..., None], make_grant: Callable[..., Grant]) -> None:
    """acme holds GPU-1 for the whole hour."""
    put_grants(make_grant())


@pytest.fixture
def pass_at(make_rater: MakeRater, hour_s: int) -> Callable[..., WindowResult]:
    """One pass over the hour of n1, so many seconds after the hour began."""

    def rated(observations: Any, now: float, node: str = "n1", **changes: Any) -> WindowResult:
        return make_rater(observations, **changes).rate_window(node, hour_s * US, hour_s * US + round(now * US))

    return rated


def _charges(database: Database) -> list[Charge]:
    with database.read() as connection:
        return load_charges(connection, Principal.local_operator())


def _gpu_seconds(database: Database) -> int:
    """Billed GPU-seconds of the ledger."""
    return sum(each.quantity // each.quantity_whole for each in _charges(database) if each.dimension == "gpu")


@pytest.mark.usefixtures("granted")
@pytest.mark.parametrize(
    ("now", "complete", "inventory", "outcome", "until"),
    [
        # Filling: up to the mark, or up to now where the mark is ahead.
        (600, 500, 3_600, Outcome.OPEN, 500),
        (600, 700, 3_600, Outcome.OPEN, 600),
        (600.9, 700, 3_600, Outcome.OPEN, 600),
        (600, None, 3_600, Outcome.WAITING, None),
        (600, 0, 3_600, Outcome.WAITING, None),
        (600, -60, 3_600, Outcome.WAITING, None),
        # Over, but not complete: the grace, the mark with its context, the inventory.
        (3_629, DONE, 3_600, Outcome.OPEN, 3_600),
        (3_630, DONE, 3_600, Outcome.SETTLED, 3_600),
        (3_700, DONE - 1, 3_600, Outcome.OPEN, 3_600),
        (3_700, 3_500, 3_600, Outcome.OPEN, 3_500),
        (3_700, None, 3_600, Outcome.WAITING, None),
        (3_700, DONE, 3_599, Outcome.OPEN, 3_600),
        (3_700, DONE, None, Outcome.OPEN, 3_600),
        # At the deadline whatever is missing.
        (73 * 3_600 - 1, None, None, Outcome.WAITING, None),
        (73 * 3_600, None, None, Outcome.SETTLED, 3_600),
        (73 * 3_600, 10, 3_600, Outcome.SETTLED, 3_600),
        # Before it began.
        (-5, 3_600, 3_600, Outcome.WAITING, None),
        (0, 3_600, 3_600, Outcome.WAITING, None),
    ],
)
def test_a_window_settles_when_it_is_complete_or_at_the_deadline(
    ledger: Database,
    pass_at: Callable[..., WindowResult],
    recorded: Recorded,
    use_of: Callable[..., list[Any]],
    hour_s: int,
    now: float,
    complete: int | None,
    inventory: int | None,
    outcome: Outcome,
    until: int | None,
) -> None:
    inventory_us = None if inventory is None else (hour_s + inventory) * US
    with ledger.write() as connection:
        connection.execute(update(nodes).values(inventory_us=inventory_us))
    result = pass_at(recorded(use_of(range(3600)), complete), now)
    assert result.outcome is outcome
    if until is None:
        assert result.window is None
        assert _charges(ledger) == []
        return
    assert result.window is not None
    assert result.window.rated_until_us == (hour_s + until) * US
    assert (result.window.state, result.window.revision) == (outcome.value, int(outcome is Outcome.SETTLED))
    assert (result.window.evidence_digest is not None) == (outcome is Outcome.SETTLED)
    assert list(result.charges) == _charges(ledger)
    assert _gpu_seconds(ledger) == until


@pytest.mark.usefixtures("granted")
def test_what_is_drawn_while_it_fills_is_replaced_and_not_added_to(
    ledger: Database, pass_at: Callable[..., WindowResult], recorded: Recorded, use_of: Callable[..., list[Any]]
) -> None:
    """metering.md B16: 60.00 while filling and 56.16 at the end are 56.16."""
    rows = [*use_of(range(2_000)), *use_of(range(2_100, 3_600))]
    amounts = []
    for now, complete in ((2_050, 2_050), (3_700, DONE)):
        pass_at(recorded(rows, complete), now)
        amounts.append(sum(each.amount_nano for each in _charges(ledger)))
        assert len(_charges(ledger)) == 2
    assert amounts[0] < amounts[1]
    assert _gpu_seconds(ledger) == 3_500 + TAIL


@pytest.mark.usefixtures("granted")
def test_rating_again_leaves_every_byte_as_it_was(
    pass_at: Callable[..., WindowResult], recorded: Recorded, use_of: Callable[..., list[Any]], everything: Everything
) -> None:
    """Promise 2 and metering.md C33: open or settled, now or much later."""
    observations = recorded(use_of(range(0, 3600, 2)), DONE)
    pass_at(observations, 3_600)
    opened = everything()
    pass_at(observations, 3_610)
    assert everything() == opened
    pass_at(observations, 3_700)
    settled = everything()
    assert settled != opened
    for now in (3_701, 10 * 3_600, 100 * 3_600):
        assert pass_at(observations, now).outcome is Outcome.SETTLED
        assert everything() == settled


@pytest.mark.usefixtures("granted")
def test_late_samples_make_a_new_revision_and_keep_the_old_file(
    ledger: Database,
    pass_at: Callable[..., WindowResult],
    recorded: Recorded,
    use_of: Callable[..., list[Any]],
    tmp_path: Path,
) -> None:
    """Design 4.5 and 4.6; the charges are replaced, the first evidence stays to be looked at."""
    first = pass_at(recorded(use_of(range(1_000)), DONE), 3_700)
    (old_file,) = (tmp_path / "evidence").rglob("*.parquet")
    old_bytes = old_file.read_bytes()
    assert _gpu_seconds(ledger) == 1_000 + TAIL

    second = pass_at(recorded(use_of(range(2_000)), DONE), 3_800)
    assert first.window is not None
    assert second.window is not None
    assert (first.window.revision, second.window.revision) == (1, 2)
    assert first.window.evidence_digest != second.window.evidence_digest
    assert _gpu_seconds(ledger) == 2_000 + TAIL
    assert old_file.read_bytes() == old_bytes
    with ledger.read() as connection:
        kept = connection.execute(select(evidence).order_by(evidence.c.revision)).all()
    assert [row.revision for row in kept] == [1, 2]
    assert [row.digest for row in kept] == [first.window.evidence_digest, second.window.evidence_digest]
    assert all((tmp_path / "evidence" / row.path).stat().st_size == row.size_bytes for row in kept)
    assert len({row.path for row in kept}) == 2


@pytest.mark.usefixtures("granted")
@pytest.mark.parametrize("left", [range(0), range(500), range(500, 1_000)])
def test_what_the_store_has_lost_since_does_not_shrink_a_bill(
    ledger: Database,
    pass_at: Callable[..., WindowResult],
    recorded: Recorded,
    use_of: Callable[..., list[Any]],
    everything: Everything,
    left: range,
) -> None:
    """Retention, or a lost disk: the frozen evidence is rated, and the result says so."""
    pass_at(recorded(use_of(range(1_000)), DONE), 3_700)
    before = everything()
    result = pass_at(recorded(use_of(left), DONE), 3_800)
    assert result.kept_frozen
    assert everything() == before


@pytest.mark.usefixtures("granted")
def test_a_settled_window_stays_whole_when_the_mark_goes_back(
    pass_at: Callable[..., WindowResult], recorded: Recorded, use_of: Callable[..., list[Any]], everything: Everything
) -> None:
    """The mark is only asked before a window settles: a store that was restored may know an older one, or none."""
    rows = use_of(range(1_000))
    pass_at(recorded(rows, DONE), 3_700)
    before = everything()
    for complete in (2_000, 0, None):
        result = pass_at(recorded(rows, complete), 3_800)
        assert result.outcome is Outcome.SETTLED
        assert everything() == before


@pytest.mark.usefixtures("granted")
def test_a_grant_that_comes_to_light_after_settling_is_billed_by_the_frozen_evidence(
    ledger: Database,
    pass_at: Callable[..., WindowResult],
    recorded: Recorded,
    use_of: Callable[..., list[Any]],
    put_grants: Callable[..., None],
    make_grant: Callable[..., Grant],
) -> None:
    """Rating is a function of evidence, grants and prices: the store may be empty by then."""
    rows = [*use_of(range(1_000)), *use_of(range(700), gpu="GPU-2")]
    pass_at(recorded(rows, DONE), 3_700)
    put_grants(make_grant(0, 600, allocation="late", gpu_uuid="GPU-2"))
    result = pass_at(recorded([], DONE), 3_800)
    assert result.window is not None
    assert (result.window.revision, result.kept_frozen) == (1, True)
    assert _gpu_seconds(ledger) == 1_600 + TAIL


@pytest.mark.usefixtures("granted")
def test_a_closed_window_is_left_alone(
    ledger: Database,
    pass_at: Callable[..., WindowResult],
    recorded: Recorded,
    use_of: Callable[..., list[Any]],
    put_grants: Callable[..., None],
    make_grant: Callable[..., Grant],
    everything: Everything,
) -> None:
    """Promise 11: neither late samples nor other grants change it."""
    pass_at(recorded(use_of(range(1_000)), DONE), 3_700)
    with ledger.write() as connection:
        connection.execute(update(windows).values(state="closed"))
    put_grants(make_grant(allocation="late", gpu_uuid="GPU-2"))
    before = everything()
    result = pass_at(recorded(use_of(range(3_600)), DONE), 3_800)
    assert result.outcome is Outcome.CLOSED
    assert result.charges == ()
    assert everything() == before


class _Down:
    """A store that answers nothing, or nothing after its mark."""

    def __init__(self, complete_until_s: int | None) -> None:
        self._complete_until_s = complete_until_s

    def samples(self, node: str, start_s: int, end_s: int) -> pl.DataFrame:
        raise UnavailableError(f"cannot read samples of {node!r}: the store does not answer")

    def complete_until_s(self, node: str) -> int | None:
        if self._complete_until_s is None:
            raise UnavailableError(f"cannot query samples of {node!r}: the store does not answer")
        return self._complete_until_s

    def clock_skew_s(self, node: str, start_s: int, end_s: int) -> float | None:
        raise UnavailableError(f"cannot query samples of {node!r}: the store does not answer")


@pytest.mark.usefixtures("granted")
@pytest.mark.parametrize("is_settled", [False, True])
@pytest.mark.parametrize("answers", [False, True])
def test_a_store_that_is_down_is_not_taken_for_an_empty_one(
    ledger: Database,
    pass_at: Callable[..., WindowResult],
    recorded: Recorded,
    use_of: Callable[..., list[Any]],
    everything: Everything,
    hour_s: int,
    is_settled: bool,
    answers: bool,
) -> None:
    """metering.md C38: the window stays as it is and is filled later; nothing is written, also at the deadline."""
    if is_settled:
        pass_at(recorded(use_of(range(1_000)), DONE), 3_700)
    before = everything()
    for now in (3_800, 100 * 3_600):
        with pytest.raises(UnavailableError, match="the store does not answer"):
            pass_at(_Down(hour_s + DONE if answers else None), now)
        assert everything() == before
    pass_at(recorded(use_of(range(2_000)), DONE), 100 * 3_600)
    assert _gpu_seconds(ledger) == 2_000 + TAIL


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
    pass_at: Callable[..., WindowResult],
    recorded: Recorded,
    use_of: Callable[..., list[Any]],
    everything: Everything,
    tmp_path: Path,
    revision: int,
    later: int,
) -> None:
    """Whether the next pass sees the same samples or more: it succeeds, and so does the one after it."""
    if revision == 2:
        pass_at(recorded(use_of(range(1_000)), DONE), 3_700)
    rows = everything()
    dying = _DiesAtWrite(f"sqlite:///{tmp_path / 'gputab.db'}")
    with pytest.raises(KeyboardInterrupt):
        pass_at(recorded(use_of(range(1_500)), DONE), 3_700, database=dying)
    dying.close()
    tables = {name: content for name, content in everything().items() if not name.endswith(".parquet")}
    assert tables == {name: content for name, content in rows.items() if not name.endswith(".parquet")}

    result = pass_at(recorded(use_of(range(later)), DONE), 3_900)
    assert result.window is not None
    assert (result.outcome, result.window.revision) == (Outcome.SETTLED, revision)
    assert _gpu_seconds(ledger) == later + TAIL
    after = everything()
    pass_at(recorded(use_of(range(later)), DONE), 4_000)
    assert everything() == after


@pytest.mark.usefixtures("granted")
def test_no_half_written_file_is_left_where_evidence_cannot_be_written(
    ledger: Database,
    pass_at: Callable[..., WindowResult],
    recorded: Recorded,
    use_of: Callable[..., list[Any]],
    everything: Everything,
    tmp_path: Path,
) -> None:
    (tmp_path / "evidence").write_text("in the way", "utf-8")
    before = everything()
    with pytest.raises(UnavailableError, match=r"^cannot write evidence"):
        pass_at(recorded(use_of(range(1_000)), DONE), 3_700)
    assert everything() == before


@pytest.mark.usefixtures("granted")
def test_evidence_that_is_gone_stops_the_rating_of_its_window(
    pass_at: Callable[..., WindowResult],
    recorded: Recorded,
    use_of: Callable[..., list[Any]],
    everything: Everything,
    tmp_path: Path,
) -> None:
    pass_at(recorded(use_of(range(1_000)), DONE), 3_700)
    for path in (tmp_path / "evidence").rglob("*.parquet"):
        path.unlink()
    before = everything()
    with pytest.raises(UnavailableError, match=r"^cannot read the evidence .*restore it from a backup"):
        pass_at(recorded(use_of(range(2_000)), DONE), 3_800)
    assert everything() == before


def test_record_only_grants_have_windows_of_their_own(
    ledger: Database,
    pass_at: Callable[..., WindowResult],
    put_grants: Callable[..., None],
    make_grant: Callable[..., Grant],
    hour_s: int,
) -> None:
    """Node '': no samples, no mark, no inventory; open while the hour lasts, settled after the grace; no residual."""
    put_grants(make_grant(gpu_uuid=None, node=""))
    down = _Down(None)
    opened = pass_at(down, 600, node=NO_NODE)
    assert opened.window is not None
    assert (opened.outcome, opened.window.rated_until_us) == (Outcome.OPEN, (hour_s + 600) * US)
    settled = pass_at(down, 3_630, node=NO_NODE)
    assert settled.window is not None
    assert settled.outcome is Outcome.SETTLED
    assert (settled.window.residual_compute, settled.window.residual_vram) == (0, 0)
    assert _gpu_seconds(ledger) == 3_600
    assert {each.node for each in _charges(ledger)} == {""}


def test_a_window_counts_what_no_rate_covers_and_what_does_not_add_up(
    ledger: Database,
    pass_at: Callable[..., WindowResult],
    recorded: Recorded,
    use_of: Callable[..., list[Any]],
    put_grants: Callable[..., None],
    make_grant: Callable[..., Grant],
) -> None:
    """Both of two tenants hold the card for ten seconds: the residual is what one of them has too much."""
    put_grants(make_grant(0, 100, allocation="a1"), make_grant(90, 200, allocation="a2"))
    result = pass_at(recorded(use_of(range(3_600)), DONE), 3_700)
    assert result.window is not None
    assert (result.window.residual_compute, result.window.unpriced_seconds) == (10 * 1_000, 0)
    assert result.window.residual_vram == 10 * 24 * 2**30
    put_grants(make_grant(0, 10, allocation="a3", gpu_uuid="GPU-404"))
    result = pass_at(recorded(use_of(range(3_600)), DONE), 3_700)
    assert result.window is not None
    assert (result.window.residual_compute, result.window.residual_vram) == (None, None)


def test_a_card_that_moves_while_it_is_held_leaves_no_residual(
    ledger: Database,
    pass_at: Callable[..., WindowResult],
    make_samples: Callable[..., pl.DataFrame],
    use_of: Callable[..., list[Any]],
    put_grants: Callable[..., None],
    make_grant: Callable[..., Grant],
    hour_s: int,
) -> None:
    """From n1 to n2 in the middle of the hour, and back for its last minutes; nobody ended the grant."""
    put_grants(make_grant())
    moves = [(0, 1_800, "n1"), (1_800, 3_000, "n2"), (3_000, None, "n1")]
    with ledger.write() as connection:
        inventory_us = (hour_s + 7_200) * US
        connection.execute(insert(nodes).values(node="n2", created_us=0, inventory_us=inventory_us))
        is_moved = device_periods.c.gpu_uuid == "GPU-1"
        card = dict(connection.execute(select(device_periods).where(is_moved)).mappings().one())
        del card["device_period_id"]
        connection.execute(delete(device_periods).where(is_moved))
        for start, end, node in moves:
            period = {"start_us": (hour_s + start) * US, "end_us": None if end is None else (hour_s + end) * US}
            connection.execute(insert(device_periods).values(**{**card, **period, "node": node}))
    samples = {
        "n1": make_samples([*use_of(range(1_800)), *use_of(range(3_000, 3_600)), *use_of(range(3_600), gpu="GPU-2")]),
        "n2": make_samples(use_of(range(1_800, 3_000))),
    }
    observations = RecordedObservations(samples, dict.fromkeys(samples, hour_s + DONE))
    for node in samples:
        result = pass_at(observations, 3_700, node=node)
        assert result.window is not None
        assert (result.window.residual_compute, result.window.residual_vram) == (0, 0)
    # It is billed by the node that its record names, and was seen there for 40 minutes.
    assert _gpu_seconds(ledger) == 2_400
    # Who holds it by the name of its new node holds it a second time.
    put_grants(make_grant(1_800, 3_000, allocation="a2", node="n2"))
    for node, seconds in (("n1", 0), ("n2", 1_200)):
        result = pass_at(observations, 3_800, node=node)
        assert result.window is not None
        assert result.window.residual_compute == seconds * 1_000


@pytest.mark.usefixtures("granted")
@pytest.mark.parametrize(
    ("skew", "settles"),
    [(None, True), (0.0, True), (0.6, True), (2.0, True), (2.001, False), (86_400.0, False)],
)
def test_a_window_of_a_node_whose_clock_is_wrong_waits_for_somebody_to_look(
    pass_at: Callable[..., WindowResult],
    recorded: Recorded,
    use_of: Callable[..., list[Any]],
    skew: float | None,
    settles: bool,
) -> None:
    """Design 4.2: above two seconds it does not settle by itself; it is rated, and settles at the deadline."""
    observations = recorded(use_of(range(3_600)), DONE, skew)
    result = pass_at(observations, 3_700)
    assert result.outcome is (Outcome.SETTLED if settles else Outcome.OPEN)
    assert sum(each.measured_seconds for each in result.charges if each.dimension == "gpu") == 3_600
    assert pass_at(observations, 73 * 3_600).outcome is Outcome.SETTLED


@pytest.mark.usefixtures("granted")
def test_what_is_known_of_a_lost_card_is_not_forgotten_with_its_samples(
    ledger: Database, pass_at: Callable[..., WindowResult], recorded: Recorded, everything: Everything, hour_s: int
) -> None:
    """It was lost all the hour, so nothing is billed; when retention has taken that away, heartbeats alone would."""
    with ledger.write() as connection:
        heard = {"start_us": hour_s * US, "end_us": (hour_s + 3_600) * US}
        connection.execute(insert(node_contacts).values(node="n1", **heard))
    lost = [("gpu_up", "GPU-1", "", "", second, 0.0) for second in range(-30, 3_630)]
    pass_at(recorded(lost, DONE), 3_700)
    assert _gpu_seconds(ledger) == 0
    before = everything()
    assert pass_at(recorded([], DONE), 3_800).kept_frozen
    assert everything() == before


@pytest.mark.usefixtures("granted")
def test_memory_that_the_store_has_lost_since_does_not_take_overuse_off_a_bill(
    ledger: Database,
    pass_at: Callable[..., WindowResult],
    recorded: Recorded,
    use_of: Callable[..., list[Any]],
    everything: Everything,
) -> None:
    """As many seconds were sampled as before, but of one series less is left."""
    up = [("gpu_up", "GPU-1", "", "", second, 1.0) for second in range(3_600)]
    pass_at(recorded([*up, *use_of(range(3_600), 25 * 2**30)], DONE), 3_700)
    before = everything()
    for rows in (up, [*up, *use_of(range(1_000), 25 * 2**30)]):
        result = pass_at(recorded(rows, DONE), 3_800)
        assert result.kept_frozen
        assert everything() == before


@pytest.mark.usefixtures("granted")
@pytest.mark.parametrize(("ticks", "free"), [(True, 3_000), (False, 0)])
def test_the_only_card_of_a_node_that_hangs_is_not_billed_while_the_collector_looks(
    ledger: Database,
    pass_at: Callable[..., WindowResult],
    recorded: Recorded,
    use_of: Callable[..., list[Any]],
    hour_s: int,
    ticks: bool,
    free: int,
) -> None:
    """Without a tick there was no collector: the node was heard from, so its card is on record."""
    with ledger.write() as connection:
        heard = {"start_us": hour_s * US, "end_us": (hour_s + 3_600) * US}
        connection.execute(insert(node_contacts).values(node="n1", **heard))
        connection.execute(delete(device_periods).where(device_periods.c.gpu_uuid == "GPU-2"))
    rows = use_of(range(600))
    if ticks:
        rows += [(COLLECTOR_LATENESS.name, "", "", "", second, 0.001) for second in range(DONE)]
    result = pass_at(recorded(rows, DONE), 3_700)
    assert {each.free_seconds for each in result.charges} == {free}
    assert _gpu_seconds(ledger) == 3_600 - free


@pytest.mark.usefixtures("granted")
def test_a_window_says_by_the_ledgers_clock_when_it_was_read(
    ledger: Database,
    pass_at: Callable[..., WindowResult],
    recorded: Recorded,
    use_of: Callable[..., list[Any]],
    at: Callable[[float], int],
) -> None:
    """Before its samples were, which may take a while; the pass itself goes by the time that it was told."""

    class TakesLong(RecordedObservations):
        def samples(self, node: str, start_s: int, end_s: int) -> pl.DataFrame:
            at(90_000)
            return super().samples(node, start_s, end_s)

    read_us = at(50_000)
    quick = recorded(use_of(range(3_600)), DONE)
    slow = TakesLong({"n1": quick.samples("n1", 0, 2**40)}, {"n1": quick.complete_until_s("n1") or 0})
    result = pass_at(slow, 3_700)
    assert result.window is not None
    assert result.window.rated_us == read_us
    with ledger.read() as connection:
        assert load_windows(connection, Principal.local_operator()) == [result.window]


@pytest.mark.usefixtures("granted")
def test_evidence_of_an_hour_is_the_frozen_one_once_there_is_one(
    make_rater: MakeRater, recorded: Recorded, use_of: Callable[..., list[Any]], hour_s: int
) -> None:
    hour, now_us = Period(hour_s * US, hour_s * US + HOUR_US), (hour_s + 4_000) * US
    rows = use_of(range(1_000))
    rater = make_rater(recorded(rows, DONE))
    unsettled = rater.evidence_of("n1", hour, now_us)
    rater.rate_window("n1", hour_s * US, now_us)
    assert make_rater(recorded([], DONE)).evidence_of("n1", hour, now_us).digest == unsettled.digest
    young = make_rater(recorded(rows)).evidence_of("n1", Period(hour.end_us, hour.end_us + HOUR_US), now_us + 1)
    assert young.period == Period(hour.end_us, now_us)


@pytest.mark.usefixtures("granted")
def test_heartbeats_before_the_hour_count_in_its_context(
    ledger: Database, pass_at: Callable[..., WindowResult], recorded: Recorded, hour_s: int
) -> None:
    """Last heard four seconds before it, and sampled never: six seconds on record, the rest free."""
    with ledger.write() as connection:
        heard = {"start_us": (hour_s - 100) * US, "end_us": (hour_s - 4) * US}
        connection.execute(insert(node_contacts).values(node="n1", **heard))
    pass_at(recorded([], DONE), 3_700)
    assert _gpu_seconds(ledger) == 6
