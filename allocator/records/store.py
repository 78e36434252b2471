"""Keeping allocation records: what a source says of an allocation replaces what it said before."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from sqlalchemy import Connection, select

from allocator.allocation_store import SERVICE
from allocator.records.csv_rows import Problems, Row, grant_cells
from allocator.records.overlaps import Claim, find_overlaps
from allocator.records.recorded_store import in_chunks, load_records, refuse_closed_hours, write_records
from allocator.records.resolve import AllocationRecord, Assembled, GrantRecord, KnownHardware, assemble
from allocator.stock_store import serialize_capacity
from domain.errors import ConflictError, InputError
from domain.grants import OPEN_END_US, Grant
from domain.period import Period
from domain.skus import SkuTable
from domain.slugs import check_name
from store.access import Principal, Role, record
from store.capacity import ALLOCATION_COLUMNS, load_device_periods, load_grants, load_mig_periods, read_grant
from store.database import Database, now_us
from store.tables.capacity import allocations, grants
from store.tenants import create_project, create_tenant, load_projects, load_tenants


@dataclass(frozen=True, slots=True)
class NewTenants:
    """How an import creates the tenants it does not find: billing zone and currency, for ever."""

    zone: str
    currency: str


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """What an import did: allocations by what became of them, and the grants it read, some without a device."""

    added: int
    replaced: int
    unchanged: int
    grants: int
    record_only: int


def import_records(
    database: Database,
    principal: Principal,
    rows: Sequence[Row],
    problems: Problems,
    *,
    source: str,
    skus: SkuTable,
    new_tenants: NewTenants | None = None,
    corrects_closed: bool = False,
) -> ImportOutcome:
    """Store the rows, in one transaction; `problems` are those met in reading them.

    Replaces what the same source said of these allocations; the same rows again change nothing. `new_tenants`
    None: an unknown tenant or project is a problem. Raises InputError with every problem of the file,
    ConflictError for an allocation of another source and for what would change a closed hour, unless `corrects_closed`.
    """
    principal.require(Role.OPERATOR)
    if check_name("source", source) == SERVICE:
        raise InputError(f"cannot import as the source {source!r}: that is the allocator itself; choose another name")
    # What can be found out without it is not found out under the lock, which stops every grant.
    with database.read() as connection:
        hardware = _load_hardware(connection, principal, rows)
        missing = _missing_projects(connection, principal, rows)
    file = assemble(rows, problems, hardware=hardware, skus=skus, source=source)
    if new_tenants is None:
        for (tenant, project), line in missing.items():
            problems.add(line, f"unknown project {project!r} of tenant {tenant!r}: create it, or use --create-tenants")
    problems.raise_any()
    with database.write() as connection:
        serialize_capacity(connection)
        known = _load_hardware(connection, principal, rows)
        if known != hardware:
            file = assemble(rows, problems, hardware=known, skus=skus, source=source)
            problems.raise_any()
        old = load_records(connection, principal, file.records)
        _refuse_other_sources(old, source)
        changed = [each for each in file.records.values() if each != old.get(each.allocation)]
        if changed:
            _refuse_overlaps(connection, principal, file, known, problems)
            if not corrects_closed:
                refuse_closed_hours(connection, principal, changed, old)
            now = now_us(connection)
            if new_tenants is not None:
                _create_projects(connection, principal, rows, new_tenants, now)
            write_records(connection, principal, changed, old, now)
            record(connection, principal, "import allocations", f"{source}: {len(changed)} changed", now)
    return ImportOutcome(
        added=sum(each.allocation not in old for each in changed),
        replaced=sum(each.allocation in old for each in changed),
        unchanged=len(file.records) - len(changed),
        grants=len(rows),
        record_only=sum(row.gpu_uuid is None for row in rows),
    )


def export_rows(connection: Connection, principal: Principal) -> Iterator[Sequence[str]]:
    """The cells of every grant the principal may see, of every source, by allocation and ordinal."""
    query = (
        select(grants, *ALLOCATION_COLUMNS, allocations.c.labels)
        .join(allocations, allocations.c.allocation == grants.c.allocation)
        .where(principal.sees(allocations.c.tenant))
        .order_by(grants.c.allocation, grants.c.ordinal)
    )
    for row in connection.execute(query):
        yield grant_cells(read_grant(row), row.mig_start, row.labels, row.source_id)


def _load_hardware(connection: Connection, principal: Principal, rows: Sequence[Row]) -> KnownHardware:
    """What is known of the rows' cards within the rows' time."""
    gpu_uuids = {row.gpu_uuid for row in rows if row.gpu_uuid is not None}
    if not gpu_uuids:
        return KnownHardware({}, {})
    last_us = max(OPEN_END_US if row.end_us is None else row.end_us for row in rows)
    # One more, so that a card is known at the instant of a grant of no length too.
    period = Period(min(row.start_us for row in rows), last_us + 1)
    cards = defaultdict(list)
    instances = defaultdict(list)
    for chunk in in_chunks(gpu_uuids):
        for card in load_device_periods(connection, principal, period, gpu_uuids=chunk):
            cards[card.gpu_uuid].append(card)
        for instance in load_mig_periods(connection, principal, period, chunk):
            instances[instance.mig_uuid].append(instance)
    return KnownHardware(cards, instances)


def _missing_projects(connection: Connection, principal: Principal, rows: Iterable[Row]) -> dict[tuple[str, str], int]:
    """Projects that do not exist, each with the first line that names it."""
    known = load_projects(connection, principal)
    missing: dict[tuple[str, str], int] = {}
    for row in rows:
        if (row.tenant, row.project) not in known:
            missing.setdefault((row.tenant, row.project), row.line)
    return missing


def _create_projects(
    connection: Connection,
    principal: Principal,
    rows: Iterable[Row],
    new_tenants: NewTenants,
    now: int,
) -> None:
    known = {each.tenant for each in load_tenants(connection, principal)}
    for tenant, project in _missing_projects(connection, principal, rows):
        if tenant not in known:
            how = {"zone": new_tenants.zone, "currency": new_tenants.currency}
            create_tenant(connection, principal, tenant=tenant, **how, now_us=now)
            known.add(tenant)
        create_project(connection, principal, tenant=tenant, project=project, now_us=now)


def _refuse_other_sources(old: Mapping[str, AllocationRecord], source: str) -> None:
    others = sorted(each.allocation for each in old.values() if each.owner.source != source)
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        raise ConflictError(
            f"cannot import the allocation {others[0]!r}{more} as {source!r}: it belongs to the source "
            f"{old[others[0]].owner.source!r}; use that source, or other ids"
        )


def _refuse_overlaps(
    connection: Connection, principal: Principal, file: Assembled, hardware: KnownHardware, problems: Problems
) -> None:
    """Raise InputError where the file, with what else is recorded, grants a card beyond what it has."""
    on_cards = [(line, grant) for line, grant in file.lines if grant.gpu_uuid is not None]
    if not on_cards:
        return
    starts, ends = zip(*((grant.period.start_us, grant.period.end_us) for _, grant in on_cards), strict=True)
    load = partial(load_grants, connection, principal, Period(min(starts), max(ends)))
    # An instance may be held on a card that the file does not name.
    cards = in_chunks({str(grant.gpu_uuid) for _, grant in on_cards})
    instances = in_chunks({grant.mig_uuid for _, grant in on_cards if grant.mig_uuid is not None})
    loaded = chain(*(load(gpu_uuids=chunk) for chunk in cards), *(load(mig_uuids=chunk) for chunk in instances))
    recorded = {(each.allocation, each.ordinal): each for each in loaded if each.allocation not in file.records}
    claims = [_claim(None, grant) for grant in recorded.values()]
    claims += [_claim(line, grant) for line, grant in on_cards]
    find_overlaps(claims, hardware.cards, problems)
    problems.raise_any()


def _claim(line: int | None, grant: Grant | GrantRecord) -> Claim:
    return Claim(
        line=line,
        allocation=grant.allocation,
        gpu_uuid=str(grant.gpu_uuid),
        mig_uuid=grant.mig_uuid,
        kind=grant.kind,
        compute_units=grant.compute_units,
        compute_units_total=grant.compute_units_total,
        vram_bytes=grant.vram_bytes,
        period=grant.period,
    )
