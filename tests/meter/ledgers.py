"""What others than the meter write into its ledger, and what a test reads of it. Times are offsets into the hour."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Table, delete, insert, select, update

from domain.grants import Grant
from domain.prices import PriceBook
from domain.units import GIB
from meter.ledger.ledger_store import load_charges
from meter.prices.price_store import load_book
from meter.rating.charges import Charge
from store.access import Principal
from store.database import Database
from store.tables import METADATA, billing, capacity
from store.tenants import assign_book, create_project, create_tenant
from tests.meter.charges import gpu_charges
from tests.meter.hour import instant_us

# When something was done is no part of what it came to.
BOOKKEEPING = {"windows.found_us", "windows.rated_us"}


def add_acme(database: Database, operator: Principal, book: PriceBook) -> None:
    """The tenant acme with the projects p and q, rated by the book since ever."""
    with database.write() as connection:
        create_tenant(connection, operator, tenant="acme", zone="UTC", currency="CNY", now_us=0)
        for project in ("p", "q"):
            create_project(connection, operator, tenant="acme", project=project, now_us=0)
        load_book(connection, operator, book, now_us=0)
        assign_book(connection, operator, tenant="acme", book=book.book, start_us=0, now_us=0)


def add_node(database: Database, node: str, reported: float | None = None) -> None:
    """A node whose last inventory report is of that time; None: it never sent one."""
    inventory_us = None if reported is None else instant_us(reported)
    with database.write() as connection:
        connection.execute(insert(capacity.nodes).values(node=node, created_us=0, inventory_us=inventory_us))


def add_card(
    database: Database,
    gpu_uuid: str,
    start: float = 0,
    end: float | None = None,
    *,
    node: str = "n1",
    index: int = 0,
    changed_us: int = 0,
) -> None:
    """An RTX 4090 that stood on the node in [start, end), as was known all the time unless `changed_us` is said."""
    with database.write() as connection:
        connection.execute(
            insert(capacity.device_periods).values(
                gpu_uuid=gpu_uuid,
                node=node,
                device_index=index,
                model="NVIDIA GeForce RTX 4090",
                sku="rtx4090-24g",
                compute_units=1_000,
                vram_total_bytes=25 * GIB,
                vram_reserved_bytes=GIB,
                mig_enabled=False,
                offered_profiles="",
                start_us=instant_us(start),
                end_us=None if end is None else instant_us(end),
                changed_us=changed_us,
            )
        )


def remove_card(database: Database, gpu_uuid: str) -> None:
    """As if it had never been there."""
    with database.write() as connection:
        connection.execute(delete(capacity.device_periods).where(capacity.device_periods.c.gpu_uuid == gpu_uuid))


def end_cards(database: Database, end: float) -> None:
    """Every card is gone from then on, as was known all the time."""
    with database.write() as connection:
        connection.execute(update(capacity.device_periods).values(end_us=instant_us(end)))


def add_heartbeats(database: Database, start: float, end: float) -> None:
    """n1 was heard from in [start, end]."""
    with database.write() as connection:
        heard = {"start_us": instant_us(start), "end_us": instant_us(end)}
        connection.execute(insert(capacity.node_contacts).values(node="n1", **heard))


def add_grants(database: Database, grants: Iterable[Grant], changed_us: int) -> None:
    """Each with its allocation, where that is not there yet."""
    with database.write() as connection:
        known = set(connection.execute(select(capacity.allocations.c.allocation)).scalars())
        for grant in grants:
            if grant.allocation not in known:
                known.add(grant.allocation)
                connection.execute(
                    insert(capacity.allocations).values(
                        allocation=grant.allocation,
                        tenant=grant.tenant,
                        project=grant.project,
                        source=grant.source,
                        source_id=grant.source_id,
                        labels="{}",
                        created_us=0,
                    )
                )
            of_allocation = ("tenant", "project", "source", "source_id")
            columns = {name: value for name, value in asdict(grant).items() if name not in of_allocation}
            connection.execute(insert(capacity.grants).values(**columns, changed_us=changed_us))


def forget_bills(database: Database) -> None:
    """As if no meter had ever run; the files of evidence stay."""
    with database.write() as connection:
        for table in (billing.charges, billing.daily_charges, billing.evidence, billing.windows):
            connection.execute(delete(table))


def charges_of(database: Database) -> list[Charge]:
    """All charges of the ledger."""
    with database.read() as connection:
        return load_charges(connection, Principal.local_operator())


def gpu_seconds(database: Database) -> int:
    """Billed GPU-seconds of the ledger."""
    return sum(each.quantity // each.quantity_whole for each in gpu_charges(charges_of(database)))


def everything(database: Database, evidence: Path) -> dict[str, Any]:
    """All rows of all tables, but for bookkeeping, and the bytes of all evidence, to be compared."""
    with database.read() as connection:
        rows: dict[str, Any] = {
            name: sorted(map(repr, connection.execute(select(*_compared(table)))))
            for name, table in METADATA.tables.items()
        }
    files = sorted(path for path in evidence.rglob("*") if path.is_file())
    return rows | {str(path): path.read_bytes() for path in files}


def _compared(table: Table) -> list[Column[Any]]:
    return [column for column in table.columns if f"{table.name}.{column.name}" not in BOOKKEEPING]
