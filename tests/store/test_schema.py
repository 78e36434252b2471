"""A database whose tables are not those of its migration is found, whatever was changed in them."""

import pytest

from domain.errors import UnavailableError
from store.database import Database
from store.migrate import check


@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ("DROP INDEX uq_grants_open_whole", "grants"),
        ("CREATE TABLE refunds (x INTEGER)", "refunds"),
        ("ALTER TABLE tenants ADD COLUMN discount INTEGER", "tenants.discount"),
        ("CREATE UNIQUE INDEX more ON charges (tenant)", "charges"),
    ],
)
def test_what_was_added_or_dropped_is_named(database: Database, statement: str, part: str) -> None:
    assert check(database)
    with database.write() as connection:
        connection.exec_driver_sql(statement)
    with pytest.raises(UnavailableError, match=rf"differ from migration '\w+' in {part}; restore a backup$"):
        check(database)


def test_what_a_database_keeps_for_itself_is_no_difference(database: Database) -> None:
    with database.write() as connection:
        connection.exec_driver_sql("ANALYZE")
    assert check(database)
