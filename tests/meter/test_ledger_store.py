"""Windows and charges in the database: replaced as a whole, found by what is asked for, never out of order."""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest
from sqlalchemy import insert, select

from domain.clock import MICROSECONDS
from domain.errors import ConflictError
from domain.period import HOUR_US, Period
from meter.ledger.ledger_store import (
    NO_NODE,
    FrozenEvidence,
    Window,
    inventory_us,
    load_charges,
    load_frozen,
    load_window,
    load_windows,
    rated_nodes,
    save_window,
)
from meter.ledger.unclosed_store import Unclosed, load_unclosed
from meter.rating.charges import Charge
from store.access import Principal
from store.database import Database
from store.tables.billing import charges, evidence, windows
from tests.meter.charges import make_charge
from tests.meter.fixture_types import Everything
from tests.meter.hour import START_US, instant_us
from tests.meter.ledgers import add_node, charges_of

OPEN = Window("n1", START_US, "open", instant_us(60), 0, None, 0, 0, 0, 3)
SETTLED = replace(OPEN, state="settled", rated_until_us=START_US + HOUR_US, revision=1, evidence_digest="d1")
FILE = FrozenEvidence(1, "2026/n1.r1.parquet", "d1", 5, samples=7, quarantined_samples=2, skew_us=None)
CHARGE = make_charge()


@pytest.fixture
def save(ledger: Database, operator: Principal) -> Callable[..., None]:
    def saved(window: Window, *its_charges: Charge, frozen: FrozenEvidence | None = None) -> None:
        with ledger.write() as connection:
            save_window(connection, operator, window, its_charges, frozen)

    return saved


def test_a_window_and_its_charges_come_back_as_they_were(
    ledger: Database, save: Callable[..., None], operator: Principal
) -> None:
    record = replace(CHARGE, node="", covered_seconds=None)
    save(SETTLED, CHARGE, frozen=FILE)
    save(replace(OPEN, node="", residual_compute=None), record)
    with ledger.read() as connection:
        assert load_window(connection, operator, "n1", SETTLED.start_us) == SETTLED
        assert load_window(connection, operator, "n1", SETTLED.start_us + HOUR_US) is None
        assert load_frozen(connection, operator, SETTLED) == FILE
        assert load_frozen(connection, operator, replace(OPEN, node="")) is None
    assert charges_of(ledger) == [record, CHARGE]


def test_charges_take_the_place_of_those_before_and_of_no_others(ledger: Database, save: Callable[..., None]) -> None:
    """Those of another hour and of another node stay."""
    later = replace(OPEN, start_us=OPEN.start_us + HOUR_US, rated_until_us=OPEN.rated_until_us + HOUR_US)
    kept = [replace(CHARGE, window_start_us=later.start_us), replace(CHARGE, node="n2")]
    save(later, kept[0])
    save(replace(OPEN, node="n2"), kept[1])
    save(OPEN, CHARGE, replace(CHARGE, allocation="a2"))
    save(OPEN, replace(CHARGE, granted_seconds=20, measured_seconds=20))
    assert [(each.node, each.window_start_us, each.granted_seconds) for each in charges_of(ledger)] == [
        ("n1", OPEN.start_us, 20),
        ("n2", OPEN.start_us, 10),
        ("n1", later.start_us, 10),
    ]
    save(OPEN)
    assert len(charges_of(ledger)) == 2


@pytest.mark.parametrize(
    ("before", "after", "is_refused"),
    [
        (OPEN, replace(OPEN, rated_until_us=OPEN.rated_until_us + MICROSECONDS), False),
        (OPEN, SETTLED, False),
        (SETTLED, SETTLED, False),
        (SETTLED, replace(SETTLED, revision=2, evidence_digest="d2"), False),
        (SETTLED, OPEN, True),
        (replace(SETTLED, revision=2), SETTLED, True),
        (SETTLED, replace(SETTLED, evidence_digest="d2"), True),
        (replace(SETTLED, state="closed"), SETTLED, True),
        (replace(SETTLED, state="closed"), replace(SETTLED, revision=2, evidence_digest="d2"), True),
    ],
)
def test_a_window_only_moves_on(
    ledger: Database, save: Callable[..., None], everything: Everything, before: Window, after: Window, is_refused: bool
) -> None:
    save(before, CHARGE, frozen=FILE if before.state != "open" else None)
    rows = everything()
    if is_refused:
        with pytest.raises(ConflictError, match=r"^cannot rate the window 'n1' '2026-03-01T10:00:00Z': another meter"):
            save(after, replace(CHARGE, allocation="a2"))
        assert everything() == rows
    else:
        save(after)
        with ledger.read() as connection:
            assert connection.execute(select(windows)).mappings().one() == {**asdict(after), "found_us": 0}


def test_old_evidence_stays_on_record(ledger: Database, save: Callable[..., None]) -> None:
    save(SETTLED, frozen=FILE)
    save(SETTLED, frozen=FILE)
    second = replace(SETTLED, revision=2, evidence_digest="d2")
    save(second, frozen=replace(FILE, revision=2, path="2026/n1.r2.parquet", digest="d2"))
    with ledger.read() as connection:
        rows = connection.execute(select(evidence).order_by(evidence.c.revision)).all()
    assert [(row.revision, row.digest) for row in rows] == [(1, "d1"), (2, "d2")]


