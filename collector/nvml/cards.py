"""What a card is: the facts of one card, and the MIG instances on it."""

from typing import Any, NamedTuple

from collector.nvml.driver import MEMORY_VERSION_2, Driver, DriverError
from collector.nvml.mig import SMS_MAX, Card, Instance, Place, find_instances
from collector.ranges import is_possible
from domain.errors import UnavailableError
from domain.inventory import Device
from domain.series import GPU_MEMORY_TOTAL

_MIG_ENABLED = 1
# The full-card profile has seven slices, on A30 four (NVML_GPU_INSTANCE_PROFILE_7_SLICE and _4_SLICE).
_FULL_CARD_PROFILES = (4, 3)
# NVML_DEVICE_ARCH_*.
_ARCHITECTURES = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    7: "ampere",
    8: "ada",
    9: "hopper",
    10: "blackwell",
    13: "rubin",
}


class Found(NamedTuple):
    """A card as it is now, with its handle. `device` is without its instances, which are in `instances`.

    `places` are the MIG devices, of at most `places_max`, which is 0 for a card that cannot do MIG. `is_held` is
    False where the driver forgets the card as soon as nobody uses it (persistence mode is off).
    """

    device: Device
    handle: Any
    places_max: int
    places: tuple[Place, ...]
    instances: tuple[Instance, ...]
    is_held: bool


def find_card(driver: Driver, index: int, driver_version: str) -> Found:
    """The card of that index.

    Raises UnavailableError where the driver fails to say what it is, says what no card is, or what it is cannot be
    metered.
    """
    handle = driver.ask("DeviceGetHandleByIndex", index)
    uuid = driver.ask("DeviceGetUUID", handle)
    memory = driver.fact("DeviceGetMemoryInfo", handle, version=MEMORY_VERSION_2)
    if memory is None:
        # Memory shared with the processor, or a driver before 510: there is no VRAM to meter.
        raise UnavailableError("cannot meter a card whose driver tells no memory; use one of 510 or newer")
    if not is_possible(GPU_MEMORY_TOTAL, memory.total) or memory.reserved > memory.total:
        raise UnavailableError(
            f"cannot believe that a card has {memory.total} bytes, of which {memory.reserved} are reserved; see dmesg"
        )
    model = driver.ask("DeviceGetName", handle)
    is_mig = mig_is_on(driver, handle)
    places_max = 0 if is_mig is None else driver.ask("DeviceGetMaxMigDeviceCount", handle)
    card = Card(handle, model, memory.total)
    places, instances = find_instances(driver, card, places_max) if is_mig else ((), [])
    device = Device(
        uuid=uuid,
        index=index,
        model=model,
        vram_total_bytes=memory.total,
        vram_reserved_bytes=memory.reserved,
        mig_enabled=bool(is_mig),
        sm_count=_full_card_sm_count(driver, handle) if is_mig else None,
        pci_bus_id=driver.ask("DeviceGetPciInfo", handle).busId,
        driver_version=driver_version,
        minor=_optional(driver, "DeviceGetMinorNumber", handle),
        architecture=_ARCHITECTURES.get(_optional(driver, "DeviceGetArchitecture", handle), ""),
        vbios_version=_optional(driver, "DeviceGetVbiosVersion", handle) or "",
        numa_node=_optional(driver, "DeviceGetNumaNodeId", handle),
    )
    is_held = _optional(driver, "DeviceGetPersistenceMode", handle) != 0
    return Found(device, handle, places_max, places, tuple(instances), is_held)


def mig_is_on(driver: Driver, handle: Any) -> bool | None:
    """Whether the card is in MIG mode; None where it cannot be. Raises DriverError where the driver fails to say."""
    modes = driver.fact("DeviceGetMigMode", handle)
    return None if modes is None else bool(modes[0] == _MIG_ENABLED)


def _full_card_sm_count(driver: Driver, handle: Any) -> int | None:
    infos = (driver.fact("DeviceGetGpuInstanceProfileInfo", handle, each, version=1) for each in _FULL_CARD_PROFILES)
    counts = (int(info.multiprocessorCount) for info in infos if info is not None)
    return next((count for count in counts if count <= SMS_MAX), None)


def _optional(driver: Driver, call: str, handle: Any) -> Any:
    """What is good to know of a card, but nothing that it would be left out for: None where it is not told."""
    try:
        return driver.ask(call, handle)
    except (DriverError, UnicodeDecodeError):
        return None
