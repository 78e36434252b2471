"""Records as CSV, imported, exported and refused; hours that are closed to them."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import insert

from allocator.records.csv_rows import Problems, read_rows, write_rows
from allocator.records.store import ImportOutcome, export_rows, import_records
from domain.allocation_csv import COLUMNS
from domain.period import HOUR_US
from domain.skus import load_skus
from store.access import Principal
from store.database import Database
from store.tables.access import audit, projects, tenants
from store.tables.billing import windows
from store.tables.capacity import allocations, grants
from store.tables.closing import hour_digests

if TYPE_CHECKING:
    from tests.allocator.conftest import Ledger

OPERATOR = Principal.local_operator()
SKUS = load_skus()
TABLES = (allocations, grants, tenants, projects, audit)
ROW = {
    "allocation": "job-1",
    "tenant": "acme",
    "project": "lab",
    "node": "n9",
    "gpu_uuid": "GPU-x",
    "model": "NVIDIA L4",
    "kind": "whole",
    "vram_mib": "22522",
    "start": "0",
    "end": "3600",
}


def csv_text(*rows: dict[str, str]) -> str:
    """Allocation CSV: job-1 on a card that nobody knows, with these changes row by row."""
    text = io.StringIO()
    write_rows(text, [[{**ROW, **row}.get(name, "") for name in COLUMNS] for row in rows])
    return text.getvalue()


def load(ledger: "Ledger", text: str, source: str = "csv", **how: Any) -> ImportOutcome:
    """An import by the operator; `how` as `import_records` takes it."""
    problems = Problems()
    rows = read_rows(io.StringIO(text), problems)
    return import_records(ledger.database, OPERATOR, rows, problems, source=source, skus=SKUS, **how)


def export(ledger: "Ledger", principal: Principal = OPERATOR) -> str:
    """All records that somebody may see, as CSV."""
    text = io.StringIO()
    with ledger.database.read() as connection:
        write_rows(text, export_rows(connection, principal))
    return text.getvalue()


def close(ledger: "Ledger", node: str, *hours: int) -> None:
    """Close windows of the node, by hours since 1970."""
    row = {
        "node": node,
        "state": "closed",
        "revision": 1,
        "evidence_digest": "x",
        "residual_compute": 0,
        "residual_vram": 0,
        "unpriced_seconds": 0,
        "found_us": 0,
    }
    with ledger.database.write() as connection:
        for hour in hours:
            start_us = hour * HOUR_US
            connection.execute(insert(windows).values(**row, start_us=start_us, rated_until_us=start_us + HOUR_US))


def close_everywhere(ledger: "Ledger", hour: int) -> None:
    """Close the hour, counted since 1970, also of nodes that have no window in it."""
    with ledger.database.write() as connection:
        connection.execute(insert(hour_digests).values(start_us=hour * HOUR_US, digest="x"))


@contextmanager
def another_process(ledger: "Ledger") -> Iterator[Database]:
    """The ledger as another process has it open."""
    database = Database(ledger.url)
    yield database
    database.close()


def assert_refused(ledger: "Ledger", error: type[Exception], said: str, text: str, **how: Any) -> None:
    """An import that fails and leaves everything as it was."""
    before = ledger.everything(*TABLES)
    with pytest.raises(error, match=said):
        load(ledger, text, **how)
    assert ledger.everything(*TABLES) == before