def test_a_charges_name_hashes_what_it_is_for_and_nothing_else(ledger: Database, save: Callable[..., None]) -> None:
    """Neither a clock nor a number of the database is part of a charge row."""
    keys = ("node", "window_start_us", "allocation", "ordinal", "dimension", "rate_id", "billing_date")
    changed: dict[str, Any] = {name: {"ordinal": 7, "window_start_us": 0}.get(name, "other") for name in keys}
    assert len({CHARGE.charge_id, *(replace(CHARGE, **{name: changed[name]}).charge_id for name in keys)}) == 8
    assert replace(CHARGE, amount_nano=9, granted_seconds=1, sku="x", project="q").charge_id == CHARGE.charge_id
    # A separator keeps neighbours apart: "a1"+"2" is not "a"+"12".
    assert (
        replace(CHARGE, allocation="a", ordinal=12).charge_id != replace(CHARGE, allocation="a1", ordinal=2).charge_id
    )
    save(OPEN, CHARGE)
    with ledger.read() as connection:
        columns = set(charges.c.keys())
        assert connection.execute(select(charges.c.charge_id)).scalar_one() == CHARGE.charge_id
    assert columns - set(asdict(CHARGE)) == {"charge_id"}


def test_charges_are_found_by_tenant_day_and_window(
    ledger: Database, save: Callable[..., None], operator: Principal
) -> None:
    days = [replace(CHARGE, allocation=f"a{day}", billing_date=f"2026-03-0{day}") for day in (1, 2, 3)]
    save(OPEN, *days)
    with ledger.read() as connection:

        def found(**asked: Any) -> list[str]:
            return [each.allocation for each in load_charges(connection, operator, **asked)]

        assert found() == ["a1", "a2", "a3"]
        assert found(first_date="2026-03-02") == ["a2", "a3"]
        assert found(last_date="2026-03-02") == ["a1", "a2"]
        assert found(first_date="2026-03-02", last_date="2026-03-02") == ["a2"]
        assert found(tenant="globex") == []
        assert found(windows_in=Period(OPEN.start_us, OPEN.start_us + 1)) == ["a1", "a2", "a3"]
        assert found(windows_in=Period(OPEN.start_us + 1, OPEN.start_us + HOUR_US)) == []


def test_windows_are_found_by_node_and_start(ledger: Database, save: Callable[..., None], operator: Principal) -> None:
    for node in ("n2", "n1"):
        for hour in (1, 0):
            start_us = OPEN.start_us + hour * HOUR_US
            save(replace(OPEN, node=node, start_us=start_us, rated_until_us=start_us))
    with ledger.read() as connection:

        def found(*asked: Any, **named: Any) -> list[tuple[int, str]]:
            rows = load_windows(connection, operator, *asked, **named)
            return [((each.start_us - OPEN.start_us) // HOUR_US, each.node) for each in rows]

        assert found() == [(0, "n1"), (0, "n2"), (1, "n1"), (1, "n2")]
        assert found(node="n2") == [(0, "n2"), (1, "n2")]
        assert found(Period(OPEN.start_us + 1, OPEN.start_us + HOUR_US + 1)) == [(1, "n1"), (1, "n2")]


def test_the_nodes_with_windows_are_listed_and_so_is_the_one_without_a_device(
    ledger: Database, save: Callable[..., None], operator: Principal
) -> None:
    """A node that reports and was never looked at has none."""
    add_node(ledger, "n3")
    for node in ("n2", NO_NODE, "n1", "n2"):
        save(replace(OPEN, node=node))
    with ledger.read() as connection:
        assert rated_nodes(connection, operator) == [NO_NODE, "n1", "n2"]


def test_a_node_that_never_reported_has_no_inventory(ledger: Database, operator: Principal) -> None:
    add_node(ledger, "n3")
    with ledger.read() as connection:
        found = [inventory_us(connection, operator, node) for node in ("n1", "n3", "n9", NO_NODE)]
    assert found == [instant_us(36_000), None, None, None]


def test_a_window_that_was_found_is_rated_in_its_place(
    ledger: Database, save: Callable[..., None], operator: Principal
) -> None:
    """When it was found stays as it was; one that nobody found before is put there, and is no mark of a search."""
    with ledger.write() as connection:
        found = {**asdict(OPEN), "rated_until_us": OPEN.start_us, "rated_us": None, "found_us": 77}
        connection.execute(insert(windows).values(**found))
    save(OPEN, CHARGE)
    save(replace(OPEN, node="n2"))
    with ledger.read() as connection:
        rows = connection.execute(select(windows).order_by(windows.c.node)).all()
        assert [(row.node, row.found_us, row.rated_us, row.rated_until_us) for row in rows] == [
            ("n1", 77, 3, OPEN.rated_until_us),
            ("n2", 0, 3, OPEN.rated_until_us),
        ]
        assert load_window(connection, operator, "n1", OPEN.start_us) == OPEN


def test_what_stands_in_the_way_of_a_close_is_summed_over_what_is_not_closed(
    ledger: Database, save: Callable[..., None], operator: Principal
) -> None:
    """Also of old windows, and beyond what 64 bits hold; capacity that is not known is counted, and is no 0."""
    hours = [
        replace(SETTLED, start_us=START_US + hour * HOUR_US, rated_until_us=START_US + (hour + 1) * HOUR_US)
        for hour in range(5)
    ]
    save(replace(hours[0], residual_compute=2**62, residual_vram=7))
    save(replace(hours[1], residual_compute=2**62, unpriced_seconds=0))
    save(replace(hours[2], residual_compute=None, residual_vram=None, unpriced_seconds=6))
    save(replace(hours[3], rated_until_us=hours[3].start_us, residual_compute=9, state="open"))
    save(replace(hours[4], residual_compute=0, residual_vram=0, unpriced_seconds=0, state="closed"))
    save(replace(hours[0], node="n2", residual_compute=0, unpriced_seconds=0))
    with ledger.read() as connection:
        found = load_unclosed(connection, operator)
    assert found == {"n1": Unclosed(2.0**63, 7, 1, 6), "n2": Unclosed(0, 0, 0, 0)}
    assert (found["n1"].is_blocked, found["n2"].is_blocked) == (True, False)
