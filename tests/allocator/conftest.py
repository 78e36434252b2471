"""A migrated database with two tenants, and the real service on a loopback port."""

import importlib.util
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
import uvicorn
from sqlalchemy import select, update
from starlette.types import ASGIApp, Receive, Scope, Send

from allocator.client import AllocatorClient
from allocator.service import create_app
from domain.capacity import ShareGrain
from domain.clock import MICROSECONDS
from domain.inventory import Device, Inventory, MigInstance
from domain.skus import load_skus
from domain.units import GIB, MIB
from store.access import Principal, Role, create_token, revoke_token
from store.database import Database, now_us
from store.tables.capacity import node_contacts
from store.tenants import create_project, create_tenant
from tests.databases import Databases

OPERATOR = Principal.local_operator()
GRAIN = ShareGrain(100, GIB)
_DAY_US = 86_400 * MICROSECONDS


class Hardware:
    """Cards as a node reports them."""

    def rtx4090(self, uuid: str, index: int, **changes: Any) -> Device:
        """24,564 MiB of which the driver keeps 512."""
        sizes = {"vram_total_bytes": 24_564 * MIB, "vram_reserved_bytes": 512 * MIB}
        return Device(**{"uuid": uuid, "index": index, "model": "NVIDIA GeForce RTX 4090", **sizes, **changes})

    def h100_mig(self, uuid: str, index: int, *starts: int) -> Device:
        """In MIG mode, with a 1g.10gb instance at each of the slices."""
        instances = tuple(
            MigInstance(f"MIG-{uuid}-{start}", 7 + start, "1g.10gb", start, 1, 16, 9_984 * MIB) for start in starts
        )
        return Device(uuid, index, "NVIDIA H100 80GB HBM3", 81_559 * MIB, 600 * MIB, True, 132, instances=instances)


@pytest.fixture(scope="session")
def hardware() -> Hardware:
    return Hardware()


@dataclass
class Ledger:
    """A database with tenants and tokens, and what a test does to it."""

    url: str
    database: Database
    tokens: dict[str, str]

    def rows(self, table: Any, **where: Any) -> list[Any]:
        """Every row of a table, in the order of its key."""
        query = select(table).order_by(*table.primary_key.columns)
        for name, value in where.items():
            query = query.where(table.c[name] == value)
        with self.database.read() as connection:
            return list(connection.execute(query))

    def everything(self, *tables: Any) -> list[list[tuple[Any, ...]]]:
        """All rows of the tables, to compare before and after."""
        return [[tuple(row) for row in self.rows(table)] for table in tables]

    def now_s(self) -> int:
        """The database's clock in whole seconds."""
        with self.database.read() as connection:
            return now_us(connection) // MICROSECONDS

    def silence(self, node: str, seconds: float) -> None:
        """Put the node's contact so far this long into the past."""
        by_us = round(seconds * MICROSECONDS)
        shift = update(node_contacts).where(node_contacts.c.node == node)
        with self.database.write() as connection:
            connection.execute(
                shift.values(start_us=node_contacts.c.start_us - by_us, end_us=node_contacts.c.end_us - by_us)
            )


@dataclass(frozen=True)
class Template:
    """A migrated database to copy, with the tenants acme and beta, and a token for everybody."""

    url: str
    tokens: dict[str, str]


@pytest.fixture(scope="session")
def template(databases: Databases, migrated: str) -> Iterator[Template]:
    with databases.copy(migrated) as url:
        with closing(Database(url)) as database:
            tokens = _furnish(database)
        yield Template(url, tokens)


def _furnish(database: Database) -> dict[str, str]:
    """Make the tenants and the tokens; the secrets of these."""
    holders: dict[str, dict[str, Any]] = {
        **{tenant: {"role": Role.TENANT, "tenant": tenant} for tenant in ("acme", "beta")},
        **{node: {"role": Role.NODE, "node": node} for node in ("n1", "n2")},
        **{name: {"role": Role.OPERATOR} for name in ("operator", "revoked", "expired")},
        "billing": {"role": Role.BILLING},
    }
    made = {}
    with database.write() as connection:
        now = now_us(connection)
        for tenant in ("acme", "beta"):
            create_tenant(connection, OPERATOR, tenant=tenant, zone="UTC", currency="CNY", now_us=now)
            create_project(connection, OPERATOR, tenant=tenant, project="lab", now_us=now)
        for name, holder in holders.items():
            expires_us = now if name == "expired" else now + _DAY_US
            made[name] = create_token(connection, OPERATOR, now_us=now, expires_us=expires_us, **holder)
        revoke_token(connection, OPERATOR, made["revoked"].token_id, now_us=now)
    return {name: token.secret for name, token in made.items()}


