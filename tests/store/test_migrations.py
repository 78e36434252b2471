"""One history: up, checked against the models, down, and up again."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from sqlalchemy import inspect, text

from domain.errors import UnavailableError
from store.database import Database
from store.migrate import check, downgrade, upgrade
from store.tables import METADATA


def _tables(database: Database) -> set[str]:
    with database.read() as connection:
        return set(inspect(connection).get_table_names()) - {"alembic_version"}


@pytest.fixture
def empty(database_url: str) -> Iterator[Database]:
    with closing(Database(database_url)) as database:
        yield database


def test_the_migrations_make_the_tables_that_the_models_describe(empty: Database) -> None:
    upgrade(empty)
    assert check(empty)
    assert _tables(empty) == set(METADATA.tables)


def test_down_and_up_again_ends_where_it_began(database: Database) -> None:
    head = check(database)
    downgrade(database)
    assert _tables(database) == set()
    upgrade(database)
    assert check(database) == head


def test_upgrading_twice_changes_nothing(two_tenants: Database) -> None:
    upgrade(two_tenants)
    with two_tenants.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM tenants")).scalar_one() == 2


def test_a_database_without_migrations_is_told_how_to_get_them(empty: Database) -> None:
    empty.make_file()
    with pytest.raises(UnavailableError, match=r"migration 'none'.*gputab db upgrade"):
        check(empty)


def test_a_database_of_a_later_gputab_is_left_alone(database: Database) -> None:
    """Neither check nor upgrade ends in a traceback, and neither touches it."""
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999_of_the_future'"))
    with pytest.raises(UnavailableError, match=r"^cannot use .*'9999_of_the_future': .* a newer gputab; use that one$"):
        check(database)
    with pytest.raises(UnavailableError, match=r"^cannot .*'9999_of_the_future'.* newer") as refused:
        upgrade(database)
    assert "\n" not in str(refused.value)
    with database.read() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one() == "9999_of_the_future"


def test_a_table_that_somebody_changed_is_found(database: Database) -> None:
    with database.write() as connection:
        connection.execute(text("ALTER TABLE tenants ADD COLUMN discount INTEGER"))
    with pytest.raises(UnavailableError, match=r"differ from migration '\w+' in tenants.discount; restore a backup$"):
        check(database)


def test_a_migration_that_fails_leaves_nothing_behind(empty: Database) -> None:
    empty.make_file()
    with empty.write() as connection:
        connection.execute(text("CREATE TABLE grants (surprise INTEGER)"))
    said = r'^cannot use the database: \w+ "?grants"? already exists; it holds what no gputab made; name another'
    with pytest.raises(UnavailableError, match=said):
        upgrade(empty)
    assert _tables(empty) == {"grants"}


def test_hosts_that_begin_at_once_make_the_tables_once(database_url: str) -> None:
    def begin(_number: int) -> str:
        with closing(Database(database_url)) as database:
            upgrade(database)
            return check(database)

    with ThreadPoolExecutor(4) as threads:
        heads = set(threads.map(begin, range(4)))
    assert len(heads) == 1


def test_every_step_goes_down_and_up_with_what_is_in_the_tables(two_tenants: Database) -> None:
    head = check(two_tenants)
    downgrade(two_tenants, "0001")
    with pytest.raises(UnavailableError, match=f"at migration '0001': gputab needs '{head}'; run `gputab db upgrade`$"):
        check(two_tenants)
    upgrade(two_tenants)
    assert check(two_tenants) == head
    with two_tenants.read() as connection:
        names = connection.execute(text("SELECT tenant FROM allocations ORDER BY tenant")).scalars().all()
    assert names == ["acme", "globex"]
