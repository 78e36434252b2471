"""Reading who held what, and what hardware there was: facts for the allocator, the meter and reports."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, Table, and_, or_, select

from domain.capacity import ShareGrain
from domain.grants import OPEN_END_US, Grant, GrantKind
from domain.period import Period
from store.access import Principal, Role
from store.tables.capacity import allocations, device_periods, device_states, grants, holds, mig_periods, node_contacts

# What a grant has of its allocation.
ALLOCATION_COLUMNS = (allocations.c.tenant, allocations.c.project, allocations.c.source, allocations.c.source_id)


@dataclass(frozen=True, slots=True)
class DevicePeriod:
    """A card as it was over [start_us, end_us); an open period reaches to the end of time.

    Compute units are 1,000 where MIG is off and the SM count of the full-card profile where it is on.
    `share_min_milli` None: the card is sold whole, or in MIG instances.
    """

    gpu_uuid: str
    node: str
    device_index: int
    model: str
    sku: str
    compute_units: int
    vram_total_bytes: int
    vram_reserved_bytes: int
    mig_enabled: bool
    offered_profiles: tuple[str, ...]
    share_min_milli: int | None
    share_min_vram_bytes: int | None
    period: Period

    @property
    def usable_vram_bytes(self) -> int:
        """What tenants of the card may have; on a MIG card the instances' own sizes decide, reserve and all."""
        return self.vram_total_bytes - (0 if self.mig_enabled else self.vram_reserved_bytes)

    @property
    def share_grain(self) -> ShareGrain | None:
        """The smallest share the card is sold in; None where it is not sold in shares."""
        if self.share_min_milli is None or self.share_min_vram_bytes is None:
            return None
        return ShareGrain(self.share_min_milli, self.share_min_vram_bytes)


@dataclass(frozen=True, slots=True)
class MigPeriod:
    """A MIG instance as it was over `period`; sizes as the hardware reports them."""

    mig_uuid: str
    gpu_uuid: str
    gi_id: int
    profile: str
    start_slice: int
    slices: int
    sm_count: int
    vram_bytes: int
    origin: str
    period: Period


@dataclass(frozen=True, slots=True)
class Hold:
    """Capacity taken but not billed over `period`."""

    gpu_uuid: str
    mig_uuid: str | None
    compute_units: int
    vram_bytes: int
    period: Period


@dataclass(frozen=True, slots=True)
class DeviceStatePeriod:
    """What the operator or the service said of a card's health over `period`: ok, suspect, draining, failed."""

    gpu_uuid: str
    state: str
    reason: str
    period: Period


def load_grants(
    connection: Connection,
    principal: Principal,
    period: Period,
    *,
    node: str | None = None,
    tenant: str | None = None,
    gpu_uuids: Collection[str] | None = None,
    mig_uuids: Collection[str] | None = None,
    allocation_ids: Collection[str] | None = None,
) -> list[Grant]:
    """Grants that meet the period, of tenants the principal may see, ordered by allocation and ordinal.

    `node` keeps one node's; '' those without a device, whatever node their record names. `tenant`, `gpu_uuids`,
    `mig_uuids` and `allocation_ids` keep those of one tenant, on some cards or MIG instances, of some allocations.
    """
    query = (
        select(grants, *ALLOCATION_COLUMNS)
        .join(allocations, allocations.c.allocation == grants.c.allocation)
        .where(principal.sees(allocations.c.tenant), _meets(grants, period))
        .order_by(grants.c.allocation, grants.c.ordinal)
    )
    if tenant is not None:
        query = query.where(allocations.c.tenant == tenant)
    if gpu_uuids is not None:
        query = query.where(grants.c.gpu_uuid.in_(gpu_uuids))
    if mig_uuids is not None:
        query = query.where(grants.c.mig_uuid.in_(mig_uuids))
    if allocation_ids is not None:
        query = query.where(grants.c.allocation.in_(allocation_ids))
    if node == "":
        query = query.where(grants.c.gpu_uuid.is_(None))
    elif node is not None:
        query = query.where(grants.c.node == node, grants.c.gpu_uuid.is_not(None))
    return [read_grant(row) for row in connection.execute(query)]


def read_grant(row: Row[Any]) -> Grant:
    """The fact in a row of `grants` joined with `ALLOCATION_COLUMNS` of its allocation."""
    return Grant(
        allocation=row.allocation,
        ordinal=row.ordinal,
        tenant=row.tenant,
        project=row.project,
        node=row.node,
        gpu_uuid=row.gpu_uuid,
        mig_uuid=row.mig_uuid,
        kind=GrantKind(row.kind),
        model=row.model,
        sku=row.sku,
        compute_units=row.compute_units,
        compute_units_total=row.compute_units_total,
        vram_bytes=row.vram_bytes,
        start_us=row.start_us,
        end_us=row.end_us,
        source=row.source,
        source_id=row.source_id,
    )


