"""One legal row of each table."""

from typing import Any

from sqlalchemy import Connection, insert

from store.tables import METADATA

HOUR_US = 1_772_359_200_000_000
END_US = HOUR_US + 3_600_000_000

# One legal row of each table, in an order that foreign keys allow.
LEGAL: dict[str, dict[str, Any]] = {
    "tenants": {"tenant": "acme", "billing_zone": "UTC", "currency": "CNY", "created_us": 0},
    "projects": {"tenant": "acme", "project": "p", "created_us": 0},
    "price_books": {
        "book": "retail",
        "currency": "CNY",
        "bridge_seconds": 3,
        "host_unreachable": "free",
        "collector_down": "on_record",
        "never_ready": "free",
    },
    "tenant_books": {"tenant": "acme", "book": "retail", "start_us": 0, "changed_us": 0},
    "tokens": {
        "token_id": "tok_1",
        "token_hash": "h",
        "role": "tenant",
        "tenant": "acme",
        "node": None,
        "created_us": 0,
        "expires_us": 1,
        "revoked_us": None,
    },
    "audit": {"at_us": 0, "principal": "local", "action": "create", "subject": "acme"},
    "rates": {
        "rate_id": "rate_1",
        "book": "retail",
        "dimension": "vram",
        "sku": "*",
        "tenant": "acme",
        "project": "p",
        "price": "0.03",
        "unit": "GiB-hour",
        "basis": "max",
        "start_us": 0,
        "end_us": None,
        "changed_us": 0,
    },
    "nodes": {"node": "n1", "created_us": 0, "inventory_us": None},
    "node_contacts": {"node": "n1", "start_us": 0, "end_us": 0},
    "device_periods": {
        "gpu_uuid": "GPU-1",
        "node": "n1",
        "device_index": 0,
        "model": "NVIDIA L4",
        "sku": "l4-24g",
        "compute_units": 1_000,
        "vram_total_bytes": 100,
        "vram_reserved_bytes": 1,
        "mig_enabled": False,
        "offered_profiles": "",
        "share_min_milli": 100,
        "share_min_vram_bytes": 10,
        "start_us": 0,
        "end_us": None,
        "changed_us": 0,
    },
    "mig_periods": {
        "mig_uuid": "MIG-1",
        "gpu_uuid": "GPU-1",
        "gi_id": 1,
        "profile": "1g.10gb",
        "start_slice": 0,
        "slices": 1,
        "sm_count": 14,
        "vram_bytes": 10,
        "origin": "ours",
        "start_us": 0,
        "end_us": None,
        "changed_us": 0,
    },
    "device_states": {"gpu_uuid": "GPU-1", "state": "ok", "reason": "", "start_us": 0, "end_us": None, "changed_us": 0},
    "allocations": {
        "allocation": "a1",
        "tenant": "acme",
        "project": "p",
        "source": "service",
        "source_id": None,
        "labels": "{}",
        "idempotency_key": "k",
        "request_digest": "d",
        "created_us": 0,
    },
    "grants": {
        "allocation": "a1",
        "ordinal": 0,
        "node": "n1",
        "gpu_uuid": "GPU-1",
        "mig_uuid": None,
        "mig_start": None,
        "kind": "whole",
        "model": "NVIDIA L4",
        "sku": "l4-24g",
        "compute_units": 1_000,
        "compute_units_total": 1_000,
        "vram_bytes": 99,
        "start_us": 0,
        "end_us": None,
        "changed_us": 0,
    },
    "holds": {
        "gpu_uuid": "GPU-1",
        "mig_uuid": None,
        "allocation": "a1",
        "reason": "reserved",
        "compute_units": 0,
        "vram_bytes": 0,
        "start_us": 0,
        "end_us": None,
        "changed_us": 0,
    },
    "events": {"at_us": 0, "node": "n1", "gpu_uuid": None, "kind": "xid", "detail": "{}"},
    "windows": {
        "node": "n1",
        "start_us": HOUR_US,
        "state": "open",
        "rated_until_us": END_US,
        "revision": 0,
        "evidence_digest": None,
        "residual_compute": None,
        "residual_vram": None,
        "unpriced_seconds": 0,
        "found_us": 0,
        "rated_us": None,
    },
    "evidence": {
        "node": "n1",
        "start_us": HOUR_US,
        "revision": 1,
        "path": "x",
        "digest": "d",
        "size_bytes": 1,
        "samples": 1,
        "quarantined_samples": 0,
        "skew_us": None,
    },
    "window_leases": {"node": "n1", "start_us": HOUR_US, "holder": "h", "until_us": END_US},
    "hour_digests": {"start_us": HOUR_US, "digest": "d", "previous_digest": None},
    "charges": {
        "charge_id": "ch_1",
        "node": "n1",
        "window_start_us": HOUR_US,
        "allocation": "a1",
        "ordinal": 0,
        "tenant": "acme",
        "project": "p",
        "sku": "l4-24g",
        "dimension": "gpu",
        "rate_id": "rate_1",
        "billing_date": "2026-03-01",
        "granted_seconds": 10,
        "measured_seconds": 4,
        "bridged_seconds": 3,
        "on_record_seconds": 2,
        "free_seconds": 1,
        "covered_seconds": 4,
        "quantity": 9,
        "quantity_whole": 1,
        "currency": "CNY",
        "amount_nano": 5,
    },
    "late_samples": {"node": "n1", "start_us": HOUR_US, "seconds": 1},
    "corrections": {
        "correction_id": 1,
        "node": "n1",
        "start_us": HOUR_US,
        "revision": 2,
        "evidence_digest": "d",
        "reason": "r",
        "principal": "local",
        "created_us": 0,
        "digest": "d",
        "previous_digest": None,
    },
    "adjustments": {
        "correction_id": 1,
        "charge_id": "ch_1",
        "allocation": "a1",
        "ordinal": 0,
        "tenant": "acme",
        "project": "p",
        "sku": "l4-24g",
        "dimension": "gpu",
        "rate_id": "rate_1",
        "billing_date": "2026-03-01",
        "granted_seconds": -1,
        "measured_seconds": -1,
        "bridged_seconds": 0,
        "on_record_seconds": 0,
        "free_seconds": 0,
        "covered_seconds": -1,
        "quantity": -1,
        "quantity_whole": 1,
        "currency": "CNY",
        "amount_nano": -1,
    },
    "invoices": {
        "invoice_id": "i1",
        "tenant": "acme",
        "first_date": "2026-03-01",
        "last_date": "2026-03-31",
        "currency": "CNY",
        "total_nano": 0,
    },
    "invoice_charges": {"invoice_id": "i1", "charge_id": "ch_1"},
    "daily_charges": {
        "tenant": "acme",
        "billing_date": "2026-03-01",
        "project": "p",
        "sku": "l4-24g",
        "dimension": "gpu",
        "rate_id": "rate_1",
        "quantity_whole": 1,
        "currency": "CNY",
        "charges": 1,
        "adjustments": 0,
        "granted_seconds": 1,
        "covered_seconds": 0,
        "coverable_seconds": 0,
        "amount_wholes": 0,
        "amount_nanos": 5,
    },
}


def put(connection: Connection, table: str, **changes: Any) -> None:
    """The legal row of the table with these changes."""
    connection.execute(insert(METADATA.tables[table]).values(**{**LEGAL[table], **changes}))


def fill(connection: Connection, until: str | None = None) -> None:
    """Legal rows, up to but without those of the table `until`."""
    for table in LEGAL:
        if table == until:
            return
        put(connection, table)


def put_two_tenants(connection: Connection) -> None:
    """acme and globex, each with a project, an allocation and a grant on a card of the node n1."""
    put(connection, "nodes")
    for number, tenant in enumerate(("acme", "globex")):
        put(connection, "tenants", tenant=tenant)
        put(connection, "projects", tenant=tenant)
        put(connection, "allocations", allocation=f"a-{tenant}", tenant=tenant)
        put(connection, "grants", allocation=f"a-{tenant}", gpu_uuid=f"GPU-{number}", start_us=HOUR_US)
