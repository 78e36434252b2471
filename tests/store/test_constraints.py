"""Illegal states are impossible: each CHECK, key and unique index refuses the row it is there for."""

from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import CheckConstraint, Connection, ForeignKeyConstraint, PrimaryKeyConstraint, UniqueConstraint
from sqlalchemy.exc import IntegrityError

from store.tables import METADATA
from tests.store.legal_rows import END_US, HOUR_US, LEGAL, fill, put

SETTLED = {"state": "settled", "evidence_digest": "d"}
CLOSED = {"state": "closed", "evidence_digest": "d", "residual_compute": 0, "residual_vram": 0}
MIG = {"kind": "mig", "mig_uuid": "MIG-1", "compute_units": 14, "compute_units_total": 98}

# (table, what makes the legal row illegal, the CHECK that says so)
CHECKS: list[tuple[str, dict[str, Any], str]] = [
    ("tenants", {"currency": "cny"}, "currency"),
    ("tenants", {"currency": "EURO"}, "currency"),
    ("price_books", {"currency": "Cny"}, "currency"),
    ("price_books", {"bridge_seconds": -1}, "bridge_seconds"),
    ("price_books", {"host_unreachable": "half"}, "host_unreachable"),
    ("price_books", {"collector_down": "half"}, "collector_down"),
    ("price_books", {"never_ready": "half"}, "never_ready"),
    ("tokens", {"role": "root", "tenant": None}, "role"),
    ("tokens", {"tenant": None}, "tenant_role"),
    ("tokens", {"role": "operator"}, "tenant_role"),
    ("tokens", {"role": "node", "tenant": None}, "node_role"),
    ("tokens", {"node": "n1"}, "node_role"),
    ("rates", {"end_us": -1}, "interval"),
    ("rates", {"tenant": None}, "project"),
    ("rates", {"basis": None}, "basis"),
    ("rates", {"dimension": "gpu"}, "basis"),
    ("node_contacts", {"end_us": -1}, "interval"),
    ("device_periods", {"end_us": -1}, "interval"),
    ("device_periods", {"compute_units": 0}, "compute_units"),
    ("device_periods", {"vram_reserved_bytes": -1}, "vram"),
    ("device_periods", {"vram_reserved_bytes": 100}, "vram"),
    ("device_periods", {"share_min_milli": None}, "share_grain"),
    ("device_periods", {"share_min_vram_bytes": None}, "share_grain"),
    ("device_periods", {"share_min_milli": 0}, "share_min_milli"),
    ("device_periods", {"share_min_milli": 1_001}, "share_min_milli"),
    ("device_periods", {"mig_enabled": True}, "sold_one_way"),
    ("mig_periods", {"end_us": -1}, "interval"),
    ("mig_periods", {"origin": "theirs"}, "origin"),
    ("mig_periods", {"start_slice": -1}, "placement"),
    ("mig_periods", {"slices": 0}, "placement"),
    ("mig_periods", {"sm_count": 0}, "size"),
    ("mig_periods", {"vram_bytes": 0}, "size"),
    ("device_states", {"end_us": -1}, "interval"),
    ("device_states", {"state": "lost"}, "state"),
    ("allocations", {"request_digest": None}, "idempotency"),
    ("allocations", {"idempotency_key": None}, "idempotency"),
    ("grants", {"end_us": -1}, "interval"),
    ("grants", {"kind": "vgpu"}, "kind"),
    ("grants", {"ordinal": -1}, "ordinal"),
    ("grants", {"kind": "share", "compute_units": 1_001}, "compute_units"),
    ("grants", {"kind": "share", "compute_units": -1}, "compute_units"),
    ("grants", {"compute_units": 0, "compute_units_total": 0}, "compute_units_total"),
    ("grants", {"compute_units": 500}, "whole"),
    ("grants", {"mig_uuid": "MIG-1"}, "mig"),
    ("grants", {**MIG, "gpu_uuid": None}, "device"),
    ("grants", {"node": ""}, "node"),
    ("grants", {"vram_bytes": -1}, "vram_bytes"),
    ("holds", {"end_us": -1}, "interval"),
    ("holds", {"reason": "mine"}, "reason"),
    ("holds", {"compute_units": -1}, "size"),
    ("holds", {"vram_bytes": -1}, "size"),
    ("windows", {**SETTLED, "state": "half"}, "state"),
    ("windows", {"start_us": HOUR_US + 1}, "hour"),
    ("windows", {"rated_until_us": HOUR_US - 1}, "rated_until_us"),
    ("windows", {"rated_until_us": END_US + 1}, "rated_until_us"),
    ("windows", {**SETTLED, "evidence_digest": None}, "settled"),
    ("windows", {**CLOSED, "residual_compute": 1}, "closed"),
    ("windows", {**CLOSED, "residual_vram": None}, "closed"),
    ("windows", {**CLOSED, "unpriced_seconds": 1}, "closed"),
    ("charges", {"free_seconds": 2}, "gap_classes"),
    ("charges", {"covered_seconds": 11}, "coverage"),
    ("charges", {"covered_seconds": -1}, "coverage"),
    ("charges", {"quantity": -1}, "quantity"),
    ("charges", {"quantity_whole": 0}, "quantity"),
    ("charges", {"amount_nano": -1}, "amount"),
    ("charges", {"rate_id": None}, "unpriced"),
    ("late_samples", {"seconds": 0}, "seconds"),
    ("corrections", {"reason": ""}, "reason"),
    ("adjustments", {"free_seconds": 1}, "gap_classes"),
    ("adjustments", {"quantity_whole": 0}, "quantity"),
    ("adjustments", {"rate_id": None}, "unpriced"),
    ("daily_charges", {"charges": 0}, "rows"),
    ("daily_charges", {"adjustments": -1}, "rows"),
    ("invoices", {"last_date": "2026-02-28"}, "period"),
]

