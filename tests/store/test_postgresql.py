"""What a PostgreSQL server refuses is one line that says what to do; what it was set up with changes nothing."""

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from threading import Barrier, Thread

import pytest
from sqlalchemy import insert, select, text, update
from sqlalchemy.exc import ProgrammingError

from domain.clock import SystemClock
from domain.errors import ConflictError, GputabError, InputError, NotFoundError, UnavailableError
from store.database import Database, now_us, serialize
from store.migrate import check, upgrade
from store.tables.capacity import nodes
from tests.postgresql_server import PostgresqlServer


@pytest.fixture
def database(postgresql: PostgresqlServer) -> Iterator[Database]:
    with postgresql.empty() as url, closing(Database(url)) as database:
        upgrade(database)
        with database.write() as connection:
            connection.execute(insert(nodes), [{"node": node, "created_us": 0} for node in ("n1", "n2")])
        yield database


@pytest.fixture
def role(database: Database, postgresql: PostgresqlServer) -> Iterator[str]:
    """Somebody who may connect, owns nothing and is asked for the password 'right'."""
    postgresql.administer("CREATE ROLE asked")
    postgresql.administer("CREATE ROLE unlocked LOGIN PASSWORD 'right' IN ROLE asked")
    yield "unlocked"
    postgresql.administer("DROP ROLE unlocked")
    postgresql.administer("DROP ROLE asked")


def _refusal(use: Callable[[], object], error: type[GputabError] = UnavailableError) -> str:
    with pytest.raises(error) as refused:
        use()
    said = str(refused.value)
    assert said.startswith("cannot ")
    assert "\n" not in said
    assert "hunter2" not in said
    return said


def _ask(url: str, sql: str = "SELECT 1") -> None:
    with closing(Database(url)) as database, database.write() as connection:
        connection.execute(text(sql))


def _name(database: Database) -> str:
    return str(database.engine.url.database)


def test_both_forms_of_a_url_name_the_same_server(postgresql: PostgresqlServer) -> None:
    url = postgresql.url("postgres")
    _ask(url)
    _ask(url.replace("+psycopg", ""))


def test_a_password_that_is_wrong_is_not_printed(database: Database, postgresql: PostgresqlServer, role: str) -> None:
    """Nor is a lock suspected, whatever the user's name is."""
    name = _name(database)
    _ask(postgresql.url(name, f"{role}:right"))
    remedy = "; check the user and the password of `database_url`, and whom the server lets in"
    for user in (f"{role}:hunter2", role, "nobody:hunter2"):
        said = _refusal(lambda user=user: _ask(postgresql.url(name, user)))  # type: ignore[misc]
        assert said.endswith(remedy)


@pytest.mark.parametrize(
    ("url", "error", "said"),
    [
        ("postgresql://gputab@/none?host={}", UnavailableError, 'database "none" does not exist; create it on the ser'),
        ("postgresql://gputab@/none?host={}/x", UnavailableError, "No such file or directory; check `database_url`, a"),
        ("postgresql://g:hunter2@127.0.0.1:1/x", UnavailableError, "Connection refused; check `database_url`, and"),
        ("postgresql://g:hunter2@no.invalid/x", UnavailableError, "; check `database_url`, and"),
        ("postgresql://g:hunter2@127.0.0.1:999999/x", UnavailableError, 'invalid port number: "999999"; check'),
        ("postgresql://g@/x?host={}&sslmode=hunter", UnavailableError, 'invalid sslmode value: "hunter"; check'),
        ("postgresql://g:hunter2@/x?hots={}", InputError, 'invalid connection option "hots"; name options as libpq'),
    ],
)
def test_a_server_that_is_not_found_is_one_line(
    postgresql: PostgresqlServer, url: str, error: type[GputabError], said: str
) -> None:
    assert said in _refusal(lambda: _ask(url.format(postgresql.folder)), error)


