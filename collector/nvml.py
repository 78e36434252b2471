"""Real cards, by NVML: the one file that speaks to the driver, and where its units and quirks end.

Milliwatts, millijoules, megahertz and percent become base units here. Memory is asked for by its second version,
whose `used` is without what the driver reserves (the first version's is not: 912 MB on an idle A100).
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pynvml
import structlog

from collector.owners import Processes, owned_reading, sees_host_processes
from collector.source import SourceGoneError
from domain.errors import UnavailableError
from domain.inventory import Device, MigInstance
from domain.samples import DeviceReading
from domain.series import (
    GPU_BUSY,
    GPU_ENERGY,
    GPU_MEMORY_CLOCK,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_SM_CLOCK,
    GPU_TEMPERATURE,
    GPU_UP,
    Series,
)
from domain.units import MIB

_MEGAHERTZ = 1_000_000
# The card itself is gone, as against a field that it cannot tell.
_LOST = frozenset({pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED})
# The library or the driver is gone, and with it every card.
_NO_DRIVER = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    }
)
# What is asked for does not exist, as against a driver that fails to say.
_NO_SUCH_THING = frozenset(
    {pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}
)
# "NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb" is a compute instance of a 3g.40gb.
_PROFILE = re.compile(r" MIG (?:\d+c\.)?(\S+)$")
# The full-card profile has seven slices, on A30 four.
_FULL_CARD_PROFILES = (pynvml.NVML_GPU_INSTANCE_PROFILE_7_SLICE, pynvml.NVML_GPU_INSTANCE_PROFILE_4_SLICE)
# By their third version, which has the instance. Where a driver lacks it, the names without a version raise what is
# no NVMLError.
_PROCESS_LISTS = (
    pynvml.nvmlDeviceGetComputeRunningProcesses_v3,
    pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3,
    pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3,
)

log = structlog.get_logger()


class NvmlSource:
    """A `Source` of the machine's own cards. The driver is opened once; where it goes, the process has to end."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        """`proc` is where the processes are seen. Raises UnavailableError where there is no driver."""
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise UnavailableError(
                f"cannot reach the NVIDIA driver: {error}; install it, or see simulated cards by `gputab demo`"
            ) from error
        self._handles: dict[str, Any] = {}
        self._known: dict[str, Device] = {}
        self._unseen: set[int] = set()
        self._processes: dict[str, Processes] = defaultdict(lambda: Processes(proc))
        self._sees_host_processes = sees_host_processes(proc)
        if not self._sees_host_processes:
            reason = "the PIDs that the driver names are not those seen here"
            log.warning("owners_unknown", reason=reason, remedy="run the collector in the host's PID namespace")

    def inventory(self) -> tuple[Device, ...]:
        """Every card, by index; one that is lost or sick is in it as it was last seen, or left out if it never was.

        Where no card ever was, one of those is an error.
        """
        try:
            driver_version = pynvml.nvmlSystemGetDriverVersion()
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            raise _unreadable(error) from error
        failures = [failure for index in range(count) if (failure := self._failure_of(index, driver_version))]
        if failures and not self._known:
            raise failures[0]
        return tuple(sorted(self._known.values(), key=lambda device: device.index))

    def read(self, gpu_uuid: str, second_s: int) -> list[DeviceReading]:  # noqa: ARG002 - real cards live in the present
        """What the card says now; memory is told apart by owner, compute is not yet."""
        device = self._known[gpu_uuid]
        handle = self._handles[gpu_uuid]
        try:
            # Before memory: what is allocated in between is nobody's then, not more than there is.
            claims = _claims(handle, is_mig=device.mig_enabled) if self._sees_host_processes else {}
            values = _card_values(handle, is_mig=device.mig_enabled)
            instances = [(each, _memory_values(self._handles[each.uuid])) for each in device.instances]
        except pynvml.NVMLError as error:
            if error.value not in _LOST:
                raise _unreadable(error) from error
            uuids = [None, *(instance.uuid for instance in device.instances)]
            return [DeviceReading(gpu_uuid, mig_uuid, {GPU_UP: 0}, {}) for mig_uuid in uuids]
        if all(value is None for value in values.values()):
            raise UnavailableError(f"cannot read the card {gpu_uuid!r}: it answers no question; see dmesg")
        owners = self._processes[gpu_uuid].owners({pid for pids in claims.values() for pid in pids})
        # Where MIG is on, owners are told per instance.
        readings = [owned_reading(gpu_uuid, None, values, None if device.mig_enabled else claims.get(None, {}), owners)]
        for instance, memory in instances:
            # One that answers nothing has been destroyed since the last inventory.
            if memory[GPU_MEMORY_USED] is not None:
                readings.append(owned_reading(gpu_uuid, instance.uuid, memory, claims.get(instance.gi_id, {}), owners))
        return readings

    def close(self) -> None:
        """Let go of the driver."""
        # One that is gone has let go of us.
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()

    def _failure_of(self, index: int, driver_version: str) -> UnavailableError | None:
        """Bring what is known of one card up to date; where that fails it stays as it is, and here is why."""
        try:
            self._look(index, driver_version)
        except (pynvml.NVMLError, UnicodeDecodeError, UnavailableError) as error:  # the bindings decode what it says
            failure = error if isinstance(error, UnavailableError) else _unreadable(error)
            if isinstance(failure, SourceGoneError):
                raise failure from error
            self._note_unseen(index, str(failure))
            return failure
        return None

    def _look(self, index: int, driver_version: str) -> None:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        uuid = pynvml.nvmlDeviceGetUUID(handle)
        memory = _fact(pynvml.nvmlDeviceGetMemoryInfo, handle, version=pynvml.nvmlMemory_v2)
        if memory is None:
            # Memory shared with the processor, or a driver before 510: there is no VRAM to meter.
            self._note_unseen(index, "the driver tells no memory; use one of 510 or newer")
            return
        mig_modes = _fact(pynvml.nvmlDeviceGetMigMode, handle)
        is_mig = mig_modes is not None and mig_modes[0] == pynvml.NVML_DEVICE_MIG_ENABLE
        device = Device(
            uuid=uuid,
            index=index,
            model=pynvml.nvmlDeviceGetName(handle),
            vram_total_bytes=memory.total,
            vram_reserved_bytes=memory.reserved,
            mig_enabled=is_mig,
            sm_count=_full_card_sm_count(handle) if is_mig else None,
            pci_bus_id=pynvml.nvmlDeviceGetPciInfo(handle).busId,
            driver_version=driver_version,
            instances=tuple(self._instances(handle)) if is_mig else (),
        )
        self._handles[uuid], self._known[uuid] = handle, device
        self._unseen.discard(index)

    def _note_unseen(self, index: int, reason: str) -> None:
        """Say once, with how many there are, that a card is as last seen, or left out where it never was."""
        if index not in self._unseen:
            self._unseen.add(index)
            known = {device.index for device in self._known.values()}
            event = "card_as_last_seen" if index in known else "card_left_out"
            log.error(event, index=index, reason=reason, unseen_cards=len(self._unseen))

    def _instances(self, card: Any) -> Iterator[MigInstance]:
        """The GPU instances of a card; several compute instances in one count once, by the first of them."""
        seen: set[int] = set()
        for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(card)):
            # Indexes have holes where instances were destroyed.
            handle = _fact(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, card, index)
            if handle is None:
                continue
            gi_id = pynvml.nvmlDeviceGetGpuInstanceId(handle)
            if gi_id in seen:
                continue
            seen.add(gi_id)
            uuid = pynvml.nvmlDeviceGetUUID(handle)
            self._handles[uuid] = handle
            yield _instance(card, handle, uuid, gi_id)


