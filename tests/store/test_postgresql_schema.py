"""PostgreSQL keeps what it read, not what was written; both must mean the same."""

import subprocess
from collections.abc import Iterator
from contextlib import closing

import pytest

from domain.errors import UnavailableError
from store.database import Database
from store.migrate import check, upgrade
from tests.databases import url_of
from tests.postgresql_server import PostgresqlServer

AMOUNT = "ALTER TABLE charges DROP CONSTRAINT ck_charges_amount"
STATE = "ALTER TABLE windows DROP CONSTRAINT ck_windows_state, ADD CONSTRAINT ck_windows_state"
OPEN_WHOLE = "DROP INDEX uq_grants_open_whole; CREATE UNIQUE INDEX uq_grants_open_whole ON grants (gpu_uuid)"
KEY = "ALTER TABLE invoice_charges DROP CONSTRAINT pk_invoice_charges, ADD CONSTRAINT pk_invoice_charges"
TRIGGER = "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; CREATE TRIGGER t"


@pytest.fixture
def database(postgresql: PostgresqlServer) -> Iterator[Database]:
    with postgresql.empty() as url, closing(Database(url)) as database:
        upgrade(database)
        yield database


@pytest.mark.parametrize(
    ("statements", "part"),
    [
        (AMOUNT, "charges.ck_charges_amount"),
        (f"{AMOUNT}, ADD CONSTRAINT ck_charges_amount CHECK (amount_nano >= -1)", "charges.ck_charges_amount"),
        (f"{AMOUNT}, ADD CONSTRAINT ck_charges_amount CHECK (amount_nano >= 0) NOT VALID", "charges.ck_charges_amount"),
        (f"{STATE} CHECK (state IN ('open', 'settled', 'closed', '%%s'))", "windows.ck_windows_state"),
        (f"{STATE} CHECK (state IN ('open', 'settled', 'closed')) NO INHERIT", "windows.ck_windows_state"),
        ("ALTER TABLE charges ADD CONSTRAINT more CHECK (amount_nano < 9)", "charges.more"),
        (f"{OPEN_WHOLE} WHERE end_us IS NULL AND kind = 'none'", "grants.uq_grants_open_whole"),
        (OPEN_WHOLE, "grants.uq_grants_open_whole"),
        (
            f"{KEY} PRIMARY KEY (charge_id, invoice_id)",
            "invoice_charges.pk_invoice_charges",
        ),
        (
            "ALTER TABLE projects DISABLE TRIGGER ALL",
            "projects.fk_allocations_tenant_project, projects.fk_projects_t.*",
        ),
        (f"{TRIGGER} BEFORE INSERT ON charges FOR EACH ROW EXECUTE FUNCTION f()", "charges.t"),
        ("CREATE RULE r AS ON INSERT TO charges DO INSTEAD NOTHING", "charges.r"),
        ('ALTER TABLE tenants ALTER billing_zone TYPE text COLLATE "default"', "tenants.billing_zone"),
        ("ALTER TABLE charges ALTER amount_nano SET DEFAULT 0", "charges.amount_nano"),
        ("ALTER TABLE charges ALTER amount_nano TYPE real", "charges.amount_nano"),
        ("ALTER TABLE tenants ALTER currency DROP NOT NULL", "tenants.currency"),
        ("ALTER TABLE events ALTER event_id DROP IDENTITY", "events.event_id"),
    ],
)
def test_a_part_that_is_gone_or_changed_is_named(database: Database, statements: str, part: str) -> None:
    assert check(database)
    with database.write() as connection:
        connection.exec_driver_sql(statements)
    with pytest.raises(UnavailableError, match=rf"differ from migration '\w+' in {part}; restore a backup$"):
        check(database)


@pytest.mark.parametrize(
    "statements",
    [
        f"{STATE} CHECK (((state)::text = ANY (ARRAY['open'::text, 'settled', 'closed'])))",
        f"{AMOUNT}, ADD CONSTRAINT ck_charges_amount CHECK (((amount_nano) >= 0))",
        f"{OPEN_WHOLE} WHERE ((end_us IS NULL) AND (kind = 'whole'::text))",
    ],
)
def test_what_means_the_same_is_the_same(database: Database, statements: str) -> None:
    """In other words, as PostgreSQL itself puts it."""
    with database.write() as connection:
        connection.exec_driver_sql(statements)
    assert check(database)


def test_a_dump_that_was_restored_is_the_same(database: Database, postgresql: PostgresqlServer) -> None:
    programs = postgresql.programs

    def run(name: str, url: str, *options: str, given: bytes = b"") -> bytes:
        command = [str(programs.folder / name), f"--dbname={url.replace('+psycopg', '')}", *options]
        return subprocess.run(command, env=programs.environment, input=given, stdout=subprocess.PIPE, check=True).stdout

    dump = run("pg_dump", url_of(database))
    with postgresql.empty() as url, closing(Database(url)) as restored:
        run("psql", url, "--set=ON_ERROR_STOP=1", given=dump)
        assert check(restored) == check(database)


def test_a_check_needs_to_read_and_nothing_else(database: Database, postgresql: PostgresqlServer) -> None:
    """It changes nothing, also where the user could not."""
    with database.write() as connection:
        connection.exec_driver_sql("CREATE ROLE reader LOGIN")
        connection.exec_driver_sql("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
        kept = connection.exec_driver_sql("SELECT oid, xmin FROM pg_class ORDER BY oid").all()
    try:
        url = postgresql.url(str(database.engine.url.database), user="reader")
        with closing(Database(url)) as reading:
            assert check(reading)
        with database.read() as connection:
            assert connection.exec_driver_sql("SELECT oid, xmin FROM pg_class ORDER BY oid").all() == kept
    finally:
        with database.write() as connection:
            connection.exec_driver_sql("DROP OWNED BY reader; DROP ROLE reader")
