"""Granting and releasing: each is one transaction, in which the choice and what it takes are one step."""

import json
import secrets

from sqlalchemy import Connection, case, insert, select, update

from allocator.first_fit import Slot
from allocator.holdings_store import load_allocation
from allocator.request import AllocationRequest
from allocator.stock_store import place, serialize_capacity
from domain.errors import ConflictError, NotFoundError
from domain.grants import GrantKind
from store.access import Principal, Role, record
from store.database import now_us
from store.tables.access import projects, tenants
from store.tables.capacity import allocations, grants

SERVICE = "service"
_ID_BYTES = 8


def create(
    connection: Connection, principal: Principal, request: AllocationRequest, *, idempotency_key: str | None = None
) -> tuple[str, bool]:
    """Grant the request; the allocation's id, and whether it is new.

    Must run in a write transaction. The same key with the same request gives the allocation it gave before,
    released or not. Raises NotFoundError for an unknown tenant or project, ConflictError for a key that was used
    for another request, CapacityError where nothing can take it.
    """
    principal.require(Role.TENANT, Role.OPERATOR)
    serialize_capacity(connection)
    _require_project(connection, principal, request)
    if idempotency_key is not None:
        earlier = _earlier(connection, request, idempotency_key)
        if earlier is not None:
            return earlier, False
    # Read after the wait: nothing that was released before this instant is still in the way.
    start_us = now_us(connection)
    slots = place(connection, principal, request, start_us)
    allocation = f"al_{secrets.token_hex(_ID_BYTES)}"
    connection.execute(
        insert(allocations).values(
            allocation=allocation,
            tenant=request.tenant,
            project=request.project,
            source=SERVICE,
            labels=json.dumps(dict(request.labels), sort_keys=True),
            idempotency_key=idempotency_key,
            request_digest=None if idempotency_key is None else request.digest,
            created_us=start_us,
        )
    )
    connection.execute(
        insert(grants),
        [
            {
                "allocation": allocation,
                "ordinal": ordinal,
                "start_us": start_us,
                "changed_us": start_us,
                **_grant(request.kind, slot),
            }
            for ordinal, slot in enumerate(slots)
        ],
    )
    record(connection, principal, "create allocation", f"{allocation} {request.tenant}/{request.project}", start_us)
    return allocation, True


def release(connection: Connection, principal: Principal, allocation: str) -> None:
    """End every open grant of the allocation now; releasing it again changes nothing.

    Raises NotFoundError where the principal may not see it, ConflictError for one that an import owns.
    """
    principal.require(Role.TENANT, Role.OPERATOR)
    serialize_capacity(connection)
    end_us = now_us(connection)
    found = load_allocation(connection, principal, allocation, now_us=end_us)
    if found.source != SERVICE:
        raise ConflictError(
            f"cannot release {allocation!r}: it is a record of the source {found.source!r}; end it there and import it"
        )
    ended = connection.execute(
        update(grants)
        .where(grants.c.allocation == allocation, grants.c.end_us.is_(None))
        # A clock that was set back must not end a grant before it began.
        .values(end_us=case((grants.c.start_us > end_us, grants.c.start_us), else_=end_us), changed_us=end_us)
    )
    if ended.rowcount:
        record(connection, principal, "release allocation", allocation, end_us)


def _earlier(connection: Connection, request: AllocationRequest, idempotency_key: str) -> str | None:
    query = select(allocations.c.allocation, allocations.c.request_digest).where(
        allocations.c.tenant == request.tenant, allocations.c.idempotency_key == idempotency_key
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    if row.request_digest != request.digest:
        raise ConflictError(
            f"cannot use the idempotency key {idempotency_key!r} again: it stands for another request; use a new one"
        )
    return str(row.allocation)


def _require_project(connection: Connection, principal: Principal, request: AllocationRequest) -> None:
    principal.require_tenant(request.tenant)
    if connection.execute(select(tenants.c.tenant).where(tenants.c.tenant == request.tenant)).one_or_none() is None:
        raise NotFoundError(f"cannot find the tenant {request.tenant!r}: check the name and the token")
    query = select(projects.c.project).where(projects.c.tenant == request.tenant, projects.c.project == request.project)
    if connection.execute(query).one_or_none() is None:
        raise NotFoundError(
            f"cannot find the project {request.project!r} of {request.tenant!r}: check the name, or have it created"
        )


def _grant(kind: GrantKind, slot: Slot) -> dict[str, object]:
    return {
        "node": slot.card.node,
        "gpu_uuid": slot.card.gpu_uuid,
        "mig_uuid": slot.instance.mig_uuid if slot.instance else None,
        "mig_start": slot.instance.start_slice if slot.instance else None,
        "kind": kind,
        "model": slot.card.model,
        "sku": f"{slot.card.sku}/{slot.instance.profile}" if slot.instance else slot.card.sku,
        "compute_units": slot.compute_units,
        "compute_units_total": slot.card.compute_units,
        "vram_bytes": slot.vram_bytes,
    }
