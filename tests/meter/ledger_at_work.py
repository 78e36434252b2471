"""A real ledger on SQLite and those who work on it: an importer, price books, meters, who closes and who corrects."""

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
from sqlalchemy import Connection, insert, select, update

from allocator.records.csv_rows import Problems, Row
from allocator.records.store import import_records
from domain.clock import MICROSECONDS, FrozenClock
from domain.grants import GrantKind
from domain.money import Quote
from domain.period import HOUR_US, Period
from domain.prices import GapRules, PriceBook, Rate
from domain.skus import load_skus
from meter.evidence.evidence_store import evidence_store
from meter.evidence.observations import Observations, RecordedObservations
from meter.prices.price_store import load_book
from meter.windows.corrections import Corrector
from meter.windows.observing import Observer, SettleRules
from meter.windows.verifying import Verifier
from meter.windows.windows import WindowRater
from store.access import Principal
from store.database import Database
from store.tables import billing, capacity
from store.tenants import assign_book, create_project, create_tenant
from tests.meter.database_clocks import keep_time
from tests.meter.facts import make_samples
from tests.meter.hour import HOUR_S, START_US, instant_us
from tests.meter.ledger_model import DEADLINE_S, GRACE_S, Place
from tests.meter.ledger_world import HOURS, NODES, ZONES, Held, Price, Record, World
from tests.meter.ledgers import add_card, add_node, end_cards

OPERATOR = Principal.local_operator()
PLAYED = Period(START_US, START_US + HOURS * HOUR_US)
_MODEL, _SOURCE, _BOOK = "NVIDIA GeForce RTX 4090", "csv", "retail"
_SKUS = load_skus()


class Killed(BaseException):
    """A process is killed: nothing of it is done any more."""


class Dying(Database):
    """The database of a process that is killed as it begins its transaction number `dies_at`, the first being 1."""

    def __init__(self, url: str, dies_at: int) -> None:
        super().__init__(url)
        self._left = dies_at

    @contextmanager
    def write(self) -> Iterator[Connection]:
        self._left -= 1
        if self._left <= 0:
            raise Killed
        with super().write() as connection:
            yield connection


