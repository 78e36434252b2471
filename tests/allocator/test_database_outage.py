"""A database that is away for a while: an answer that says so, and service again once it is back."""

from contextlib import closing
from typing import TYPE_CHECKING

import httpx

from allocator.service import create_app
from domain.capacity import ShareGrain
from domain.clock import MICROSECONDS
from domain.skus import load_skus
from domain.units import GIB
from store.access import Principal, Role, create_token
from store.database import Database, now_us
from store.migrate import upgrade
from tests.postgresql_server import PostgresqlServer

if TYPE_CHECKING:
    from tests.allocator.conftest import _Switch


def test_a_database_that_was_away_is_used_again(server: "tuple[_Switch, str]", postgresql: PostgresqlServer) -> None:
    switch, url = server
    with PostgresqlServer(postgresql.programs) as away, closing(Database(away.url("postgres"))) as database:
        upgrade(database)
        with database.write() as connection:
            now = now_us(connection)
            made = create_token(
                connection,
                Principal.local_operator(),
                role=Role.OPERATOR,
                now_us=now,
                expires_us=now + 3_600 * MICROSECONDS,
            )
        switch.app = create_app(database, skus=load_skus(), share_grain=ShareGrain(100, GIB), sink=None)
        with httpx.Client(headers={"Authorization": f"Bearer {made.secret}"}, timeout=60) as client:
            assert client.get(f"{url}/v1/devices").json() == {"devices": []}
            away.stop()
            for _ in range(2):
                refused = client.get(f"{url}/v1/devices")
                assert refused.status_code == 503
                assert refused.json()["detail"].startswith("cannot use the database: ")
                assert "\n" not in refused.json()["detail"]
            away.start()
            assert client.get(f"{url}/v1/devices").json() == {"devices": []}
