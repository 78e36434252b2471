"""What a node's report says of each card, checked, in the terms of the ledger."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from domain.capacity import ShareGrain
from domain.clock import MICROSECONDS
from domain.errors import InputError
from domain.inventory import Device, Inventory
from domain.mig import geometry_of, taken_by
from domain.period import format_instant
from domain.skus import SkuTable
from domain.slugs import check_model, check_name
from domain.units import WHOLE_GPU_UNITS

# A collector measures its skew and stays within this; a report from further ahead would shut out true ones.
_AHEAD_US = 2 * MICROSECONDS


@dataclass(frozen=True, slots=True)
class CardFacts:
    """What a card is until something of it changes: the columns of its period, all but UUID, node and interval."""

    device_index: int
    model: str
    sku: str
    compute_units: int
    vram_total_bytes: int
    vram_reserved_bytes: int
    mig_enabled: bool
    offered_profiles: str
    share_min_milli: int | None
    share_min_vram_bytes: int | None


@dataclass(frozen=True, slots=True)
class InstanceFacts:
    """What a MIG instance is until something of it changes: its columns, all but UUID, origin and interval."""

    gpu_uuid: str
    gi_id: int
    profile: str
    start_slice: int
    slices: int
    sm_count: int
    vram_bytes: int

    def is_same_cut(self, other: "InstanceFacts") -> bool:
        """Whether both are the same piece of the same card, however its size is reported now."""
        return (self.gpu_uuid, self.profile, self.start_slice) == (other.gpu_uuid, other.profile, other.start_slice)


def check_inventory(inventory: Inventory, now_us: int) -> None:
    """Raise InputError for a report that cannot be true; `now_us` is the database's clock."""
    observed_us = inventory.observed_s * MICROSECONDS
    if not 0 <= observed_us <= now_us + _AHEAD_US:
        raise InputError(
            f"cannot take an inventory observed at second {inventory.observed_s!r}: it is "
            f"{format_instant(now_us)} here; set the node's clock"
        )
    _refuse_twice("card", (device.uuid for device in inventory.devices))
    _refuse_twice("index", (device.index for device in inventory.devices))
    _refuse_twice("MIG instance", (each.uuid for device in inventory.devices for each in device.instances))
    for device in inventory.devices:
        _check_device(device)


def card_facts(device: Device, skus: SkuTable, share_grain: ShareGrain | None) -> CardFacts:
    """The card as its period will say; `share_grain` None: cards are not sold in shares here."""
    geometry = geometry_of(device.model, device.vram_total_bytes) if device.mig_enabled else None
    return CardFacts(
        device_index=device.index,
        model=device.model,
        sku=skus.sku_of(device.model, device.vram_total_bytes),
        compute_units=device.sm_count if device.mig_enabled and device.sm_count else WHOLE_GPU_UNITS,
        vram_total_bytes=device.vram_total_bytes,
        vram_reserved_bytes=device.vram_reserved_bytes,
        mig_enabled=device.mig_enabled,
        offered_profiles=",".join(profile.name for profile in geometry.profiles) if geometry else "",
        share_min_milli=share_grain.min_milli if share_grain and not device.mig_enabled else None,
        share_min_vram_bytes=share_grain.min_vram_bytes if share_grain and not device.mig_enabled else None,
    )


def instance_facts(device: Device) -> dict[str, InstanceFacts]:
    """The card's MIG instances by UUID."""
    return {
        each.uuid: InstanceFacts(
            gpu_uuid=device.uuid,
            gi_id=each.gi_id,
            profile=each.profile,
            start_slice=each.start,
            slices=each.slices,
            sm_count=each.sm_count,
            vram_bytes=each.vram_bytes,
        )
        for each in device.instances
    }


def _check_device(device: Device) -> None:
    check_name("GPU UUID", device.uuid)
    check_model(device.model)
    for instance in device.instances:
        check_name("MIG UUID", instance.uuid)
        check_name("MIG profile", instance.profile)
    if not 0 <= device.vram_reserved_bytes < device.vram_total_bytes:
        said = f"reports {device.vram_reserved_bytes!r} of {device.vram_total_bytes!r} bytes as reserved"
        raise _refused(device, said, "report bytes the driver can have")
    if not device.mig_enabled:
        if device.instances:
            raise _refused(device, "has MIG instances with MIG off", "read both in one pass")
        return
    if device.sm_count is None or device.sm_count < 1:
        raise _refused(
            device, f"is in MIG mode with {device.sm_count!r} SMs", "report its full-card profile's SM count"
        )
    taken_by(device.instances)
    if sum(each.sm_count for each in device.instances) > device.sm_count:
        raise _refused(device, f"has instances of more than its {device.sm_count} SMs", "report what the driver says")
    if sum(each.vram_bytes for each in device.instances) > device.vram_total_bytes:
        raise _refused(device, "has instances of more bytes than it has", "report what the driver says")


def _refused(device: Device, said: str, remedy: str) -> InputError:
    return InputError(f"cannot take the inventory: card {device.uuid!r} {said}; {remedy}")


def _refuse_twice(kind: str, names: Iterable[object]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InputError(f"cannot take the inventory: {kind} {twice[0]!r} is in it twice; report each once")
