"""What tests of the meter are made of: grants, books, samples, and a ledger to bill them in."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from sqlalchemy import Column, Table, event, insert, select

from domain.clock import FrozenClock
from domain.grants import Grant, GrantKind
from domain.money import Quote
from domain.period import Period
from domain.prices import GapRules, PriceBook, Rate, VramBasis
from domain.tenants import Tenant
from meter.evidence import Evidence, make_evidence
from meter.observations import SAMPLE_COLUMNS, Observations, RecordedObservations
from meter.price_store import load_book
from meter.windows import SettleRules, WindowRater
from store.access import Principal
from store.database import Database
from store.migrate import upgrade
from store.tables import METADATA, capacity
from store.tenants import assign_book, create_project, create_tenant

# 2026-03-01T10:00:00Z
HOUR_S = 1_772_359_200
US = 1_000_000
GIB = 2**30
# When something was done is no part of what it came to.
BOOKKEEPING = {"windows.found_us", "windows.rated_us"}


@pytest.fixture
def hour_s() -> int:
    """A whole UTC hour, in seconds."""
    return HOUR_S


@pytest.fixture
def make_grant() -> Callable[..., Grant]:
    """A whole RTX 4090 for the tenant acme; seconds are offsets into the hour, fractions allowed."""

    def make(start: float = 0, end: float | None = 3600, **changes: Any) -> Grant:
        values: dict[str, Any] = {
            "allocation": "a1",
            "ordinal": 0,
            "tenant": "acme",
            "project": "p",
            "node": "n1",
            "gpu_uuid": "GPU-1",
            "mig_uuid": None,
            "kind": GrantKind.WHOLE,
            "model": "NVIDIA GeForce RTX 4090",
            "sku": "rtx4090-24g",
            "compute_units": 1_000,
            "compute_units_total": 1_000,
            "vram_bytes": 24 * GIB,
            "start_us": HOUR_S * US + round(start * US),
            "end_us": None if end is None else HOUR_S * US + round(end * US),
        }
        return Grant(**{**values, **changes})

    return make


@pytest.fixture
def make_rate() -> Callable[..., Rate]:
    """A rate in force for ever unless `start` and `end` (offsets into the hour, seconds) say otherwise."""

    def make(
        dimension: str = "gpu",
        price: str = "2.20",
        unit: str = "GPU-hour",
        *,
        sku: str = "*",
        tenant: str | None = None,
        project: str | None = None,
        basis: VramBasis | None = None,
        start: float | None = None,
        end: float | None = None,
    ) -> Rate:
        start_us = 0 if start is None else HOUR_S * US + round(start * US)
        end_us = None if end is None else HOUR_S * US + round(end * US)
        rate_id = "|".join(map(str, (dimension, price, unit, sku, tenant, project, basis, start_us)))
        return Rate(rate_id, dimension, sku, tenant, project, Quote(Decimal(price), unit), basis, start_us, end_us)

    return make


@pytest.fixture
def make_book(make_rate: Callable[..., Rate]) -> Callable[..., dict[str, PriceBook]]:
    """The book `retail`, by name; without rates given: 2.20 a GPU-hour and 0.03 a GiB-hour."""

    def make(*rates: Rate, gaps: GapRules | None = None) -> dict[str, PriceBook]:
        chosen = rates or (make_rate(), make_rate("vram", "0.03", "GiB-hour", basis=VramBasis.MAX))
        return {"retail": PriceBook("retail", "CNY", gaps or GapRules(), tuple(chosen))}

    return make


@pytest.fixture
def tenants() -> dict[str, Tenant]:
    """The tenant acme, in UTC, rated by `retail`."""
    return {"acme": Tenant("acme", ZoneInfo("UTC"), "CNY", ((0, "retail"),))}


@pytest.fixture
def make_samples() -> Callable[..., pl.DataFrame]:
    """Samples out of (series, gpu_uuid, mig_uuid, owner, second as offset into the hour, value)."""

    def make(rows: Iterable[tuple[str, str, str, str, int, float]]) -> pl.DataFrame:
        absolute = [(*key, HOUR_S + second, float(value)) for *key, second, value in rows]
        return pl.DataFrame(absolute, schema=SAMPLE_COLUMNS, orient="row")

    return make


@pytest.fixture
def use_of() -> Callable[..., list[tuple[str, str, str, str, int, float]]]:
    """Samples of a card that is up and uses `used` bytes in each of the seconds (offsets into the hour)."""

    def rows(
        seconds: Iterable[int], used: int = GIB, *, gpu: str = "GPU-1", mig: str = "", owner: str = ""
    ) -> list[tuple[str, str, str, str, int, float]]:
        memory = "gpu_owner_memory_bytes" if owner else "gpu_memory_used_bytes"
        return [
            row
            for second in seconds
            for row in (("gpu_up", gpu, mig, "", second, 1.0), (memory, gpu, mig, owner, second, float(used)))
        ]

    return rows


@pytest.fixture
def observe(make_samples: Callable[..., pl.DataFrame]) -> Callable[..., Evidence]:
    """Evidence of [start, end) out of rows for `make_samples`; heartbeats and seconds are offsets into the hour."""

    def make(
        rows: Iterable[tuple[str, str, str, str, int, float]] = (),
        *,
        start: int = 0,
        end: int = 3600,
        heard: Iterable[tuple[float, float]] = (),
        devices: Iterable[tuple[str, str]] = (),
        node: str = "n1",
    ) -> Evidence:
        contacts = [Period(HOUR_S * US + round(a * US), HOUR_S * US + round(b * US)) for a, b in heard]
        period = Period((HOUR_S + start) * US, (HOUR_S + end) * US)
        return make_evidence(node, period, make_samples(rows), contacts, devices)

    return make


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database at the newest migration, closed, to be copied."""
    file = tmp_path_factory.mktemp("meter") / "migrated.db"
    database = Database(f"sqlite:///{file}")
    upgrade(database)
    database.close()
    return file


