"""The rows of a file as allocations: what a row leaves out comes from what is known of its card."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from allocator.records.csv_rows import Problems, Row
from allocator.stock import proportional_vram_bytes
from domain.errors import InputError
from domain.grants import OPEN_END_US, GrantKind
from domain.mig import MigProfile, geometry_of
from domain.money import round_half_even
from domain.period import Period
from domain.skus import SkuTable
from domain.units import GIB, WHOLE_GPU_UNITS, milli_gpu
from store.capacity import DevicePeriod, MigPeriod


@dataclass(frozen=True, slots=True)
class GrantRecord:
    """A grant as its source says it, all but its ordinal; columns as in store/tables/capacity.py."""

    allocation: str
    node: str
    gpu_uuid: str | None
    mig_uuid: str | None
    mig_start: int | None
    kind: GrantKind
    model: str
    sku: str
    compute_units: int
    compute_units_total: int
    vram_bytes: int
    start_us: int
    end_us: int | None

    @property
    def period(self) -> Period:
        """The grant's interval, an open one reaching to the end of time."""
        return Period(self.start_us, OPEN_END_US if self.end_us is None else self.end_us)

    @property
    def order(self) -> tuple[object, ...]:
        """By which an allocation's grants are numbered, so that the order of lines in a file means nothing."""
        return (
            self.start_us,
            self.node,
            self.gpu_uuid or "",
            self.mig_uuid or "",
            self.period.end_us,
            self.kind,
            self.sku,
            self.model,
            self.compute_units,
            self.compute_units_total,
            self.vram_bytes,
            -1 if self.mig_start is None else self.mig_start,
        )


@dataclass(frozen=True, slots=True)
class Owner:
    """What is said of an allocation beside its grants; `labels` is canonical JSON."""

    tenant: str
    project: str
    source: str
    source_id: str | None
    labels: str


@dataclass(frozen=True, slots=True)
class AllocationRecord:
    """An allocation as its source says it, grants by ordinal."""

    allocation: str
    owner: Owner
    grants: Sequence[GrantRecord]


@dataclass(frozen=True, slots=True)
class Assembled:
    """The allocations of a file by id, and each of its grants with the line that says so."""

    records: Mapping[str, AllocationRecord]
    lines: Sequence[tuple[int, GrantRecord]]


@dataclass(frozen=True, slots=True)
class KnownHardware:
    """The periods of cards, by UUID, and of MIG instances, by UUID, each in order of time."""

    cards: Mapping[str, Sequence[DevicePeriod]]
    instances: Mapping[str, Sequence[MigPeriod]]

    def card(self, row: Row) -> DevicePeriod | None:
        """The row's card as it was first within the row's time; None where nothing is known of it then."""
        for known in self.cards.get(row.gpu_uuid or "", ()):
            if _meets(known.period, row):
                return known
        return None

    def instance(self, row: Row) -> MigPeriod | None:
        """The row's MIG instance as it was first within the row's time; None where nothing is known of it then."""
        for known in self.instances.get(row.mig_uuid or "", ()):
            if known.gpu_uuid == row.gpu_uuid and _meets(known.period, row):
                return known
        return None


def assemble(
    rows: Sequence[Row], problems: Problems, *, hardware: KnownHardware, skus: SkuTable, source: str
) -> Assembled:
    """The allocations of the rows, as `source` says them; what is wrong with a row goes to `problems`.

    Rows of one allocation must agree on its tenant, project, labels and source_id. Its grants are numbered in
    their own order, whatever the order of the lines.
    """
    owners: dict[str, tuple[Owner, int]] = {}
    lines: list[tuple[int, GrantRecord]] = []
    held: dict[str, list[GrantRecord]] = defaultdict(list)
    for row in rows:
        owner = Owner(row.tenant, row.project, source, row.source_id, row.labels)
        first, first_line = owners.setdefault(row.allocation, (owner, row.line))
        if owner != first:
            said = f"{row.allocation!r} has another tenant, project, labels or id in line {first_line}"
            problems.add(row.line, f"{said}: write the same")
        try:
            grant = resolve(row, hardware, skus)
        except InputError as error:
            problems.add(row.line, str(error))
            continue
        lines.append((row.line, grant))
        held[row.allocation].append(grant)
    records = {
        allocation: AllocationRecord(allocation, owner, tuple(sorted(held[allocation], key=lambda each: each.order)))
        for allocation, (owner, _) in owners.items()
    }
    return Assembled(records, lines)


def resolve(row: Row, hardware: KnownHardware, skus: SkuTable) -> GrantRecord:
    """The grant of the row. Raises InputError where the row contradicts its card, or leaves out what is needed."""
    card = hardware.card(row)
    if card is not None and row.model and row.model.lower() != card.model.lower():
        raise InputError(f"the card {row.gpu_uuid!r} is a {card.model!r}, not a {row.model!r}: leave the cell empty")
    if card is not None and row.node != card.node:
        raise InputError(f"the card {row.gpu_uuid!r} is on the node {card.node!r} then, not on {row.node!r}: mend it")
    model = card.model if card is not None else row.model
    if not model:
        raise InputError("the model is missing, and nothing is known of the card: write it")
    if card is None:
        _refuse_oversize(row, model, skus)
    if row.kind is GrantKind.MIG:
        compute_units, total, vram_bytes, mig_start = _mig_size(row, card, hardware.instance(row), model)
    else:
        compute_units, total, vram_bytes = _size(row, card)
        mig_start = None
    return GrantRecord(
        allocation=row.allocation,
        node=row.node,
        gpu_uuid=row.gpu_uuid,
        mig_uuid=row.mig_uuid,
        mig_start=mig_start,
        kind=row.kind,
        model=model,
        sku=_sku(row, card, model, skus),
        compute_units=compute_units,
        compute_units_total=total,
        vram_bytes=vram_bytes,
        start_us=row.start_us,
        end_us=row.end_us,
    )


