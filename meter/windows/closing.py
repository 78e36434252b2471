"""Closing hours one after the other, and what stands in the way."""

from collections.abc import Iterator

from meter.ledger import closing_store
from meter.ledger.closing_store import HourDigest
from meter.windows.backlog_store import find_windows
from store.access import Principal
from store.database import Database


def close_hours(database: Database, principal: Principal, until_us: int) -> Iterator[HourDigest]:
    """Close every hour that ends by `until_us`, the oldest first, each in a transaction of its own.

    Raises ConflictError at the first that cannot be closed, and closes none after it.
    """
    # What was said a moment ago is to be rated before, and keeps its hour from being closed.
    find_windows(database, principal)
    with database.read() as connection:
        hours = closing_store.unclosed_hours(connection, principal, until_us)
    for start_us in hours:
        with database.write() as connection:
            closed = closing_store.close_hour(connection, principal, start_us)
        if closed is not None:
            yield closed