# (table, a second legal row that clashes with the first, the columns that clash)
UNIQUE: list[tuple[str, dict[str, Any], str]] = [
    ("tenants", {"currency": "USD"}, "tenant"),
    ("projects", {"created_us": 1}, "tenant, project"),
    ("price_books", {"currency": "USD"}, "book"),
    ("tenant_books", {}, "tenant, start_us"),
    ("tokens", {"token_hash": "other"}, "token_id"),
    ("tokens", {"token_id": "tok_2"}, "token_hash"),
    ("rates", {"price": "0.04"}, "rate_id"),
    ("nodes", {"created_us": 1}, "node"),
    ("node_contacts", {"end_us": 5}, "node, start_us"),
    ("device_periods", {"start_us": 5}, "gpu_uuid"),
    ("device_periods", {"end_us": 5}, "gpu_uuid, start_us"),
    ("mig_periods", {"start_us": 5}, "mig_uuid"),
    ("mig_periods", {"end_us": 5}, "mig_uuid, start_us"),
    ("device_states", {"start_us": 5}, "gpu_uuid"),
    ("allocations", {"idempotency_key": None, "request_digest": None}, "allocation"),
    ("allocations", {"allocation": "a2"}, "tenant, idempotency_key"),
    ("grants", {"gpu_uuid": "GPU-2"}, "allocation, ordinal"),
    ("grants", {"ordinal": 1}, "gpu_uuid"),
    ("windows", {"revision": 1}, "node, start_us"),
    ("evidence", {"path": "y"}, "node, start_us, revision"),
    ("hour_digests", {"digest": "e"}, "start_us"),
    ("charges", {"amount_nano": 6}, "charge_id"),
    ("invoices", {"first_date": "2026-04-01", "last_date": "2026-04-30"}, "invoice_id"),
    ("invoices", {"invoice_id": "i2"}, "tenant, first_date"),
    ("invoice_charges", {"invoice_id": "i9"}, "charge_id"),
    (
        "daily_charges",
        {"amount_nanos": 1},
        "tenant, billing_date, project, sku, dimension, rate_id, quantity_whole, currency",
    ),
    ("window_leases", {"holder": "other"}, "node, start_us"),
    ("late_samples", {"seconds": 2}, "node, start_us"),
]

# (table, the columns that must point at something, to nothing)
FOREIGN: list[tuple[str, dict[str, Any]]] = [
    ("projects", {"tenant": "nobody"}),
    ("tenant_books", {"tenant": "nobody"}),
    ("tenant_books", {"book": "nothing"}),
    ("tokens", {"token_id": "tok_2", "token_hash": "other", "tenant": "nobody"}),
    ("rates", {"rate_id": "rate_2", "book": "nothing"}),
    ("rates", {"rate_id": "rate_2", "tenant": "nobody"}),
    ("node_contacts", {"node": "n9"}),
    ("device_periods", {"gpu_uuid": "GPU-9", "node": "n9"}),
    ("allocations", {"allocation": "a2", "idempotency_key": "k2", "project": "q"}),
    ("grants", {"allocation": "a9", "gpu_uuid": "GPU-9"}),
    ("holds", {"allocation": "a9"}),
    ("evidence", {"node": "n9"}),
    ("charges", {"charge_id": "ch_2", "node": "n9"}),
    ("charges", {"charge_id": "ch_2", "rate_id": "rate_9"}),
    ("charges", {"charge_id": "ch_2", "tenant": "nobody"}),
    ("late_samples", {"node": "n9"}),
    ("corrections", {"node": "n9"}),
    ("adjustments", {"correction_id": 9}),
    ("adjustments", {"rate_id": "rate_9"}),
    ("adjustments", {"tenant": "nobody"}),
    ("invoices", {"invoice_id": "i2", "tenant": "nobody"}),
    ("invoice_charges", {"invoice_id": "i9"}),
    ("invoice_charges", {"charge_id": "ch_9"}),
    ("daily_charges", {"tenant": "nobody"}),
]


@dataclass(frozen=True)
class Refusals:
    """What a database says, as patterns: of a CHECK its name, of a key its columns, of a column its name."""

    check: str
    unique: str
    foreign: str
    missing: str


