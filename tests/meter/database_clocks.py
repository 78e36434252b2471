"""A database that reads a test's clock for its own."""

import sqlite3
from typing import Any

from sqlalchemy import event

from domain.clock import FrozenClock
from domain.period import HOUR_US
from store.database import Database


def keep_time(database: Database, clock: FrozenClock) -> None:
    """Let whoever asks the database for its clock be answered by `clock`."""

    def answer_julianday(connection: sqlite3.Connection, _record: Any) -> None:
        # What SQLite reads its clock by.
        connection.create_function("julianday", 1, lambda _: 2_440_587.5 + clock.now_us() / (24 * HOUR_US))

    def answer_clock_timestamp(_connection: Any, _cursor: Any, statement: str, given: Any, *_how: Any) -> Any:
        # What PostgreSQL reads its clock by.
        instant = f"(timestamptz 'epoch' + {clock.now_us()} * interval '1 microsecond')"
        return statement.replace("clock_timestamp()", instant), given

    if database.engine.dialect.name == "sqlite":
        event.listen(database.engine, "connect", answer_julianday)
    else:
        event.listen(database.engine, "before_cursor_execute", answer_clock_timestamp, retval=True)
