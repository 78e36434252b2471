"""Transactions, the same on both databases, and URLs that name none."""

from contextlib import ExitStack, closing, suppress
from threading import Thread

import pytest
from sqlalchemy import func, insert, select, text
from sqlalchemy.exc import IntegrityError

from domain.clock import SystemClock
from domain.errors import GputabError, InputError, UnavailableError
from store.database import Database, now_us, serialize
from store.tables.access import tenants
from store.tables.capacity import nodes
from tests.databases import url_of

ACME = {"tenant": "acme", "billing_zone": "UTC", "currency": "CNY", "created_us": 0}


def test_a_transaction_that_fails_leaves_nothing_behind(database: Database) -> None:
    def fail() -> None:
        with database.write() as connection:
            connection.execute(insert(tenants).values(**ACME))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with database.read() as connection:
        assert connection.execute(select(tenants)).all() == []


def test_a_reader_sees_one_state_while_others_write(database: Database) -> None:
    with database.read() as reader:
        assert reader.execute(select(tenants)).all() == []
        with database.write() as writer:
            writer.execute(insert(tenants).values(**ACME))
        assert reader.execute(select(tenants)).all() == []
    with database.read() as reader:
        assert len(reader.execute(select(tenants)).all()) == 1


def test_what_a_reader_writes_is_not_kept(database: Database) -> None:
    """PostgreSQL refuses it at once."""
    with suppress(UnavailableError), database.read() as connection:
        connection.execute(insert(tenants).values(**ACME))
    with database.read() as connection:
        assert connection.execute(select(tenants)).all() == []


def test_a_second_process_writes_while_the_first_reads(database: Database) -> None:
    with closing(Database(url_of(database))) as other, database.read() as connection:
        connection.execute(select(tenants)).all()
        with other.write() as writing:
            writing.execute(insert(nodes).values(node="n1", created_us=0))


def test_tables_that_are_missing_name_the_command_that_makes_them(database_url: str) -> None:
    with closing(Database(database_url)) as database:
        database.make_file()
        with (
            pytest.raises(UnavailableError, match=r"^cannot use the database: .*tenants.*; run `gputab db upgrade`$"),
            database.read() as connection,
        ):
            connection.execute(select(tenants)).all()


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_a_number_beyond_64_bits_is_kept_nowhere(database: Database, number: int) -> None:
    """And said in one line, whichever of driver and server finds out."""
    with (
        pytest.raises(InputError, match=r"^cannot keep this in the database: [^\n]*; use a smaller number"),
        database.write() as connection,
    ):
        connection.execute(insert(tenants).values(**{**ACME, "created_us": number}))
    with database.read() as connection:
        assert connection.execute(select(tenants)).all() == []


def test_the_largest_numbers_come_back_as_they_were(database: Database) -> None:
    largest = 2**63 - 1
    with database.write() as connection:
        connection.execute(insert(nodes).values(node="n1", created_us=-largest - 1, inventory_us=largest))
        assert connection.execute(select(nodes)).all() == [("n1", -largest - 1, largest)]


def test_text_is_ordered_by_code_points_wherever_the_server_stands(database: Database) -> None:
    """A server that was set up for English has a, A, b, and ignores what is no letter."""
    names = ["b", "A", "a-2", "a", "B", "a_1", "a1", "ä", "Z", "z", "", "~", "0", "a.b", "ab", "\U0001f600", "\uffff"]
    with database.write() as connection:
        connection.execute(insert(nodes), [{"node": name, "created_us": 0} for name in names])
        in_order = connection.execute(select(nodes.c.node).order_by(nodes.c.node)).scalars().all()
        beyond = connection.execute(select(nodes.c.node).where(nodes.c.node > "a")).scalars().all()
        least, most = connection.execute(select(func.min(nodes.c.node), func.max(nodes.c.node))).one()
    assert in_order == sorted(names)
    assert set(beyond) == {name for name in names if name > "a"}
    assert (least, most) == (min(names), max(names))


def test_as_many_transactions_run_at_once_as_a_service_has_threads(database: Database) -> None:
    """AnyIO, which FastAPI runs requests on, has 40; the service's publisher is one more."""
    with ExitStack() as stack:
        for _ in range(41):
            stack.enter_context(database.read())
        with database.write() as connection:
            connection.execute(text("SELECT 1"))


def test_more_transactions_than_that_are_told_so(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database.engine.pool, "_timeout", 0.01)
    with ExitStack() as stack:
        for _ in range(48):
            stack.enter_context(database.read())
        with pytest.raises(UnavailableError) as refused, database.write():
            pass
    assert str(refused.value).startswith("cannot use the database: all 48 connections of this process are busy; try ")
    assert "\n" not in str(refused.value)


def test_a_choice_waits_for_the_one_that_was_before_it(database: Database) -> None:
    """Rows that are not there yet cannot be locked; what is named can."""
    order: list[str] = []

    def second() -> None:
        with database.write() as connection:
            serialize(connection, "a name")
            order.append(connection.execute(select(nodes.c.node)).scalar_one())

    waiting = Thread(target=second)
    with database.write() as connection:
        serialize(connection, "a name")
        waiting.start()
        waiting.join(timeout=0.2)
        order.append("first")
        connection.execute(insert(nodes).values(node="n1", created_us=0))
    waiting.join()
    assert order == ["first", "n1"]


def test_a_fault_of_ours_stays_one(database: Database) -> None:
    """A CHECK that refuses tells nobody what to do."""
    with pytest.raises(IntegrityError), database.write() as connection:
        connection.execute(insert(tenants).values(**{**ACME, "currency": "yuan"}))


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("nonsense", "cannot read the database URL: write sqlite:///FILE"),
        ("", "cannot read the database URL"),
        ("postgresql://user:hunter2@host:port/name", "cannot read the database URL"),
        ("mysql://user:hunter2@host/name", "cannot use the database 'mysql': use sqlite or postgresql"),
        ("sqlite://", "cannot keep the ledger in memory: write sqlite:///FILE"),
        ("sqlite:///:memory:", "cannot keep the ledger in memory"),
        ("sqlite:///x.db?mode=ro", "cannot use a SQLite URL with options: write sqlite:///FILE"),
        ("sqlite+aiosqlite:///x.db", "cannot use the database driver 'sqlite.aiosqlite': write sqlite:///FILE"),
        ("postgresql+psycopg2://host/name", "cannot use the database driver 'postgresql.psycopg2': write"),
        ("postgresql+psycopg_async://host/name", "cannot use the database driver 'postgresql.psycopg_async'"),
        (
            "postgresql://user:@hunter2@host/name",
            "cannot read the database URL: write %40 for an @ in its user or pass",
        ),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_password(url: str, problem: str) -> None:
    with pytest.raises(GputabError, match=f"^{problem}") as refused:
        Database(url)
    assert "hunter2" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_databases_clock_is_the_hosts(database: Database) -> None:
    before_us = SystemClock().now_us()
    with database.read() as connection:
        read_us = now_us(connection)
    assert before_us - 2_000 <= read_us <= SystemClock().now_us() + 2_000
