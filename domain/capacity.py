"""The balance of one device-second: every compute unit and every byte of it in exactly one state."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from domain.errors import InputError
from domain.inventory import MigInstance
from domain.mig import MigGeometry, Placeable, largest_placeable, taken_by


@dataclass(frozen=True, slots=True)
class Balance:
    """One dimension of a device in one second, compute units or bytes, none of them negative.

    granted: a tenant's. held: taken, not billed (reserved, being verified, releasing). reserved: the driver's
    own. What is left is lost on a lost device, drained on one out of service; otherwise idle, as far as it
    could be sold as the device is sold, and stranded beyond that. What is granted stays granted on a lost
    device: the grant owns the time, and its gap class says who pays.
    """

    total: int
    granted: int
    held: int
    reserved: int
    idle: int = 0
    stranded: int = 0
    drained: int = 0
    lost: int = 0

    @property
    def residual(self) -> int:
        """The total minus the seven states: 0, or minus what was granted and held beyond what there is."""
        return self.total - (
            self.granted + self.held + self.idle + self.stranded + self.drained + self.lost + self.reserved
        )


class DeviceBalance(NamedTuple):
    """Both dimensions of one device-second."""

    compute: Balance
    vram: Balance


class DeviceState(StrEnum):
    """Whether a device takes new grants: a suspect one still does, a draining or failed one does not."""

    OK = "ok"
    SUSPECT = "suspect"
    DRAINING = "draining"
    FAILED = "failed"


OUT_OF_SERVICE = frozenset({DeviceState.DRAINING, DeviceState.FAILED})
"""The states of a device that takes no new grants."""


class Amount(NamedTuple):
    """Some of both dimensions."""

    compute_units: int
    vram_bytes: int


_NOTHING = Amount(0, 0)


class ShareGrain(NamedTuple):
    """The smallest share that a card is sold in: milli-GPU and bytes."""

    min_milli: int
    min_vram_bytes: int

    def fits_in(self, free: Amount, compute_units: int) -> bool:
        """Whether one more share fits, in both dimensions, on a card of `compute_units`."""
        return free.compute_units * 1_000 >= self.min_milli * compute_units and free.vram_bytes >= self.min_vram_bytes


@dataclass(frozen=True, slots=True)
class DeviceCapacity:
    """What a device's period says of its size and of how it is sold.

    A device in MIG mode is sold by MIG instance, one with a `share_grain` in shares, any other whole.
    `compute_units` is 1,000 where MIG is off, the SM count of its full-card profile where it is on. `geometry`
    is None where MIG is off, and where the model's is not known: nothing then counts as placeable but the
    instances that exist.
    """

    compute_units: int
    vram_total_bytes: int
    vram_reserved_bytes: int
    share_grain: ShareGrain | None = None
    mig_mode: bool = False
    geometry: MigGeometry | None = None
    offered_profiles: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.vram_reserved_bytes <= self.vram_total_bytes:
            raise InputError(
                f"cannot use a device of {self.vram_total_bytes!r} bytes of which the driver keeps "
                f"{self.vram_reserved_bytes!r}: report the inventory again"
            )


class Take(NamedTuple):
    """What one grant or hold takes; `mig_uuid` is the instance it is on, None for the device itself."""

    compute_units: int
    vram_bytes: int
    mig_uuid: str | None = None


def balance(
    device: DeviceCapacity,
    grants: Sequence[Take],
    holds: Sequence[Take] = (),
    instances: Sequence[MigInstance] = (),
    *,
    foreign_uuids: Collection[str] = (),
    state: DeviceState = DeviceState.OK,
    lost: bool = False,
) -> DeviceBalance:
    """The seven states of a device in a second in which none of the arguments changes.

    `instances` are all that exist on the card; those in `foreign_uuids` take their slices but cannot be
    granted, so they are stranded. Granting beyond what is there shows as a residual below 0 and never makes
    another state smaller: beyond the device, beyond a MIG instance (twice, say), or on an instance that does
    not exist. What takes all compute units of a MIG card, but no instance, takes the card with all that is on
    it. Bytes of a MIG card that no instance can have, such as those left beside a full-card one, are stranded.

    Raises InputError for takes below 0 and for instances that cannot exist together.
    """
    takes = (*grants, *holds)
    for take in takes:
        if min(take.compute_units, take.vram_bytes) < 0:
            raise InputError(f"cannot balance the negative grant {take!r}: sizes start at 0")
    taken_slices = taken_by(instances)
    reserved_bytes = _reserved_bytes(device, instances)
    usable = Amount(device.compute_units, device.vram_total_bytes - reserved_bytes)
    backed = _backed(device, usable, takes, instances)
    free = Amount(
        max(0, usable.compute_units - backed.compute_units),
        max(0, usable.vram_bytes - backed.vram_bytes),
    )
    used_uuids = {take.mig_uuid for take in takes}
    offered = [each for each in instances if each.uuid not in used_uuids and each.uuid not in foreign_uuids]
    is_taken = any(_is_of_card(device, take) for take in takes)
    idle = _NOTHING if is_taken and device.share_grain is None else _idle(device, free, offered, taken_slices)

    def rest(free: int, idle: int) -> dict[str, int]:
        if lost:
            return {"lost": free}
        if state in OUT_OF_SERVICE:
            return {"drained": free}
        return {"idle": idle, "stranded": free - idle}

    return DeviceBalance(
        compute=Balance(
            device.compute_units,
            granted=sum(take.compute_units for take in grants),
            held=sum(take.compute_units for take in holds),
            reserved=0,
            **rest(free.compute_units, idle.compute_units),
        ),
        vram=Balance(
            device.vram_total_bytes,
            granted=sum(take.vram_bytes for take in grants),
            held=sum(take.vram_bytes for take in holds),
            reserved=reserved_bytes,
            **rest(free.vram_bytes, idle.vram_bytes),
        ),
    )


def _reserved_bytes(device: DeviceCapacity, instances: Sequence[MigInstance]) -> int:
    """What the driver keeps, at most what the instances leave of the card.

    The driver reports its reserve for the whole card and each instance's size apart from it, and the two need
    not add up: the full-card instance of an H100 is some 70 MiB more than total - reserved. The instance is
    what is sold, so the reserve gives way.
    """
    if not device.mig_mode:
        return device.vram_reserved_bytes
    left_bytes = device.vram_total_bytes - sum(each.vram_bytes for each in instances)
    return min(device.vram_reserved_bytes, max(0, left_bytes))


def _is_of_card(device: DeviceCapacity, take: Take) -> bool:
    """Whether the card itself is taken: any part of it, or all of one in MIG mode."""
    return take.mig_uuid is None and (not device.mig_mode or take.compute_units == device.compute_units)


def _backed(device: DeviceCapacity, usable: Amount, takes: Sequence[Take], instances: Sequence[MigInstance]) -> Amount:
    """How much of what is taken exists: at most all of each instance, and of the card."""
    sizes: dict[str | None, Amount] = {}
    if device.mig_mode:
        sizes = {each.uuid: Amount(each.sm_count, each.vram_bytes) for each in instances}
    if any(_is_of_card(device, take) for take in takes):
        sizes[None] = usable
    compute: Counter[str | None] = Counter()
    vram: Counter[str | None] = Counter()
    for take in takes:
        compute[take.mig_uuid] += take.compute_units
        vram[take.mig_uuid] += take.vram_bytes
    return Amount(
        sum(min(compute[uuid], size.compute_units) for uuid, size in sizes.items()),
        sum(min(vram[uuid], size.vram_bytes) for uuid, size in sizes.items()),
    )


def _idle(device: DeviceCapacity, free: Amount, offered: Sequence[MigInstance], taken_slices: int) -> Amount:
    """What of the free capacity could be sold as the device is sold; never more than is free.

    On a MIG card: the `offered` instances, which exist and can be granted as they stand, by their reported
    sizes, and beside them the most that could still be made, by the table's. An instance granted in part
    offers nothing.
    """
    if device.mig_mode:
        placeable = Placeable(0, 0)
        if device.geometry is not None:
            placeable = largest_placeable(device.geometry, device.offered_profiles, taken_slices)
        return Amount(
            min(free.compute_units, placeable.sm_count + sum(each.sm_count for each in offered)),
            min(free.vram_bytes, placeable.vram_bytes + sum(each.vram_bytes for each in offered)),
        )
    if device.share_grain is not None:
        return free if device.share_grain.fits_in(free, device.compute_units) else _NOTHING
    return free
