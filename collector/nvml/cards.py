"""What there is: the cards of the driver, and the MIG instances on them."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from collector.nvml.driver import MEMORY_VERSION_2, Driver, DriverError
from domain.errors import UnavailableError
from domain.inventory import Device, MigInstance
from domain.samples import FieldState
from domain.units import MIB

_MIG_ENABLED = 1
# "NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb" is a compute instance of a 3g.40gb.
_PROFILE = re.compile(r" MIG (?:\d+c\.)?(\S+)$")
# The full-card profile has seven slices, on A30 four (NVML_GPU_INSTANCE_PROFILE_7_SLICE and _4_SLICE).
_FULL_CARD_PROFILES = (4, 3)


class Found(NamedTuple):
    """A card as it is now, with the handles of itself and of its MIG instances by UUID."""

    device: Device
    handles: dict[str, Any]


def find_card(driver: Driver, index: int, driver_version: str) -> Found:
    """The card of that index.

    Raises UnavailableError where the driver fails to say what it is, or what it is cannot be metered.
    """
    handle = driver.ask("DeviceGetHandleByIndex", index)
    uuid = driver.ask("DeviceGetUUID", handle)
    memory = driver.fact("DeviceGetMemoryInfo", handle, version=MEMORY_VERSION_2)
    if memory is None:
        # Memory shared with the processor, or a driver before 510: there is no VRAM to meter.
        raise UnavailableError("cannot meter a card whose driver tells no memory; use one of 510 or newer")
    mig_modes = driver.fact("DeviceGetMigMode", handle)
    is_mig = mig_modes is not None and mig_modes[0] == _MIG_ENABLED
    instances = dict(_instances(driver, handle)) if is_mig else {}
    device = Device(
        uuid=uuid,
        index=index,
        model=driver.ask("DeviceGetName", handle),
        vram_total_bytes=memory.total,
        vram_reserved_bytes=memory.reserved,
        mig_enabled=is_mig,
        sm_count=_full_card_sm_count(driver, handle) if is_mig else None,
        pci_bus_id=driver.ask("DeviceGetPciInfo", handle).busId,
        driver_version=driver_version,
        instances=tuple(instances),
    )
    return Found(device, {uuid: handle, **{instance.uuid: each for instance, each in instances.items()}})


def _instances(driver: Driver, card: Any) -> Iterator[tuple[MigInstance, Any]]:
    """The GPU instances of a card; several compute instances in one count once, by the first of them."""
    seen: set[int] = set()
    for index in range(driver.ask("DeviceGetMaxMigDeviceCount", card)):
        # Indexes have holes where instances were destroyed.
        handle = driver.fact("DeviceGetMigDeviceHandleByIndex", card, index)
        if handle is None:
            continue
        gi_id = driver.ask("DeviceGetGpuInstanceId", handle)
        if gi_id in seen:
            continue
        seen.add(gi_id)
        yield _instance(driver, card, handle, gi_id), handle


def _instance(driver: Driver, card: Any, handle: Any, gi_id: int) -> MigInstance:
    uuid = driver.ask("DeviceGetUUID", handle)
    attributes = driver.ask("DeviceGetAttributes", handle)
    name = driver.ask("DeviceGetName", handle)
    profile = _PROFILE.search(name)
    if profile is None:
        raise UnavailableError(
            f"cannot tell the profile of the MIG instance {uuid!r}: its driver names it {name!r}; install one that "
            "names profiles, such as 1g.10gb"
        )
    try:
        placement = driver.ask("GpuInstanceGetInfo", driver.ask("DeviceGetGpuInstanceById", card, gi_id)).placement
    except DriverError as error:
        if error.state is FieldState.NO_PERMISSION:
            raise UnavailableError(
                f"cannot see where the MIG instance {uuid!r} lies on its card: run the collector as root"
            ) from error
        raise
    return MigInstance(
        uuid=uuid,
        gi_id=gi_id,
        profile=profile[1],
        start=placement.start,
        slices=placement.size,
        sm_count=attributes.multiprocessorCount,
        vram_bytes=attributes.memorySizeMB * MIB,
    )


def _full_card_sm_count(driver: Driver, handle: Any) -> int | None:
    infos = (driver.fact("DeviceGetGpuInstanceProfileInfo", handle, each, version=1) for each in _FULL_CARD_PROFILES)
    return next((int(info.multiprocessorCount) for info in infos if info is not None), None)
