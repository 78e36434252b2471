"""What tests of the store are made of: an empty migrated database, and one with two tenants in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from store.access import Principal, Role
from store.database import Database
from store.migrate import upgrade
from tests.store.legal_rows import HOUR_US, put


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
        put(connection, "nodes")
        for number, tenant in enumerate(("acme", "globex")):
            put(connection, "tenants", tenant=tenant)
            put(connection, "projects", tenant=tenant)
            put(connection, "allocations", allocation=f"a-{tenant}", tenant=tenant)
            put(connection, "grants", allocation=f"a-{tenant}", gpu_uuid=f"GPU-{number}", start_us=HOUR_US)
    return database