def load_device_periods(
    connection: Connection,
    principal: Principal,
    period: Period,
    *,
    node: str | None = None,
    gpu_uuids: Collection[str] | None = None,
) -> list[DevicePeriod]:
    """Device periods that meet the period, by card and start. For operators and billing: cards are not a tenant's."""
    principal.require(Role.OPERATOR, Role.BILLING)
    query = select(device_periods).where(_meets(device_periods, period))
    if node is not None:
        query = query.where(device_periods.c.node == node)
    if gpu_uuids is not None:
        query = query.where(device_periods.c.gpu_uuid.in_(gpu_uuids))
    query = query.order_by(device_periods.c.gpu_uuid, device_periods.c.start_us)
    return [
        DevicePeriod(
            gpu_uuid=row.gpu_uuid,
            node=row.node,
            device_index=row.device_index,
            model=row.model,
            sku=row.sku,
            compute_units=row.compute_units,
            vram_total_bytes=row.vram_total_bytes,
            vram_reserved_bytes=row.vram_reserved_bytes,
            mig_enabled=row.mig_enabled,
            offered_profiles=tuple(filter(None, row.offered_profiles.split(","))),
            share_min_milli=row.share_min_milli,
            share_min_vram_bytes=row.share_min_vram_bytes,
            period=_period(row),
        )
        for row in connection.execute(query)
    ]


def load_mig_periods(
    connection: Connection, principal: Principal, period: Period, gpu_uuids: Iterable[str]
) -> list[MigPeriod]:
    """MIG instances of the cards that meet the period, by card, instance and start."""
    rows = _of_cards(connection, principal, mig_periods, period, gpu_uuids)
    return [
        MigPeriod(
            mig_uuid=row.mig_uuid,
            gpu_uuid=row.gpu_uuid,
            gi_id=row.gi_id,
            profile=row.profile,
            start_slice=row.start_slice,
            slices=row.slices,
            sm_count=row.sm_count,
            vram_bytes=row.vram_bytes,
            origin=row.origin,
            period=_period(row),
        )
        for row in rows
    ]


def load_holds(connection: Connection, principal: Principal, period: Period, gpu_uuids: Iterable[str]) -> list[Hold]:
    """Holds on the cards that meet the period."""
    rows = _of_cards(connection, principal, holds, period, gpu_uuids)
    return [Hold(row.gpu_uuid, row.mig_uuid, row.compute_units, row.vram_bytes, _period(row)) for row in rows]


def load_device_states(
    connection: Connection, principal: Principal, period: Period, gpu_uuids: Iterable[str]
) -> list[DeviceStatePeriod]:
    """States of the cards that meet the period; a card without one is ok."""
    rows = _of_cards(connection, principal, device_states, period, gpu_uuids)
    return [DeviceStatePeriod(row.gpu_uuid, row.state, row.reason, _period(row)) for row in rows]


def load_contacts(connection: Connection, principal: Principal, period: Period, *, node: str) -> list[Period]:
    """The stretches, first to last heartbeat, in which the node was heard from and that meet the period."""
    principal.require(Role.OPERATOR, Role.BILLING)
    query = (
        select(node_contacts)
        .where(
            node_contacts.c.node == node,
            node_contacts.c.start_us < period.end_us,
            node_contacts.c.end_us >= period.start_us,
        )
        .order_by(node_contacts.c.start_us)
    )
    return [Period(row.start_us, row.end_us) for row in connection.execute(query)]


def _of_cards(
    connection: Connection, principal: Principal, table: Table, period: Period, gpu_uuids: Iterable[str]
) -> list[Row[Any]]:
    principal.require(Role.OPERATOR, Role.BILLING)
    query: Select[Any] = (
        select(table)
        .where(_meets(table, period), table.c.gpu_uuid.in_(list(gpu_uuids)))
        .order_by(table.c.gpu_uuid, table.c.start_us)
    )
    return list(connection.execute(query))


def _meets(table: Table, period: Period) -> Any:
    return and_(table.c.start_us < period.end_us, or_(table.c.end_us.is_(None), table.c.end_us > period.start_us))


def _period(row: Row[Any]) -> Period:
    return Period(row.start_us, OPEN_END_US if row.end_us is None else row.end_us)


def known_skus(connection: Connection, principal: Principal) -> frozenset[str]:
    """Every SKU that a card or a grant carries."""
    principal.require(Role.OPERATOR, Role.BILLING)
    query = select(device_periods.c.sku).union(select(grants.c.sku))
    return frozenset(connection.execute(query).scalars())
