"""What tests of the store are made of: an empty migrated database, and one with two tenants in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import insert

from store.access import Principal, Role
from store.database import Database
from store.migrate import upgrade
from store.tables import access, capacity

NOW_US = 1_772_359_200_000_000


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database at the newest migration, closed, to be copied."""
    file = tmp_path_factory.mktemp("store") / "migrated.db"
    database = Database(f"sqlite:///{file}")
    upgrade(database)
    with database.engine.connect() as connection:
        # All of it into the one file, so that a copy is whole.
        connection.exec_driver_sql("COMMIT")
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.exec_driver_sql("BEGIN")
    database.close()
    return file


@pytest.fixture
def database(migrated_file: Path, tmp_path: Path) -> Iterator[Database]:
    """An empty ledger of the test's own, at `tmp_path / "gputab.db"`."""
    file = tmp_path / "gputab.db"
    file.write_bytes(migrated_file.read_bytes())
    database = Database(f"sqlite:///{file}")
    yield database
    database.close()


@pytest.fixture
def operator() -> Principal:
    return Principal.local_operator()


@pytest.fixture
def acme() -> Principal:
    """A token of the tenant acme."""
    return Principal("tok_acme", Role.TENANT, tenant="acme")


@pytest.fixture
def two_tenants(database: Database) -> Database:
    """acme and globex, each with a project, an allocation and a grant on a card of the node n1."""
    with database.write() as connection:
        connection.execute(insert(capacity.nodes).values(node="n1", created_us=NOW_US))
        for number, tenant in enumerate(("acme", "globex")):
            connection.execute(
                insert(access.tenants).values(tenant=tenant, billing_zone="UTC", currency="CNY", created_us=NOW_US)
            )
            connection.execute(insert(access.projects).values(tenant=tenant, project="p", created_us=NOW_US))
            connection.execute(
                insert(capacity.allocations).values(
                    allocation=f"a-{tenant}",
                    tenant=tenant,
                    project="p",
                    source="service",
                    labels="{}",
                    created_us=NOW_US,
                )
            )
            connection.execute(
                insert(capacity.grants).values(
                    allocation=f"a-{tenant}",
                    ordinal=0,
                    node="n1",
                    gpu_uuid=f"GPU-{number}",
                    kind="whole",
                    model="NVIDIA GeForce RTX 4090",
                    sku="rtx4090-24g",
                    compute_units=1_000,
                    compute_units_total=1_000,
                    vram_bytes=24 * 2**30,
                    start_us=NOW_US,
                    changed_us=NOW_US,
                )
            )
    return database
