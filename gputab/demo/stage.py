"""Where the demo runs: a folder of its own, free ports, a database with tenants and prices, and tokens."""

import json
import shutil
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from domain.clock import MICROSECONDS
from domain.errors import InputError
from domain.skus import load_skus
from gputab.demo.servers import Servers, find_servers
from machine.lock import Progress
from meter.prices.price_book import read_price_book
from meter.prices.price_store import load_book
from settings.gputab import CONFIG_FILE, Settings, load_settings
from store import migrate
from store.access import Principal, Role, create_token
from store.database import Database, now_us
from store.tenants import assign_book, create_project, create_tenant, load_tenants

CURRENCY = "CNY"
ZONE = "Asia/Shanghai"
# Beside the settings: who may look at what in the explorer.
TOKENS_FILE = "tokens.txt"
_TOKEN_LIFE_US = 86_400 * MICROSECONDS


@dataclass(frozen=True, slots=True)
class Stage:
    """What every part of the demo needs to know; tokens are secrets, by tenant and by node."""

    folder: Path
    settings: Settings
    servers: Servers
    operator_token: str
    tenant_tokens: Mapping[str, str]
    node_tokens: Mapping[str, str]

    @property
    def logs(self) -> Path:
        """One log a program."""
        return self.folder / "logs"


def prepare(
    base: Settings,
    tenants: Mapping[str, Iterable[str]],
    nodes: Iterable[str],
    past_start_us: int,
    progress: Progress,
) -> Stage:
    """An empty stage with a migrated database, tenants rated by the demo's book since `past_start_us`, and tokens.

    A database that the settings name is used, but only an empty one: the demo's tenants are nobody's customers.
    """
    folder = (base.data_dir / "demo").absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    servers = find_servers(base, progress)
    own_database = "database_url" not in base.model_fields_set
    config = load_settings(
        database_url=f"sqlite:///{folder / 'gputab.db'}" if own_database else base.database_url,
        victoriametrics_url=servers.victoriametrics.url,
        allocator_url=servers.allocator.url,
        alertmanager_url=servers.alertmanager.url,
        data_dir=folder,
        evidence_dir=folder / "evidence",
    )
    progress("making the database, tenants, prices and tokens")
    with closing(Database(config.database_url)) as database:
        migrate.upgrade(database)
        _refuse_customers(database)
        tokens = _tokens(database, tenants, nodes, past_start_us)
    _write_settings(folder / CONFIG_FILE, config, tokens["operator"])
    _write_secret(folder / TOKENS_FILE, "".join(f"{name:<18} {secret}\n" for name, secret in tokens.items()))
    return Stage(
        folder=folder,
        settings=config,
        servers=servers,
        operator_token=tokens["operator"],
        tenant_tokens={tenant: tokens[f"tenant {tenant}"] for tenant in tenants},
        node_tokens={node: tokens[f"node {node}"] for node in nodes},
    )


def _refuse_customers(database: Database) -> None:
    with database.read() as connection:
        found = load_tenants(connection, Principal.local_operator())
    if found:
        raise InputError(
            f"cannot run the demo on a ledger that holds {found[0].tenant!r} and {len(found) - 1} other tenants: "
            "unset `database_url`, or name an empty database"
        )


def _write_settings(path: Path, config: Settings, token: str) -> None:
    """So that every gputab command that is run in the demo's folder speaks of the demo."""
    values = {
        "database_url": config.database_url,
        "victoriametrics_url": config.victoriametrics_url,
        "allocator_url": config.allocator_url,
        "alertmanager_url": config.alertmanager_url,
        "data_dir": str(config.data_dir),
        "evidence_dir": str(config.evidence_path),
        "token": token,
    }
    # A JSON string is a TOML string.
    _write_secret(path, "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()))


def _write_secret(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text, "utf-8")


def _tokens(
    database: Database, tenants: Mapping[str, Iterable[str]], nodes: Iterable[str], past_start_us: int
) -> dict[str, str]:
    operator = Principal.local_operator()
    with resources.as_file(resources.files("gputab.demo") / "prices.yaml") as path:
        book = read_price_book(path, load_skus())
    tokens: dict[str, str] = {}
    with database.write() as connection:
        now = now_us(connection)

        def add(name: str, role: Role, *, tenant: str | None = None, node: str | None = None) -> None:
            made = create_token(
                connection, operator, role=role, now_us=now, expires_us=now + _TOKEN_LIFE_US, tenant=tenant, node=node
            )
            tokens[name] = made.secret

        add("operator", Role.OPERATOR)
        for tenant in tenants:
            create_tenant(connection, operator, tenant=tenant, zone=ZONE, currency=CURRENCY, now_us=now)
        load_book(connection, operator, book, now_us=now)
        for tenant, projects in tenants.items():
            assign_book(connection, operator, tenant=tenant, book=book.book, start_us=past_start_us, now_us=now)
            for project in projects:
                create_project(connection, operator, tenant=tenant, project=project, now_us=now)
            add(f"tenant {tenant}", Role.TENANT, tenant=tenant)
        for node in nodes:
            add(f"node {node}", Role.NODE, node=node)
    return tokens