@pytest.fixture
def ledger(databases: Databases, template: Template) -> Iterator[Ledger]:
    """A copy of the template for one test."""
    with databases.copy(template.url) as url, closing(Database(url)) as database:
        yield Ledger(url, database, template.tokens)


class _Switch:
    """One server for the session, another application for each test."""

    def __init__(self) -> None:
        self.app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self.app is not None
        await self.app(scope, receive, send)


@pytest.fixture(scope="session")
def server() -> Iterator[tuple[_Switch, str]]:
    switch = _Switch()
    # The lifespan belongs to an application, of which this server sees many.
    config = uvicorn.Config(switch, log_config=None, lifespan="off")
    running = uvicorn.Server(config)
    # With the protocol named, asyncio turns Nagle's algorithm off; else each answer waits 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
    thread.start()
    while not running.started:
        time.sleep(0.01)
    yield switch, f"http://127.0.0.1:{listener.getsockname()[1]}"
    running.should_exit = True
    thread.join()


@dataclass
class Service:
    """The running service, and requests to it."""

    url: str
    ledger: Ledger
    http: httpx.Client

    def call(self, method: str, path: str, who: str | None, **content: Any) -> httpx.Response:
        """One request with somebody's token."""
        headers = {} if who is None else {"Authorization": f"Bearer {self.ledger.tokens.get(who, who)}"}
        headers |= content.pop("headers", {})
        return self.http.request(method, self.url + path, headers=headers, **content)

    def client(self, who: str) -> AllocatorClient:
        """The client of somebody."""
        return AllocatorClient(self.url, self.ledger.tokens[who], self.http)

    def report(self, node: str, *devices: Device, observed_s: int | None = None) -> httpx.Response:
        """An inventory of the node."""
        observed_s = self.ledger.now_s() if observed_s is None else observed_s
        body = asdict(Inventory(observed_s, devices))
        return self.call("PUT", f"/v1/nodes/{node}/inventory", node, json=body)

    def beat(self, node: str) -> None:
        """A heartbeat of the node."""
        assert self.call("PUT", f"/v1/nodes/{node}/heartbeat", node).status_code == 200

    def furnish(self, node: str, *devices: Device) -> int:
        """A node that lives and has these cards since a minute ago; the second that it is now."""
        self.beat(node)
        now_s = self.ledger.now_s()
        answer = self.report(node, *devices, observed_s=now_s - 60)
        assert answer.status_code == 200, answer.text
        return now_s

    def ask(self, who: str, key: str | None = None, **order: Any) -> httpx.Response:
        """A request for capacity in the project lab."""
        headers = {} if key is None else {"Idempotency-Key": key}
        return self.call("POST", "/v1/allocations", who, json={"project": "lab", **order}, headers=headers)

    def grant(self, who: str, **order: Any) -> dict[str, Any]:
        """An allocation that must succeed."""
        answer = self.ask(who, **order)
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found


@pytest.fixture
def service(server: tuple[_Switch, str], ledger: Ledger) -> Iterator[Service]:
    """The service on the test's ledger, without a store of samples."""
    switch, url = server
    switch.app = create_app(ledger.database, skus=load_skus(), share_grain=GRAIN, sink=None)
    with httpx.Client(timeout=30) as http:
        yield Service(url, ledger, http)


@pytest.fixture
def furnished(service: Service, hardware: Hardware) -> Service:
    """The service with five cards on two nodes, one of them in MIG mode with three instances to grant."""
    service.furnish("n1", *(hardware.rtx4090(f"GPU-{index}", index) for index in range(3)))
    service.furnish("n2", hardware.rtx4090("GPU-8", 0), hardware.h100_mig("GPU-9", 1, 0, 1, 2))
    for start in (0, 1, 2):
        service.call("POST", f"/v1/mig-instances/MIG-GPU-9-{start}/adopt", "operator")
    return service


@pytest.fixture(scope="session")
def openb() -> ModuleType:
    """tests/openb.py; skips where the trace is not there."""
    spec = importlib.util.spec_from_file_location("openb", Path(__file__).parent.parent / "openb.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not module.OPENB.is_file():
        pytest.skip(f"the openb trace is not at {module.OPENB}")
    return module
