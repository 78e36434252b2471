"""What the database says of one window: who held what, on which cards, at whose prices."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from domain.clock import MICROSECONDS
from domain.grants import Grant
from domain.period import Period
from domain.prices import PriceBook
from domain.tenants import Tenant
from meter.conservation.fleet import Fleet
from meter.evidence.evidence import CONTEXT_S
from meter.ledger import ledger_store
from meter.ledger.closing_store import is_closed
from meter.ledger.ledger_store import NO_NODE, FrozenEvidence, Window
from meter.prices.price_store import load_books
from store import capacity
from store.access import Principal
from store.database import now_us
from store.tenants import load_tenants


@dataclass(frozen=True, slots=True)
class WindowRecord:
    """What there is to rate a window by, beside its samples; `read_us` is when it was read, by the database's clock.

    `inventory_us` is the instant of the node's last report; `window` and `frozen` are None before there is one.
    `is_closed` is of the hour, which may have been closed without that window.
    """

    grants: list[Grant]
    fleet: Fleet
    contacts: list[Period]
    tenants: Mapping[str, Tenant]
    books: Mapping[str, PriceBook]
    inventory_us: int | None
    window: Window | None
    frozen: FrozenEvidence | None
    is_closed: bool
    read_us: int


def read_record(connection: Connection, who: Principal, node: str, hour: Period) -> WindowRecord:
    """The record of the window (node, UTC hour), all of one moment."""
    read_us = now_us(connection)
    grants = capacity.load_grants(connection, who, hour, node=node)
    around = Period(hour.start_us - CONTEXT_S * MICROSECONDS, hour.end_us + CONTEXT_S * MICROSECONDS)
    window = ledger_store.load_window(connection, who, node, hour.start_us)
    return WindowRecord(
        grants=grants,
        fleet=_read_fleet(connection, who, node, hour, grants),
        contacts=capacity.load_contacts(connection, who, around, node=node),
        tenants={each.tenant: each for each in load_tenants(connection, who)},
        books=load_books(connection, who),
        inventory_us=ledger_store.inventory_us(connection, who, node),
        window=window,
        frozen=ledger_store.load_frozen(connection, who, window) if window else None,
        is_closed=is_closed(connection, who, hour.start_us),
        read_us=read_us,
    )


def _read_fleet(connection: Connection, who: Principal, node: str, hour: Period, grants: list[Grant]) -> Fleet:
    devices = capacity.load_device_periods(connection, who, hour, node=node) if node != NO_NODE else []
    uuids = {each.gpu_uuid for each in devices}
    granted = {each.gpu_uuid for each in grants if each.gpu_uuid is not None}
    elsewhere = capacity.load_device_periods(connection, who, hour, gpu_uuids=uuids | granted)
    return Fleet(
        devices=[*devices, *(each for each in elsewhere if each.node != node)],
        instances=capacity.load_mig_periods(connection, who, hour, uuids),
        holds=capacity.load_holds(connection, who, hour, uuids),
        states=capacity.load_device_states(connection, who, hour, uuids),
        grants=capacity.load_grants(connection, who, hour, gpu_uuids=uuids | granted),
    )
