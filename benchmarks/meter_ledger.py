"""A ledger that knows the fleet: its nodes, cards and instances, who held what, and at which prices."""

from decimal import Decimal
from pathlib import Path

from sqlalchemy import Connection, insert

from benchmarks.meter_fleet import PROJECT, START_US, TENANTS, Fleet
from domain.clock import MICROSECONDS
from domain.money import Quote
from domain.period import HOUR_S
from domain.prices import GapRules, PriceBook, Rate, VramBasis
from meter.prices.price_store import load_book
from store.access import Principal
from store.database import Database
from store.migrate import upgrade
from store.tables import capacity
from store.tenants import assign_book, create_project, create_tenant
from tests.meter.ledgers import add_grants

BOOK = "retail"
# Three prices a day, none of which begins with an hour.
PRICE_STARTS_S = (0, 5_400, 12 * HOUR_S + 2_700)
_GPU_PRICES, _VRAM_PRICES = ("2.20", "2.49", "1.87"), ("0.03", "0.035", "0.025")
_ZONE, _CURRENCY = "Asia/Shanghai", "CNY"


def make_ledger(file: Path, fleet: Fleet) -> str:
    """Make it, and return its URL."""
    url = f"sqlite:///{file}"
    database = Database(url)
    try:
        database.make_file()
        upgrade(database)
        who = Principal.local_operator()
        with database.write() as connection:
            _add_tenants(connection, who)
            _add_hardware(connection, fleet)
        add_grants(database, fleet.grants, changed_us=0)
    finally:
        database.close()
    return url


def price_book() -> PriceBook:
    """The book that every tenant is rated by."""
    return PriceBook(BOOK, _CURRENCY, GapRules(), tuple(_rates("gpu", _GPU_PRICES) + _rates("vram", _VRAM_PRICES)))


def _rates(dimension: str, prices: tuple[str, ...]) -> list[Rate]:
    unit, basis = ("GPU-hour", None) if dimension == "gpu" else ("GiB-hour", VramBasis.MAX)
    starts_us = [START_US + start_s * MICROSECONDS for start_s in PRICE_STARTS_S]
    return [
        Rate(
            f"{dimension} {price}", dimension, "*", None, None, Quote(Decimal(price), unit), basis, start_us, end_us
        )
        for price, start_us, end_us in zip(prices, starts_us, [*starts_us[1:], None], strict=True)
    ]  # fmt: skip


def _add_tenants(connection: Connection, who: Principal) -> None:
    for tenant in TENANTS:
        create_tenant(connection, who, tenant=tenant, zone=_ZONE, currency=_CURRENCY, now_us=0)
        create_project(connection, who, tenant=tenant, project=PROJECT, now_us=0)
    load_book(connection, who, price_book(), now_us=0)
    for tenant in TENANTS:
        assign_book(connection, who, tenant=tenant, book=BOOK, start_us=0, now_us=0)


def _add_hardware(connection: Connection, fleet: Fleet) -> None:
    span = {"start_us": fleet.period.start_us, "end_us": fleet.period.end_us}
    # Reported after all of it, so that nothing waits for an inventory.
    for node in fleet.nodes:
        connection.execute(
            insert(capacity.nodes).values(node=node, created_us=0, inventory_us=fleet.period.end_us + MICROSECONDS)
        )
        connection.execute(insert(capacity.node_contacts).values(node=node, **span))
    for card in fleet.cards:
        instances = [part for part in card.parts if part.mig_uuid is not None]
        connection.execute(
            insert(capacity.device_periods).values(
                gpu_uuid=card.gpu_uuid,
                node=card.node,
                device_index=card.index,
                model=card.model,
                sku=card.sku,
                compute_units=card.compute_units,
                vram_total_bytes=card.vram_total_bytes,
                vram_reserved_bytes=card.vram_reserved_bytes,
                mig_enabled=card.is_mig,
                offered_profiles=",".join(part.profile for part in instances),
                share_min_milli=250 if card.is_shared else None,
                share_min_vram_bytes=2**30 if card.is_shared else None,
                changed_us=0,
                **span,
            )
        )
        for number, part in enumerate(instances):
            connection.execute(
                insert(capacity.mig_periods).values(
                    mig_uuid=part.mig_uuid,
                    gpu_uuid=card.gpu_uuid,
                    gi_id=number + 1,
                    profile=part.profile,
                    start_slice=part.start_slice,
                    slices=part.slices,
                    sm_count=part.compute_units,
                    vram_bytes=part.vram_bytes,
                    origin="ours",
                    changed_us=0,
                    **span,
                )
            )