@pytest.fixture
def operator() -> Principal:
    return Principal.local_operator()


@pytest.fixture
def database_clock() -> FrozenClock:
    """The clock of the test's ledger, at the beginning of the hour until it is moved."""
    return FrozenClock(HOUR_S * US)


@pytest.fixture
def at(database_clock: FrozenClock) -> Callable[[float], int]:
    """Moves the ledger's clock to an offset into the hour, which it gives back as an instant."""

    def moved(offset: float) -> int:
        instant_us = HOUR_S * US + round(offset * US)
        database_clock.advance_us(instant_us - database_clock.now_us())
        return instant_us

    return moved


@pytest.fixture
def open_ledger(migrated_file: Path, tmp_path: Path, database_clock: FrozenClock) -> Iterator[Callable[..., Database]]:
    """Opens the test's ledger; again and again, as processes would."""
    file = tmp_path / "gputab.db"
    file.write_bytes(migrated_file.read_bytes())
    opened: list[Database] = []

    def keep_time(connection: sqlite3.Connection, _record: Any) -> None:
        # What SQLite reads its clock by.
        connection.create_function("julianday", 1, lambda _: 2_440_587.5 + database_clock.now_us() / 86_400_000_000)

    def open_(kind: type[Database] = Database) -> Database:
        database = kind(f"sqlite:///{file}")
        event.listen(database.engine, "connect", keep_time)
        opened.append(database)
        return database

    yield open_
    for database in opened:
        database.close()


