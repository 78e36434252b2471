"""Real cards as a `Source`: the driver is opened once, and each card's failure is its own."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import structlog

from collector.call_times import CallTimes
from collector.nvml.card_values import CardValues, InstanceValues
from collector.nvml.cards import find_card
from collector.nvml.driver import CardLostError, Driver
from collector.nvml.processes import CardProcesses
from collector.owners.processes import Processes, sees_host_processes
from collector.owners.split import owned_reading
from collector.source import SourceGoneError
from domain.errors import UnavailableError
from domain.inventory import Device
from domain.samples import DeviceReading
from domain.series import GPU_MEMORY_USED, GPU_UP

log = structlog.get_logger()


class NvmlSource:
    """A `Source` of the machine's own cards. The driver is opened once; where it goes, the process has to end."""

    def __init__(self, calls: CallTimes, proc: Path = Path("/proc")) -> None:
        """`proc` is where the processes are seen. Raises UnavailableError where there is no driver."""
        self._driver = Driver(calls)
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
        driver_version = self._driver.ask("SystemGetDriverVersion")
        count = self._driver.ask("DeviceGetCount")
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
            processes = CardProcesses(self._driver, handle, is_mig=device.mig_enabled)
            claims = processes.claims() if self._sees_host_processes else {}
            said = CardValues(self._driver, handle, is_mig=device.mig_enabled).read()
            instances = [
                (each, InstanceValues(self._driver, self._handles[each.uuid]).read()) for each in device.instances
            ]
        except CardLostError:
            uuids = [None, *(instance.uuid for instance in device.instances)]
            return [DeviceReading(gpu_uuid, mig_uuid, {GPU_UP: 0}, {}) for mig_uuid in uuids]
        if all(value is None for value in said.values.values()):
            raise UnavailableError(f"cannot read the card {gpu_uuid!r}: it answers no question; see dmesg")
        owners = self._processes[gpu_uuid].owners({pid for pids in claims.values() for pid in pids})
        # Where MIG is on, owners are told per instance.
        own = None if device.mig_enabled else claims.get(None, {})
        readings = [owned_reading(gpu_uuid, None, said.values, own, owners)]
        for instance, memory in instances:
            # One that answers nothing has been destroyed since the last inventory.
            if memory.values[GPU_MEMORY_USED] is not None:
                its_claims = claims.get(instance.gi_id, {})
                readings.append(owned_reading(gpu_uuid, instance.uuid, memory.values, its_claims, owners))
        return readings

    def close(self) -> None:
        """Let go of the driver."""
        self._driver.close()

    def _failure_of(self, index: int, driver_version: str) -> UnavailableError | None:
        """Bring what is known of one card up to date; where that fails it stays as it is, and here is why."""
        try:
            found = find_card(self._driver, index, driver_version)
        except SourceGoneError:
            raise
        except (UnicodeDecodeError, UnavailableError) as error:  # the bindings decode what it says
            failure = error if isinstance(error, UnavailableError) else _unreadable(error)
            self._note_unseen(index, str(failure))
            return failure
        self._handles |= found.handles
        self._known[found.device.uuid] = found.device
        self._unseen.discard(index)
        return None

    def _note_unseen(self, index: int, reason: str) -> None:
        """Say once, with how many there are, that a card is as last seen, or left out where it never was."""
        if index not in self._unseen:
            self._unseen.add(index)
            known = {device.index for device in self._known.values()}
            event = "card_as_last_seen" if index in known else "card_left_out"
            log.error(event, index=index, reason=reason, unseen_cards=len(self._unseen))


def _unreadable(error: UnicodeDecodeError) -> UnavailableError:
    return UnavailableError(f"cannot read the inventory of the NVIDIA driver: {error}; see dmesg")