def _refuse_oversize(row: Row, model: str, skus: SkuTable) -> None:
    """A card that nobody has reported has at most what its model comes in, as far as the SKU table tells."""
    sizes = [gib for known, gib in skus.by_card if known == model.lower()]
    if sizes and row.vram_bytes is not None and round(Fraction(row.vram_bytes, GIB)) > max(sizes):
        raise InputError(
            f"{row.vram_bytes} bytes of VRAM on a {model!r}, which has {max(sizes)} GiB: write less, or add the "
            "larger card to the SKU table"
        )


def _size(row: Row, card: DevicePeriod | None) -> tuple[int, int, int]:
    """Compute units, of how many, and VRAM bytes of a whole card or a share."""
    total = WHOLE_GPU_UNITS if card is None else card.compute_units
    if row.kind is GrantKind.SHARE and card is not None and card.mig_enabled:
        raise InputError(f"the card {row.gpu_uuid!r} is in MIG mode and has no shares: write the kind mig")
    milli = WHOLE_GPU_UNITS if row.milli_gpu is None else row.milli_gpu
    # A card without MIG has as many units as a whole has thousandths, so a share is a whole number of units.
    compute_units = total if row.kind is GrantKind.WHOLE else milli
    if row.vram_bytes is not None:
        return compute_units, total, row.vram_bytes
    if card is None:
        raise InputError("vram_mib is missing, and nothing is known of the card: write it, 0 if none was promised")
    # Of a card in MIG mode too: as a whole it is one device, and the driver's reserve is not for sale.
    usable_bytes = card.vram_total_bytes - card.vram_reserved_bytes
    if row.kind is GrantKind.WHOLE:
        return compute_units, total, usable_bytes
    return compute_units, total, proportional_vram_bytes(usable_bytes, milli)


def _mig_size(
    row: Row, card: DevicePeriod | None, instance: MigPeriod | None, model: str
) -> tuple[int, int, int, int | None]:
    """Compute units, of how many, VRAM bytes and first slice of a MIG instance.

    The instance's own sizes if it is known, which the row may only repeat; else those of its profile, of which drivers
    report some MiB more or less, so that the row may say how much; else what the row says.
    """
    if card is not None and not card.mig_enabled:
        raise InputError(f"the card {row.gpu_uuid!r} is not in MIG mode then: write the kind whole or share")
    if instance is not None and (instance.profile != row.mig_profile):
        raise InputError(f"the MIG instance {row.mig_uuid!r} is a {instance.profile}, not a {row.mig_profile}: mend it")
    profile, profile_total = _profile(row, card, model)
    total = card.compute_units if card is not None else profile_total
    size = instance or profile
    if size is None or total is None:
        if row.milli_gpu is None or row.vram_bytes is None:
            raise InputError(
                f"nothing is known of the MIG profile {row.mig_profile!r} of a {model!r}: write milli_gpu and vram_mib"
            )
        total = WHOLE_GPU_UNITS if total is None else total
        compute_units = round_half_even(Fraction(row.milli_gpu * total, WHOLE_GPU_UNITS))
        return compute_units, total, row.vram_bytes, row.mig_start
    if row.milli_gpu not in (None, milli_gpu(size.sm_count, total)):
        raise InputError(
            f"a {row.mig_profile} of a {model!r} is {milli_gpu(size.sm_count, total)} milli-GPU, not {row.milli_gpu}: "
            "leave the cell empty"
        )
    if instance is not None and row.vram_bytes not in (None, instance.vram_bytes):
        raise InputError(
            f"the MIG instance {row.mig_uuid!r} has {instance.vram_bytes} bytes of VRAM, not {row.vram_bytes}: leave "
            "vram_mib empty"
        )
    mig_start = row.mig_start if instance is None else instance.start_slice
    return size.sm_count, total, size.vram_bytes if row.vram_bytes is None else row.vram_bytes, mig_start


def _profile(row: Row, card: DevicePeriod | None, model: str) -> tuple[MigProfile | None, int | None]:
    """The row's MIG profile and the SMs of the whole card, as far as the model's geometry is known."""
    geometry = geometry_of(model, None if card is None else card.vram_total_bytes)
    if geometry is None or row.mig_profile is None:
        return None, None
    return geometry.profile(row.mig_profile), geometry.full_card.sm_count


def _sku(row: Row, card: DevicePeriod | None, model: str, skus: SkuTable) -> str:
    if card is not None:
        return f"{card.sku}/{row.mig_profile}" if row.mig_profile else card.sku
    # Without the card, its size is what its model comes in, if that is one size only; a whole card also tells.
    sizes = {gib for known, gib in skus.by_card if known == model.lower()}
    if len(sizes) == 1:
        return skus.sku_of(model, sizes.pop() * GIB, row.mig_profile)
    return skus.sku_of(model, (row.vram_bytes or 0) if row.kind is GrantKind.WHOLE else 0, row.mig_profile)


def _meets(known: Period, row: Row) -> bool:
    end_us = OPEN_END_US if row.end_us is None else row.end_us
    return known.start_us <= row.start_us < known.end_us or row.start_us < known.start_us < end_us
