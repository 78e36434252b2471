"""Windows and charges in the database: replaced as a whole, found by what is asked for, never out of order."""

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest
from sqlalchemy import insert, select

from domain.errors import ConflictError
from domain.grants import OPEN_END_US, Grant
from domain.period import HOUR_US, Period
from meter.charges import Charge
from meter.ledger_store import (
    NO_NODE,
    FrozenEvidence,
    Window,
    busy_periods,
    hours_to_rate,
    load_charges,
    load_frozen,
    load_window,
    load_windows,
    nodes_to_meter,
    save_window,
)
from store.access import Principal
from store.database import Database
from store.tables.billing import charges, evidence, windows
from store.tables.capacity import nodes

US = 1_000_000
HOUR_S = 1_772_359_200
OPEN = Window("n1", HOUR_S * US, "open", HOUR_S * US + 60 * US, 0, None, 0, 0, 0)
SETTLED = replace(OPEN, state="settled", rated_until_us=HOUR_S * US + HOUR_US, revision=1, evidence_digest="d1")
FILE = FrozenEvidence("2026/n1.r1.parquet", "d1", 5)
CHARGE = Charge(
    node="n1",
    window_start_us=HOUR_S * US,
    allocation="a1",
    ordinal=0,
    dimension="gpu",
    rate_id=None,
    billing_date="2026-03-01",
    tenant="acme",
    project="p",
    sku="rtx4090-24g",
    granted_seconds=10,
    measured_seconds=10,
    bridged_seconds=0,
    on_record_seconds=0,
    free_seconds=0,
    covered_seconds=10,
    quantity=10_000,
    quantity_whole=1_000,
    currency="CNY",
    amount_nano=0,
)


@pytest.fixture
def save(ledger: Database, operator: Principal) -> Callable[..., None]:
    def saved(window: Window, *its_charges: Charge, frozen: FrozenEvidence | None = None) -> None:
        with ledger.write() as connection:
            save_window(connection, operator, window, its_charges, frozen)

    return saved


def _stored(ledger: Database) -> list[Charge]:
    with ledger.read() as connection:
        return load_charges(connection, Principal.local_operator())


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
        assert load_frozen(connection, operator, OPEN) is None
    assert _stored(ledger) == [record, CHARGE]


def test_charges_take_the_place_of_those_before_and_of_no_others(ledger: Database, save: Callable[..., None]) -> None:
    """Those of another hour and of another node stay."""
    later = replace(OPEN, start_us=OPEN.start_us + HOUR_US, rated_until_us=OPEN.rated_until_us + HOUR_US)
    kept = [replace(CHARGE, window_start_us=later.start_us), replace(CHARGE, node="n2")]
    save(later, kept[0])
    save(replace(OPEN, node="n2"), kept[1])
    save(OPEN, CHARGE, replace(CHARGE, allocation="a2"))
    save(OPEN, replace(CHARGE, granted_seconds=20, measured_seconds=20))
    assert [(each.node, each.window_start_us, each.granted_seconds) for each in _stored(ledger)] == [
        ("n1", OPEN.start_us, 20),
        ("n2", OPEN.start_us, 10),
        ("n1", later.start_us, 10),
    ]
    save(OPEN)
    assert len(_stored(ledger)) == 2


@pytest.mark.parametrize(
    ("before", "after", "is_refused"),
    [
        (OPEN, replace(OPEN, rated_until_us=OPEN.rated_until_us + US), False),
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
    ledger: Database,
    save: Callable[..., None],
    everything: Callable[[], dict[str, Any]],
    before: Window,
    after: Window,
    is_refused: bool,
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
            assert connection.execute(select(windows)).mappings().one() == asdict(after)


def test_old_evidence_stays_on_record(ledger: Database, save: Callable[..., None]) -> None:
    save(SETTLED, frozen=FILE)
    save(SETTLED, frozen=FILE)
    second = replace(SETTLED, revision=2, evidence_digest="d2")
    save(second, frozen=FrozenEvidence("2026/n1.r2.parquet", "d2", 6))
    with ledger.read() as connection:
        rows = connection.execute(select(evidence).order_by(evidence.c.revision)).all()
    assert [(row.revision, row.digest) for row in rows] == [(1, "d1"), (2, "d2")]


def test_a_charges_name_hashes_what_it_is_for_and_nothing_else(ledger: Database, save: Callable[..., None]) -> None:
    """Design 4.5: neither a clock nor a number of the database is part of a charge row."""
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


def test_nodes_are_those_that_report_or_hold_grants(
    ledger: Database, put_grants: Callable[..., None], make_grant: Callable[..., Grant], operator: Principal
) -> None:
    with ledger.write() as connection:
        connection.execute(insert(nodes).values(node="n3", created_us=0))
    with ledger.read() as connection:
        assert nodes_to_meter(connection, operator) == {"n1": (HOUR_S + 36_000) * US, "n3": None}
    put_grants(
        make_grant(allocation="a1", node="n2", gpu_uuid="GPU-9"),
        make_grant(allocation="a2", node="n4", gpu_uuid=None),
    )
    with ledger.read() as connection:
        found = nodes_to_meter(connection, operator)
    # The record-only grant's node is only a note: it is metered under ''.
    assert found == {"n1": (HOUR_S + 36_000) * US, "n2": None, "n3": None, NO_NODE: None}


def test_a_node_is_busy_while_it_has_a_card_or_a_grant(
    ledger: Database, put_grants: Callable[..., None], make_grant: Callable[..., Grant], operator: Principal
) -> None:
    early, record = make_grant(-7_200, -3_600.5), make_grant(0, 60, allocation="a2", gpu_uuid=None)
    put_grants(early, record)
    cards = [Period(HOUR_S * US, OPEN_END_US)] * 2
    with ledger.read() as connection:
        assert busy_periods(connection, operator, "n1") == [early.period, *cards]
        assert busy_periods(connection, operator, NO_NODE) == [record.period]
        assert busy_periods(connection, operator, "n9") == []


def test_hours_are_due_from_the_first_that_was_busy_to_the_present_one(
    ledger: Database,
    save: Callable[..., None],
    put_grants: Callable[..., None],
    make_grant: Callable[..., Grant],
    operator: Principal,
) -> None:
    """Holes between busy stretches are not due; settled and closed hours are done."""
    put_grants(make_grant(-4 * 3_600 + 10, -4 * 3_600 + 20))

    def due(now_s: float) -> list[int]:
        with ledger.read() as connection:
            hours = hours_to_rate(connection, operator, "n1", round((HOUR_S + now_s) * US))
        return [(start_us // US - HOUR_S) // 3_600 for start_us in hours]

    assert due(-3_600) == [-4]
    assert due(0) == [-4]
    assert due(0.000001) == [-4, 0]
    assert due(3_600) == [-4, 0]
    assert due(3_601) == [-4, 0, 1]
    save(SETTLED, frozen=FILE)
    assert due(3_601) == [-4, 1]
    save(replace(OPEN, start_us=OPEN.start_us - 4 * HOUR_US, rated_until_us=OPEN.start_us - 4 * HOUR_US))
    assert due(3_601) == [-4, 1]


def test_a_time_of_zero_is_a_time(
    ledger: Database, put_grants: Callable[..., None], make_grant: Callable[..., Grant], operator: Principal
) -> None:
    """A trace that counts from 0 has its first hours in 1970."""
    record = replace(make_grant(0, 1, gpu_uuid=None, node=""), start_us=0, end_us=HOUR_US + 1)
    put_grants(record)
    with ledger.read() as connection:
        assert hours_to_rate(connection, operator, NO_NODE, HOUR_S * US) == [0, HOUR_US]
