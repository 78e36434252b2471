"""Allocations: ask for one, see it, give it back."""

from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from allocator.allocation_store import create, release
from allocator.bodies import AllocationBody, AllocationOrder, AllocationPageBody
from allocator.holdings import Holding
from allocator.holdings_store import list_allocations, load_allocation
from allocator.parts import BEARER, Asker, ServiceParts
from domain.errors import CapacityError, InputError
from store.database import now_us

PAGE_MAX = 500

router = APIRouter(prefix="/v1/allocations", tags=["allocations"], dependencies=[BEARER])

IdempotencyKey = Annotated[str | None, Header(min_length=1, max_length=128)]
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]


@router.post("", status_code=201, responses={200: {"model": AllocationBody, "description": "Granted before"}})
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
    return AllocationBody.of(found)


@router.get("")
def show_allocations(
    asker: Asker, parts: ServiceParts, state: Holding = Holding.OPEN, limit: Limit = 100, cursor: str | None = None
) -> AllocationPageBody:
    """Allocations, newest first: a tenant's own, or everybody's for operators and billing."""
    with parts.database.read() as connection:
        page = list_allocations(connection, asker, holding=state, limit=limit, cursor=cursor, now_us=now_us(connection))
    return AllocationPageBody.of(page)


# An id that was imported may hold slashes.
@router.get("/{allocation:path}")
def show_allocation(allocation: str, asker: Asker, parts: ServiceParts) -> AllocationBody:
    """One allocation with its grants."""
    with parts.database.read() as connection:
        return AllocationBody.of(load_allocation(connection, asker, allocation, now_us=now_us(connection)))


@router.post("/{allocation:path}/release")
def release_allocation(allocation: str, asker: Asker, parts: ServiceParts) -> AllocationBody:
    """End every grant of the allocation now. Releasing it again changes nothing."""
    with parts.database.write() as connection:
        release(connection, asker, allocation)
        found = load_allocation(connection, asker, allocation, now_us=now_us(connection))
    parts.grants_changed()
    return AllocationBody.of(found)
