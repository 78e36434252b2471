"""The doors: each gives a request to the store it is about, in one transaction, and shows what came of it."""

from typing import Annotated

from fastapi import APIRouter, Header, Query, Response
from prometheus_client import CONTENT_TYPE_LATEST

from allocator.allocation_store import create, release
from allocator.bodies import (
    AllocationBody,
    AllocationOrder,
    AllocationPageBody,
    CardBody,
    CardsBody,
    DeviceStateOrder,
    HeartbeatAnswer,
    InventoryAnswer,
    InventoryReport,
)
from allocator.device_store import adopt_instance, set_state
from allocator.holdings_store import count_open_grants, list_allocations, load_allocation
from allocator.inventory_store import take_inventory
from allocator.node_store import record_heartbeat
from allocator.parts import BEARER, Asker, ServiceParts
from allocator.request import Holding
from allocator.stock_store import list_cards
from domain.errors import CapacityError, InputError
from store.access import Role
from store.database import now_us

PAGE_MAX = 500

allocations = APIRouter(prefix="/v1/allocations", tags=["allocations"], dependencies=[BEARER])
devices = APIRouter(prefix="/v1", tags=["devices"], dependencies=[BEARER])
nodes = APIRouter(prefix="/v1/nodes", tags=["nodes"], dependencies=[BEARER])
status = APIRouter(tags=["status"])

IdempotencyKey = Annotated[str | None, Header(min_length=1, max_length=128)]
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]


@allocations.post("", status_code=201, responses={200: {"model": AllocationBody, "description": "Granted before"}})
def create_allocation(
    order: AllocationOrder,
    asker: Asker,
    parts: ServiceParts,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> AllocationBody:
    """Grant capacity, from now until it is released; all of it or nothing.

    With an Idempotency-Key the same request gives the allocation it gave before (200) and takes nothing more.
    """
    tenant = order.tenant or asker.tenant
    if tenant is None:
        raise InputError("cannot grant to nobody: name the tenant, or use its own token")
    try:
        with parts.database.write() as connection:
            allocation, is_new = create(connection, asker, order.request(tenant), idempotency_key=idempotency_key)
            found = load_allocation(connection, asker, allocation, now_us=now_us(connection))
    except CapacityError:
        parts.metrics.refused(order.kind)
        raise
    if is_new:
        parts.grants_changed()
    else:
        response.status_code = 200
    return AllocationBody.model_validate(found)


@allocations.get("")
def show_allocations(
    asker: Asker, parts: ServiceParts, state: Holding = Holding.OPEN, limit: Limit = 100, cursor: str | None = None
) -> AllocationPageBody:
    """Allocations, newest first: a tenant's own, or everybody's for operators and billing."""
    with parts.database.read() as connection:
        page = list_allocations(connection, asker, holding=state, limit=limit, cursor=cursor, now_us=now_us(connection))
    return AllocationPageBody.model_validate(page)


# An id that was imported may hold slashes.
@allocations.get("/{allocation:path}")
def show_allocation(allocation: str, asker: Asker, parts: ServiceParts) -> AllocationBody:
    """One allocation with its grants."""
    with parts.database.read() as connection:
        found = load_allocation(connection, asker, allocation, now_us=now_us(connection))
    return AllocationBody.model_validate(found)


@allocations.post("/{allocation:path}/release")
def release_allocation(allocation: str, asker: Asker, parts: ServiceParts) -> AllocationBody:
    """End every grant of the allocation now. Releasing it again changes nothing."""
    with parts.database.write() as connection:
        release(connection, asker, allocation)
        found = load_allocation(connection, asker, allocation, now_us=now_us(connection))
    parts.grants_changed()
    return AllocationBody.model_validate(found)


@devices.get("/devices")
def show_devices(asker: Asker, parts: ServiceParts) -> CardsBody:
    """Every card with what is free of it now."""
    with parts.database.read() as connection:
        return CardsBody(devices=[CardBody.of(card) for card in list_cards(connection, asker)])


@devices.post("/devices/{gpu_uuid}/state", status_code=204)
def set_device_state(gpu_uuid: str, order: DeviceStateOrder, asker: Asker, parts: ServiceParts) -> None:
    """Put a card into service (ok), or out of it (draining, failed). Grants on it go on."""
    with parts.database.write() as connection:
        set_state(connection, asker, gpu_uuid, order.state, order.reason)


# Drivers before 470 put slashes into a MIG UUID.
@devices.post("/mig-instances/{mig_uuid:path}/adopt", status_code=204)
def adopt_mig_instance(mig_uuid: str, asker: Asker, parts: ServiceParts) -> None:
    """Let a MIG instance that somebody else made be granted."""
    with parts.database.write() as connection:
        adopt_instance(connection, asker, mig_uuid)


@nodes.put("/{node:path}/inventory")
def put_inventory(node: str, report: InventoryReport, asker: Asker, parts: ServiceParts) -> InventoryAnswer:
    """Report every card of the node, with the second of observation, by the node's own token.

    A report that is no newer than the one held changes nothing, so a report may be sent again at any time.
    """
    with parts.database.write() as connection:
        outcome = take_inventory(
            connection, asker, node, report.inventory(), skus=parts.skus, share_grain=parts.share_grain
        )
    return InventoryAnswer.model_validate(outcome)


@nodes.put("/{node:path}/heartbeat")
def put_heartbeat(node: str, asker: Asker, parts: ServiceParts) -> HeartbeatAnswer:
    """Say that the node lives, and learn the time."""
    with parts.database.write() as connection:
        return HeartbeatAnswer(now_us=record_heartbeat(connection, asker, node))


@status.get("/healthz", response_class=Response)
def healthz(parts: ServiceParts) -> Response:
    """200 while the database answers, else 503."""
    with parts.database.read() as connection:
        now_us(connection)
    return Response("ok\n", media_type="text/plain")


@status.get("/metrics", response_class=Response, dependencies=[BEARER])
def metrics(asker: Asker, parts: ServiceParts) -> Response:
    """The service's own counters, for operators and their scraper."""
    asker.require(Role.OPERATOR)
    with parts.database.read() as connection:
        open_grants = count_open_grants(connection, asker, now_us=now_us(connection))
    return Response(parts.metrics.page(open_grants), media_type=CONTENT_TYPE_LATEST)