class LedgerAtWork:
    """The ledger in a file of `folder`, with the cards and tenants of ledger_world.py, and its evidence beside it."""

    def __init__(self, file: Path, world: World, clock: FrozenClock) -> None:
        self.url = f"sqlite:///{file}"
        self.evidence = file.parent / "evidence"
        self.database = Database(self.url)
        keep_time(self.database, clock)
        self._world, self._clock = world, clock
        for node, cards in NODES.items():
            if node:
                add_node(self.database, node)
            for index, card in enumerate(cards):
                add_card(self.database, card, node=node, index=index)
        end_cards(self.database, HOURS * 3_600)
        with self.database.write() as connection:
            for tenant, zone in ZONES.items():
                create_tenant(connection, OPERATOR, tenant=tenant, zone=zone, currency="CNY", now_us=0)
                for project in ("p", "q"):
                    create_project(connection, OPERATOR, tenant=tenant, project=project, now_us=0)

    def assign_books(self) -> None:
        """Rate every tenant by the one book."""
        with self.database.write() as connection:
            for tenant in ZONES:
                assign_book(connection, OPERATOR, tenant=tenant, book=_BOOK, start_us=0, now_us=0)

    def load_prices(self, prices: list[Price]) -> None:
        """All of the book, as a person loads it again; ConflictError where that contradicts what was charged."""
        book = PriceBook(_BOOK, "CNY", GapRules(), tuple(map(_rate, prices)))
        with self.database.write() as connection:
            load_book(connection, OPERATOR, book, now_us=self._clock.now_us())

    def import_record(self, allocation: str, record: Record, *, corrects_closed: bool = False) -> None:
        """What the source says of the allocation by now; ConflictError where that is of a closed hour."""
        rows = [_row(line, allocation, record, held) for line, held in enumerate(record.grants, start=2)]
        import_records(
            self.database, OPERATOR, rows, Problems(), source=_SOURCE, skus=_SKUS, corrects_closed=corrects_closed
        )

    def report(self, node: str, at: float) -> None:
        """The node's inventory came."""
        with self.database.write() as connection:
            one = capacity.nodes.c.node == node
            connection.execute(update(capacity.nodes).where(one).values(inventory_us=instant_us(at)))

    def hear(self, node: str, first: int, last: int) -> None:
        """The node was heard from in [first, last]."""
        with self.database.write() as connection:
            stretch = {"start_us": instant_us(first), "end_us": instant_us(last)}
            connection.execute(insert(capacity.node_contacts).values(node=node, **stretch))

    def store(self) -> Observations:
        """The sample store as it is by now, in no order and with some samples twice."""
        frames: dict[str, pl.DataFrame] = {}
        for node in ("n1", "n2"):
            rows = self._world.rows(node)
            frames[node] = make_samples([*reversed(rows), *rows[::7]])
        marks = {node: HOUR_S + mark for node, mark in self._world.marks.items()}
        return RecordedObservations(frames, marks, dict(self._world.skews))

    def observer(self, store: Observations, database: Database | None = None) -> Observer:
        """What reads windows by that store."""
        rules = SettleRules(grace_us=GRACE_S * MICROSECONDS, deadline_us=DEADLINE_S * MICROSECONDS)
        return Observer(database or self.database, OPERATOR, store, evidence_store(self.evidence), rules)

    def rater(self, store: Observations, database: Database | None = None) -> WindowRater:
        """A meter."""
        return WindowRater(database or self.database, OPERATOR, self.observer(store, database))

    def dying(self, dies_at: int) -> Database:
        """The ledger as a process has it that will be killed."""
        database = Dying(self.url, dies_at)
        keep_time(database, self._clock)
        return database

    def corrector(self) -> Corrector:
        """Who corrects, by the store as it is."""
        return Corrector(self.database, OPERATOR, self.observer(self.store()))

    def problems(self) -> set[str]:
        """Where a proof without raw samples finds something: a window, an hour, a correction or a day."""
        verifier = Verifier(self.database, OPERATOR, self.observer(RecordedObservations({}, {})))
        found = [each for window in verifier.windows(PLAYED) for each in verifier.verify_window(window)]
        return {each.where for each in (*found, *verifier.verify_chain(), *verifier.verify_days())}

    def leases(self) -> dict[Place, float]:
        """By window, until when it is held."""
        with self.database.read() as connection:
            rows = list(connection.execute(select(billing.window_leases)))
        return {place_of(row.node, row.start_us): (row.until_us - START_US) / 10**6 for row in rows}

    def files(self) -> dict[str, bytes]:
        """All evidence."""
        return {str(file): file.read_bytes() for file in self.evidence.rglob("*.parquet")}


def place_of(node: str, start_us: int) -> Place:
    """Hours are counted from the first."""
    return node, (start_us - START_US) // HOUR_US


def _rate(price: Price) -> Rate:
    unit = "GPU-hour" if price.dimension == "gpu" else "GiB-hour"
    end_us = None if price.end is None else instant_us(price.end)
    quote = Quote(Decimal(price.price), unit)
    scope = (price.dimension, "*", price.tenant, price.project)
    return Rate(price.name, *scope, quote, price.basis, instant_us(price.start), end_us)


def _row(line: int, allocation: str, record: Record, held: Held) -> Row:
    values: dict[str, Any] = {"mig_profile": None, "mig_uuid": None, "mig_start": None, "labels": "{}"}
    return Row(
        line=line,
        allocation=allocation,
        tenant=record.tenant,
        project=record.project,
        node=held.node or "elsewhere",
        gpu_uuid=held.card,
        model=_MODEL,
        kind=GrantKind.WHOLE if held.milli == 1_000 else GrantKind.SHARE,
        milli_gpu=held.milli,
        vram_bytes=held.vram_bytes,
        start_us=instant_us(held.start),
        end_us=None if held.end is None else instant_us(held.end),
        source_id=None,
        **values,
    )