@pytest.fixture
def ledger(
    open_ledger: Callable[[], Database], operator: Principal, make_book: Callable[..., dict[str, PriceBook]]
) -> Database:
    """The tenant acme rated by `retail`, and the node n1 with two RTX 4090, known for ever, heard up to hour + 10 h."""
    database = open_ledger()
    with database.write() as connection:
        create_tenant(connection, operator, tenant="acme", zone="UTC", currency="CNY", now_us=0)
        for project in ("p", "q"):
            create_project(connection, operator, tenant="acme", project=project, now_us=0)
        load_book(connection, operator, make_book()["retail"], now_us=0)
        assign_book(connection, operator, tenant="acme", book="retail", start_us=0, now_us=0)
        inventory_us = (HOUR_S + 36_000) * US
        connection.execute(insert(capacity.nodes).values(node="n1", created_us=0, inventory_us=inventory_us))
        for index in (0, 1):
            connection.execute(
                insert(capacity.device_periods).values(
                    gpu_uuid=f"GPU-{index + 1}",
                    node="n1",
                    device_index=index,
                    model="NVIDIA GeForce RTX 4090",
                    sku="rtx4090-24g",
                    compute_units=1_000,
                    vram_total_bytes=25 * GIB,
                    vram_reserved_bytes=GIB,
                    mig_enabled=False,
                    offered_profiles="",
                    start_us=HOUR_S * US,
                    changed_us=0,
                )
            )
    return database


@pytest.fixture
def put_grants(ledger: Database, database_clock: FrozenClock) -> Callable[..., None]:
    """Records grants, each with its allocation, at the time of the ledger's clock or at another."""

    def put(*grants: Grant, changed_us: int | None = None) -> None:
        stamp_us = database_clock.now_us() if changed_us is None else changed_us
        with ledger.write() as connection:
            known = set(connection.execute(select(capacity.allocations.c.allocation)).scalars())
            for grant in grants:
                if grant.allocation not in known:
                    known.add(grant.allocation)
                    connection.execute(
                        insert(capacity.allocations).values(
                            allocation=grant.allocation,
                            tenant=grant.tenant,
                            project=grant.project,
                            source="service",
                            labels="{}",
                            created_us=0,
                        )
                    )
                columns = {name: value for name, value in asdict(grant).items() if name not in ("tenant", "project")}
                connection.execute(insert(capacity.grants).values(**columns, changed_us=stamp_us))

    return put


@pytest.fixture
def recorded(make_samples: Callable[..., pl.DataFrame]) -> Callable[..., RecordedObservations]:
    """Observations of n1 out of rows for `make_samples`; complete until an offset into the hour, or never said.

    `skew` is how far the node's clock is from the allocator's, if that was ever said.
    """

    def make(rows: Iterable[Any] = (), complete: int | None = None, skew: float | None = None) -> RecordedObservations:
        marks = {} if complete is None else {"n1": HOUR_S + complete}
        return RecordedObservations({"n1": make_samples(rows)}, marks, {} if skew is None else {"n1": skew})

    return make


@pytest.fixture
def make_rater(ledger: Database, operator: Principal, tmp_path: Path) -> Callable[..., WindowRater]:
    """Raters over the ledger, with their evidence in `tmp_path / "evidence"`."""

    def make(observations: Observations, database: Database = ledger) -> WindowRater:
        rules = SettleRules(grace_us=30 * US, deadline_us=72 * 3_600 * US)
        return WindowRater(database, operator, observations, tmp_path / "evidence", rules)

    return make


@pytest.fixture
def everything(ledger: Database, tmp_path: Path) -> Callable[[], dict[str, Any]]:
    """All rows of all tables, but for bookkeeping, and the bytes of all evidence, to be compared."""

    def dump() -> dict[str, Any]:
        with ledger.read() as connection:
            rows: dict[str, Any] = {
                name: sorted(map(repr, connection.execute(select(*_compared(table)))))
                for name, table in METADATA.tables.items()
            }
        files = sorted(path for path in (tmp_path / "evidence").rglob("*") if path.is_file())
        return rows | {str(path): path.read_bytes() for path in files}

    return dump


def _compared(table: Table) -> list[Column[Any]]:
    return [column for column in table.columns if f"{table.name}.{column.name}" not in BOOKKEEPING]
