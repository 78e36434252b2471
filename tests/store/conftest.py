"""What tests of the store are made of: an empty migrated database, and one with two tenants in it."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import Connection

from store.access import Principal, Role
from store.database import Database
from tests.databases import Databases
from tests.store.legal_rows import put_two_tenants


@pytest.fixture
def database(migrated_url: str) -> Iterator[Database]:
    """An empty ledger of the test's own."""
    with closing(Database(migrated_url)) as database:
        yield database


@pytest.fixture(scope="module")
def shared(databases: Databases, migrated: str) -> Iterator[Database]:
    """An empty ledger for tests that leave nothing in it."""
    with databases.copy(migrated) as url, closing(Database(url)) as database:
        yield database


@pytest.fixture
def connection(shared: Database) -> Iterator[Connection]:
    """A transaction on an empty ledger, of which nothing is kept."""
    with shared.engine.connect() as connection:
        yield connection


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
        put_two_tenants(connection)
    return database
