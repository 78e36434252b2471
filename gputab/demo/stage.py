"""Where the demo runs: a folder of its own, free ports, tokens, and the programs that make up the pipe."""

import json
import shutil
import sys
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from domain.clock import MICROSECONDS
from domain.errors import InputError
from domain.skus import load_skus
from gputab.supervisor import Program
from machine.lock import Progress
from machine.process import free_port
from machine.programs import VICTORIA_METRICS, find_program
from meter.price_book import read_price_book
from meter.price_store import load_book
from settings.gputab import CONFIG_FILE, Settings, load_settings
from store import migrate
from store.access import Principal, Role, create_token
from store.database import Database, now_us
from store.tenants import assign_book, create_project, create_tenant, load_tenants
from victoriametrics import launcher

CURRENCY = "CNY"
ZONE = "Asia/Shanghai"
_TOKEN_LIFE_US = 86_400 * MICROSECONDS


@dataclass(frozen=True, slots=True)
class Stage:
    """What every part of the demo needs to know; tokens are secrets, by tenant and by node."""

    folder: Path
    settings: Settings
    victoriametrics_port: int
    allocator_port: int
    victoriametrics_binary: Path
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
    progress("looking for VictoriaMetrics")
    found = find_program(
        VICTORIA_METRICS,
        explicit=base.victoriametrics_binary,
        cache_folder=base.programs_path.absolute(),
        progress=progress,
    )
    for note in found.passed_over:
        progress(note)
    victoriametrics_port, allocator_port = free_port(), free_port()
    own_database = "database_url" not in base.model_fields_set
    config = load_settings(
        database_url=f"sqlite:///{folder / 'gputab.db'}" if own_database else base.database_url,
        victoriametrics_url=f"http://127.0.0.1:{victoriametrics_port}",
        allocator_url=f"http://127.0.0.1:{allocator_port}",
        data_dir=folder,
        evidence_dir=folder / "evidence",
    )
    progress("making the database, tenants, prices and tokens")
    with closing(Database(config.database_url)) as database:
        migrate.upgrade(database)
        _refuse_customers(database)
        tokens = _tokens(database, tenants, nodes, past_start_us)
    _write_settings(folder / CONFIG_FILE, config, tokens["operator"])
    return Stage(
        folder=folder,
        settings=config,
        victoriametrics_port=victoriametrics_port,
        allocator_port=allocator_port,
        victoriametrics_binary=found.path,
        operator_token=tokens["operator"],
        tenant_tokens={tenant: tokens[f"tenant {tenant}"] for tenant in tenants},
        node_tokens={node: tokens[f"node {node}"] for node in nodes},
    )


def programs(stage: Stage, collect: Mapping[str, list[str]]) -> list[Program]:
    """Store, service, collectors and meter, in the order they start. `collect` gives each node's own arguments."""
    common = {
        "GPUTAB_DATABASE_URL": stage.settings.database_url,
        "GPUTAB_VICTORIAMETRICS_URL": stage.settings.victoriametrics_url,
        "GPUTAB_ALLOCATOR_URL": stage.settings.allocator_url,
        "GPUTAB_DATA_DIR": str(stage.folder),
        "GPUTAB_EVIDENCE_DIR": str(stage.settings.evidence_path),
    }
    gputab = [sys.executable, "-m", "gputab"]
    store_command = launcher.command(
        binary=stage.victoriametrics_binary,
        port=stage.victoriametrics_port,
        data_dir=stage.folder / "victoriametrics",
    )
    return [
        Program("victoriametrics", store_command, 10),
        Program("allocator", [*gputab, "allocator", "--port", str(stage.allocator_port)], 20, common),
        *(
            Program(
                f"collector-{node}",
                [*gputab, "collect", "--node", node, *arguments],
                30,
                # A node has its own queue, and no way to the database.
                {
                    **{key: value for key, value in common.items() if key != "GPUTAB_DATABASE_URL"},
                    "GPUTAB_DATA_DIR": str(stage.folder / "nodes" / node),
                    "GPUTAB_TOKEN": stage.node_tokens[node],
                },
            )
            for node, arguments in collect.items()
        ),
        Program("meter", [*gputab, "meter", "run", "--follow"], 40, common),
    ]


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
        "data_dir": str(config.data_dir),
        "evidence_dir": str(config.evidence_path),
        "token": token,
    }
    path.touch(mode=0o600)
    # A JSON string is a TOML string.
    path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()), "utf-8")


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