REFUSALS = {
    "sqlite": Refusals(
        r"CHECK constraint failed: {}\n",
        r"UNIQUE constraint failed: {qualified}\n",
        "FOREIGN KEY constraint failed",
        r"NOT NULL constraint failed: {table}\.{column}\n",
    ),
    "postgresql": Refusals(
        'violates check constraint "{}"\n',
        r'violates unique constraint "[up][qk]_{table}\w*"\nDETAIL:  Key \({columns}\)=',
        'violates foreign key constraint "fk_',
        'null value in column "{column}" of relation "{table}" violates not-null constraint\n',
    ),
}


def refusals(connection: Connection) -> Refusals:
    return REFUSALS[connection.dialect.name]


def _taken(connection: Connection, table: str, columns: str) -> str:
    qualified = ", ".join(f"{table}.{column}" for column in columns.split(", "))
    return refusals(connection).unique.format(table=table, columns=columns, qualified=qualified)


def test_a_legal_row_of_every_table_is_taken(connection: Connection) -> None:
    fill(connection)
    assert set(LEGAL) == set(METADATA.tables)


@pytest.mark.parametrize(("table", "changes", "check"), CHECKS)
def test_a_check_refuses_its_illegal_state(
    connection: Connection, table: str, changes: dict[str, Any], check: str
) -> None:
    fill(connection, until=table)
    with pytest.raises(IntegrityError, match=refusals(connection).check.format(f"ck_{table}_{check}")):
        put(connection, table, **changes)


@pytest.mark.parametrize(("table", "changes", "columns"), UNIQUE)
def test_what_is_unique_is_not_there_twice(
    connection: Connection, table: str, changes: dict[str, Any], columns: str
) -> None:
    fill(connection)
    with pytest.raises(IntegrityError, match=_taken(connection, table, columns)):
        put(connection, table, **changes)


@pytest.mark.parametrize(("table", "changes"), FOREIGN)
def test_what_is_pointed_at_exists(connection: Connection, table: str, changes: dict[str, Any]) -> None:
    fill(connection, until=table)
    with pytest.raises(IntegrityError, match=refusals(connection).foreign):
        put(connection, table, **changes)


@pytest.mark.parametrize("table", METADATA.tables)
def test_a_column_that_must_be_set_cannot_be_left_out(connection: Connection, table: str) -> None:
    legal = [each for each in METADATA.tables[table].columns if each.name in LEGAL[table]]
    # What the database numbers by itself may be left out.
    columns = [each for each in legal if not each.nullable and each.identity is None]
    assert columns
    fill(connection, until=table)
    for column in columns:
        said = refusals(connection).missing.format(table=table, column=column.name)
        with pytest.raises(IntegrityError, match=said), connection.begin_nested():
            put(connection, table, **{column.name: None})


def test_an_instance_is_granted_once_at_a_time(connection: Connection) -> None:
    """One open grant a whole card and a MIG instance; shares and ended grants may be many."""
    fill(connection, until="grants")
    share = {"kind": "share", "compute_units": 1}
    legal: list[dict[str, Any]] = [{"end_us": 5}, {}, MIG, {**MIG, "mig_uuid": "MIG-2"}, share, share, share]
    for ordinal, changes in enumerate(legal):
        put(connection, "grants", **{"ordinal": ordinal, **changes})
    with pytest.raises(IntegrityError, match=_taken(connection, "grants", "mig_uuid")):
        put(connection, "grants", ordinal=9, **MIG)


def test_a_window_that_adds_up_can_be_closed(connection: Connection) -> None:
    fill(connection, until="windows")
    put(connection, "windows", **CLOSED)


def test_every_constraint_has_a_case_above() -> None:
    """A new CHECK, key or unique index needs a row that it refuses."""
    checks, unique, foreign = set(), set(), set()
    for table in METADATA.tables.values():
        for constraint in table.constraints:
            if isinstance(constraint, CheckConstraint):
                checks.add(str(constraint.name))
            elif isinstance(constraint, UniqueConstraint | PrimaryKeyConstraint):
                unique.add((table.name, ", ".join(column.name for column in constraint.columns)))
            elif isinstance(constraint, ForeignKeyConstraint):
                foreign.add((table.name, *constraint.column_keys))
        unique |= {(table.name, ", ".join(c.name for c in index.columns)) for index in table.indexes if index.unique}
    # Keys that the database numbers, and a key that a narrower one implies.
    numbered = {(table.name, f"{table.name.rstrip('s')}_id") for table in METADATA.tables.values()}
    numbered |= {("audit", "audit_id"), ("invoice_charges", "invoice_id, charge_id")}
    assert checks == {f"ck_{table}_{check}" for table, _, check in CHECKS}
    listed = {(table, columns) for table, _, columns in UNIQUE} | {("grants", "mig_uuid")}
    assert unique - numbered == listed - numbered
    for table_name, *columns in foreign:
        assert any(table == table_name and set(columns) & set(changes) for table, changes in FOREIGN), (
            table_name,
            columns,
        )