def _instance(card: Any, handle: Any, uuid: str, gi_id: int) -> MigInstance:
    attributes = pynvml.nvmlDeviceGetAttributes(handle)
    name = pynvml.nvmlDeviceGetName(handle)
    profile = _PROFILE.search(name)
    if profile is None:
        raise UnavailableError(
            f"cannot tell the profile of the MIG instance {uuid!r}: its driver names it {name!r}; install one that "
            "names profiles, such as 1g.10gb"
        )
    try:
        placement = pynvml.nvmlGpuInstanceGetInfo(pynvml.nvmlDeviceGetGpuInstanceById(card, gi_id)).placement
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_NO_PERMISSION:
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


def _full_card_sm_count(handle: Any) -> int | None:
    infos = (_fact(pynvml.nvmlDeviceGetGpuInstanceProfileInfo, handle, each, version=1) for each in _FULL_CARD_PROFILES)
    return next((int(info.multiprocessorCount) for info in infos if info is not None), None)


def _card_values(handle: Any, *, is_mig: bool) -> dict[Series, int | float | None]:
    rates = _field(pynvml.nvmlDeviceGetUtilizationRates, handle)
    milliwatts = _field(pynvml.nvmlDeviceGetPowerUsage, handle)
    millijoules = _field(pynvml.nvmlDeviceGetTotalEnergyConsumption, handle)
    sm_megahertz = _field(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM)
    memory_megahertz = _field(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_MEM)
    return {
        **_memory_values(handle),
        # Some drivers say 0 % of a card in MIG mode at 438 W: there the rate does not exist.
        GPU_BUSY: None if rates is None or is_mig else rates.gpu / 100,
        GPU_POWER: None if milliwatts is None else milliwatts / 1_000,
        GPU_ENERGY: None if millijoules is None else millijoules / 1_000,
        GPU_TEMPERATURE: _field(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
        GPU_SM_CLOCK: None if sm_megahertz is None else sm_megahertz * _MEGAHERTZ,
        GPU_MEMORY_CLOCK: None if memory_megahertz is None else memory_megahertz * _MEGAHERTZ,
    }


def _memory_values(handle: Any) -> dict[Series, int | float | None]:
    memory = _field(pynvml.nvmlDeviceGetMemoryInfo, handle, version=pynvml.nvmlMemory_v2)
    return {
        GPU_MEMORY_TOTAL: None if memory is None else memory.total,
        GPU_MEMORY_RESERVED: None if memory is None else memory.reserved,
        GPU_MEMORY_USED: None if memory is None else memory.used,
    }


def _claims(card: Any, *, is_mig: bool) -> dict[int | None, dict[int, int | None]]:
    """The bytes that each PID uses, None where the driver does not say, by GPU instance (None: MIG is off).

    A list that the driver lacks or refuses adds nothing. The card is asked, whose lists name each process's instance:
    a MIG device is but one compute instance of it.
    """
    claims: dict[int | None, dict[int, int | None]] = defaultdict(dict)
    for processes in _PROCESS_LISTS:
        for process in _field(processes, card) or ():
            pids = claims[process.gpuInstanceId if is_mig else None]
            # One that computes and draws is on two lists, each time with all it uses.
            told = [each for each in (pids.get(process.pid), process.usedGpuMemory) if each is not None]
            pids[process.pid] = max(told, default=None)
    return claims


def _field(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The driver's answer; None where the card cannot tell. A field's failure is that field's alone."""
    try:
        return function(*arguments, **options)
    except pynvml.NVMLError as error:
        if error.value in _LOST | _NO_DRIVER:
            raise
        return None


def _fact(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The driver's answer; None only where there is no such thing, since no card changes by failing to answer."""
    try:
        return function(*arguments, **options)
    except pynvml.NVMLError as error:
        if error.value not in _NO_SUCH_THING:
            raise
        return None


def _unreadable(error: Exception) -> UnavailableError:
    """What to raise where the driver answers with this."""
    value = getattr(error, "value", None)
    if value in _NO_DRIVER:
        return SourceGoneError(
            f"cannot reach the NVIDIA driver any more: {error}; when it is loaded, start the collector again"
        )
    remedy = "reset the card or reboot the node" if value in _LOST else "see dmesg"
    return UnavailableError(f"cannot read the inventory of the NVIDIA driver: {error}; {remedy}")
