"""The MIG instances of a card: a cheap look at which there are, and what each is, told by the hardware."""

import ctypes
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from collector.nvml.driver import Driver, DriverError
from domain.errors import UnavailableError
from domain.inventory import MigInstance
from domain.mig import geometry_of
from domain.samples import FieldState
from domain.units import GIB, MIB

# "NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb" is a compute instance of a 3g.40gb.
_PROFILE = re.compile(r" MIG (?:\d+c\.)?(?P<profile>\d+g\.\d+gb(?P<suffix>\S*))$")
# Memory is cut in eighths, on an A30 in quarters.
_MEMORY_PARTS = 8
# Numbers of profiles are below this (NVML_GPU_INSTANCE_PROFILE_COUNT, which grows).
_PROFILES_MAX = 24
# Several times what any card has.
SMS_MAX = 1_024


class Card(NamedTuple):
    """The card that instances are on: its handle, name and memory."""

    handle: Any
    model: str
    vram_total_bytes: int


class Place(NamedTuple):
    """A MIG device as a look at its card finds it: one compute instance. `row` is its index, `address` its handle's."""

    row: int
    address: int
    gi_id: int
    ci_id: int


class Instance(NamedTuple):
    """A GPU instance, by the first of its compute instances, with the handle of that one.

    `compute_sms` are the SMs of each of its compute instances, by their ids: together at most its own.
    """

    itself: MigInstance
    handle: Any
    compute_sms: dict[int, int]


def mig_devices(driver: Driver, card: Any, count: int) -> Iterator[tuple[Place, Any]]:
    """Each MIG device there is, of at most `count`, with its handle; indexes have holes where some were destroyed.

    Raises DriverError where the driver does not say, as in the midst of a change.
    """
    for row in range(count):
        handle = driver.fact("DeviceGetMigDeviceHandleByIndex", card, row)
        if handle is not None:
            gi_id = driver.ask("DeviceGetGpuInstanceId", handle)
            ci_id = driver.ask("DeviceGetComputeInstanceId", handle)
            yield Place(row, address_of(handle), gi_id, ci_id), handle


def look_at_places(driver: Driver, card: Any, count: int) -> tuple[Place, ...]:
    """The same without their handles, by which it is seen whether they are as they were."""
    return tuple(place for place, _ in mig_devices(driver, card, count))


def find_instances(driver: Driver, card: Card, count: int) -> tuple[tuple[Place, ...], list[Instance]]:
    """The MIG devices there are, of at most `count`, and the GPU instances that they make up.

    Several compute instances in one GPU instance share all that is metered of it, and count once. Raises
    UnavailableError where the driver does not say what one is.
    """
    devices = list(mig_devices(driver, card.handle, count))
    compute: dict[int, dict[int, Any]] = {}
    for place, handle in devices:
        compute.setdefault(place.gi_id, {})[place.ci_id] = handle
    instances = [_instance(driver, card, gi_id, handles) for gi_id, handles in compute.items()]
    return tuple(place for place, _ in devices), instances


def missing_numbers(places: Iterable[Place], now: Sequence[Place]) -> frozenset[int]:
    """The numbers of the GPU instances of which something that was there is there no more."""
    return frozenset(place.gi_id for place in set(places).difference(now))


def profile_of(slices: int, vram_bytes: int, card_bytes: int) -> str:
    """The profile of an instance with so many compute slices and bytes, such as `1g.10gb`.

    By the vendor's rule (NVIDIA/go-nvlib, NewMigProfile): the memory in eighths of the card's, upward, times the
    card's in whole GiB. Names that drivers give have been wrong (dcgm-exporter 544).
    """
    parts = math.ceil(vram_bytes * _MEMORY_PARTS / card_bytes)
    card_gib = math.ceil(card_bytes / GIB)
    # Half up, as the vendor rounds.
    return f"{slices}g.{(2 * parts * card_gib + _MEMORY_PARTS) // (2 * _MEMORY_PARTS)}gb"


def address_of(handle: Any) -> int:
    """By which handles can be told apart; they are pointers of the driver's own."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _instance(driver: Driver, card: Card, gi_id: int, compute: Mapping[int, Any]) -> Instance:
    """The GPU instance of that number; `compute` are the handles of its compute instances by their ids."""
    handle = next(iter(compute.values()))
    uuid = driver.ask("DeviceGetUUID", handle)
    attributes = {ci_id: driver.ask("DeviceGetAttributes", each) for ci_id, each in compute.items()}
    one = next(iter(attributes.values()))
    vram_bytes, slices = one.memorySizeMB * MIB, one.gpuInstanceSliceCount
    compute_sms = {ci_id: int(each.multiprocessorCount) for ci_id, each in attributes.items()}
    most_sms = max(compute_sms.values())
    if vram_bytes > card.vram_total_bytes or most_sms > SMS_MAX:
        raise UnavailableError(
            f"cannot believe that the MIG instance {uuid!r} has {vram_bytes} bytes and {most_sms} SMs; see dmesg"
        )
    profile = _profile(uuid, driver.ask("DeviceGetName", handle), slices, vram_bytes, card.vram_total_bytes)
    info = _info(driver, card.handle, gi_id, uuid)
    sm_count = sum(compute_sms.values())
    if any(each.computeInstanceSliceCount != slices for each in attributes.values()):
        sm_count = _profile_sm_count(driver, card.handle, info.profileId) or _known_sm_count(card, profile) or sm_count
    itself = MigInstance(
        uuid=uuid,
        gi_id=gi_id,
        profile=profile,
        start=info.placement.start,
        slices=info.placement.size,
        sm_count=sm_count,
        vram_bytes=vram_bytes,
    )
    return Instance(itself, handle, compute_sms)


def _profile(uuid: str, name: str, slices: int, vram_bytes: int, card_bytes: int) -> str:
    named = _PROFILE.search(name)
    if slices and vram_bytes:
        # What is beside slices and memory, such as a media extension, only the name tells.
        return profile_of(slices, vram_bytes, card_bytes) + (named["suffix"] if named else "")
    if named:
        return named["profile"]
    raise UnavailableError(
        f"cannot tell the profile of the MIG instance {uuid!r}: its driver tells neither its slices nor its name; "
        "install a newer one"
    )


def _info(driver: Driver, card: Any, gi_id: int, uuid: str) -> Any:
    try:
        return driver.ask("GpuInstanceGetInfo", driver.ask("DeviceGetGpuInstanceById", card, gi_id))
    except DriverError as error:
        if error.state is FieldState.NO_PERMISSION:
            raise UnavailableError(
                f"cannot see where the MIG instance {uuid!r} lies on its card: run the collector as root"
            ) from error
        raise


def _profile_sm_count(driver: Driver, card: Any, profile_id: int) -> int | None:
    """The SMs of a profile; what compute instances tell is their own part (16 and 32 of the 60 of a 3g.71gb)."""
    infos = (driver.answer("DeviceGetGpuInstanceProfileInfo", card, each, version=1) for each in range(_PROFILES_MAX))
    return next((int(info.multiprocessorCount) for info in infos if getattr(info, "id", None) == profile_id), None)


def _known_sm_count(card: Card, profile: str) -> int | None:
    geometry = geometry_of(card.model, card.vram_total_bytes)
    return next((each.sm_count for each in geometry.profiles if each.name == profile), None) if geometry else None