def test_a_server_that_says_nothing_is_given_up() -> None:
    """It listens and does not answer; the URL gives it less time than we do."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://gputab@127.0.0.1:{silent.getsockname()[1]}/gputab?connect_timeout=2"
        assert "timeout expired; check `database_url`, and" in _refusal(lambda: _ask(url))


def test_a_user_who_owns_nothing_is_told_so(database: Database, postgresql: PostgresqlServer, role: str) -> None:
    url = postgresql.url(_name(database), f"{role}:right")
    with closing(Database(url)) as guest:
        for use in (check, upgrade):
            said = _refusal(lambda use=use: use(guest))  # type: ignore[misc]
            assert said.endswith("; let the user of `database_url` own the database and its tables")
    with postgresql.empty() as empty, closing(Database(empty.replace("gputab@", f"{role}:right@"))) as guest:
        # Up to release 14 everybody may make tables in the schema `public`.
        if postgresql.programs.release >= 15:
            assert "permission denied for schema public; let the user" in _refusal(lambda: upgrade(guest))


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            "SET default_transaction_read_only = on",
            "read-only transaction; it is a standby, or set to be read only; na",
        ),
        ("CONNECTION LIMIT 0", "; end some of its connections, or let it have more; then try again"),
    ],
)
def test_a_server_that_takes_no_write_or_no_more_is_told(
    database: Database, postgresql: PostgresqlServer, role: str, statement: str, said: str
) -> None:
    postgresql.administer(f"ALTER ROLE {role} {statement}")
    url = postgresql.url(_name(database), f"{role}:right")
    assert said in _refusal(lambda: _ask(url, "CREATE TABLE t (x integer)"))


@pytest.mark.parametrize(
    ("setting", "sql", "said"),
    [
        ("lock_timeout", "LOCK TABLE nodes", "; another process has held its lock for 15 s; stop it or try again"),
        (
            "statement_timeout",
            "SELECT pg_sleep(20)",
            "; it took longer than the server allows by statement_timeout; al",
        ),
        ("idle_in_transaction_session_timeout", "SELECT 1", "; the server ended the connection; try again"),
    ],
)
def test_what_takes_too_long_is_told(database: Database, setting: str, sql: str, said: str) -> None:
    def wait() -> None:
        with database.write() as connection:
            connection.execute(text(f"SET LOCAL {setting} = 50"))
            SystemClock().sleep_s(0.2 if "idle" in setting else 0)
            connection.execute(text(sql))

    with database.read() as connection:
        connection.execute(select(nodes)).all()
        assert said in _refusal(wait)
    with database.read() as connection:
        assert len(connection.execute(select(nodes)).all()) == 2


def test_a_write_waits_for_another_as_long_as_on_sqlite(database: Database) -> None:
    with database.write() as connection:
        assert connection.execute(text("SHOW lock_timeout")).scalar_one() == "15s"


def test_a_server_that_goes_away_and_comes_back_is_used_again(postgresql: PostgresqlServer) -> None:
    """In the middle of a transaction, between two, and after it came back without a word to us."""
    with (
        PostgresqlServer(postgresql.programs) as server,
        closing(Database(server.url("postgres"))) as database,
    ):

        def in_the_middle() -> None:
            with database.write() as connection:
                connection.execute(text("CREATE TABLE t (x integer)"))
                server.stop()
                connection.execute(text("SELECT 1"))

        assert _refusal(in_the_middle).endswith("; the server ended the connection; try again")
        assert "No such file or directory; check `database_url`, and" in _refusal(lambda: check(database))
        server.start()
        with database.write() as connection:
            # What was not committed is not there.
            connection.execute(text("CREATE TABLE t (x integer)"))
        server.stop()
        server.start()
        with database.read() as connection:
            assert connection.execute(text("SELECT * FROM t")).all() == []


def test_of_two_that_wait_for_each_other_one_gives_way(database: Database) -> None:
    both_hold_one = Barrier(2)
    refused: list[str] = []

    def take(first: str, second: str) -> None:
        try:
            with database.write() as connection:
                for node in (first, second):
                    connection.execute(update(nodes).where(nodes.c.node == node).values(created_us=1))
                    if node == first:
                        both_hold_one.wait()
        except UnavailableError as error:
            refused.append(str(error))

    threads = [Thread(target=take, args=pair) for pair in (("n1", "n2"), ("n2", "n1"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == ["cannot use the database: deadlock detected; another transaction was in the way; try again"]


def test_a_row_that_another_has_written_meanwhile_is_a_conflict(database: Database) -> None:
    def write() -> None:
        with database.write() as connection:
            connection.execute(insert(nodes).values(node="n1", created_us=0))

    assert "another process was faster (duplicate key value" in _refusal(write, ConflictError)


@pytest.mark.parametrize(
    ("changes", "said"), [({"node": "n\0"}, "cannot contain NUL"), ({"created_us": 2**63}, "bigint out of range")]
)
def test_what_cannot_be_kept_is_unusable_input(database: Database, changes: dict[str, object], said: str) -> None:
    def write() -> None:
        with database.write() as connection:
            connection.execute(insert(nodes).values(**{"node": "n3", "created_us": 0, **changes}))

    assert said in _refusal(write, InputError)


def test_what_cannot_have_been_kept_is_not_found(database: Database) -> None:
    def ask() -> None:
        with database.read() as connection:
            connection.execute(select(nodes).where(nodes.c.node == "n\0"))

    assert _refusal(ask, NotFoundError) == "cannot find a name with a NUL character in it: check the name"


def test_a_statement_that_is_none_is_a_fault_of_ours(database: Database) -> None:
    with pytest.raises(ProgrammingError), database.write() as connection:
        connection.execute(text("SELEC 1"))


def test_what_the_server_was_set_up_with_changes_nothing(database: Database, postgresql: PostgresqlServer) -> None:
    """Neither its time zone nor the isolation it has by itself: who waited sees what the other has written."""
    name = _name(database)
    postgresql.administer(f"ALTER DATABASE {name} SET timezone = 'Asia/Tokyo'")
    postgresql.administer(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    with closing(Database(postgresql.url(name))) as other:
        with other.read() as connection:
            assert abs(now_us(connection) - SystemClock().now_us()) < 5_000_000
        with other.write() as connection:
            assert connection.execute(text("SELECT count(*) FROM nodes")).scalar_one() == 2
            with database.write() as writing:
                writing.execute(insert(nodes).values(node="n3", created_us=0))
            serialize(connection, "a name")
            assert connection.execute(text("SELECT count(*) FROM nodes")).scalar_one() == 3
