"""A card of the fake driver with its owners, read as the collector reads it."""

from collections.abc import Callable
from typing import Any

from collector.call_times import CallTimes
from collector.nvml.card_owners import CardOwners
from collector.nvml.driver import MEMORY_VERSION_2, Driver
from collector.owners.processes import ProcessTable
from collector.ranges import refuse_garbage
from domain.clock import SystemClock
from domain.inventory import Device, MigInstance
from domain.samples import DeviceReading
from domain.series import GPU_BUSY, GPU_GR_ACTIVE, GPU_MEMORY_USED, GPU_UP, Series
from domain.units import GIB
from tests.fakes.nvml.driver import FakeDriver
from tests.fakes.nvml.processes import ProcTree


class OwnedCard:
    """One card and the second that is read of it, again and again."""

    def __init__(self, fake: FakeDriver, uuid: str, table: ProcessTable, instances: tuple[str, ...] = ()) -> None:
        self.fake = fake
        self.uuid = uuid
        self.calls = CallTimes(SystemClock())
        self.driver = Driver(self.calls)
        self._handle = self.driver.ask("DeviceGetHandleByUUID", uuid)
        places = [fake.at(each) for each in instances]
        self.device = Device(
            uuid,
            0,
            "a card",
            fake.at(uuid).total,
            0,
            mig_enabled=bool(fake.card_of(uuid).mig_mode),
            instances=tuple(
                MigInstance(each, place.gi_id, "3g.40gb", 0, 4, place.sms, place.total)
                for each, place in zip(instances, places, strict=True)
            ),
        )
        self.owners = CardOwners(self.driver, self._handle, SystemClock(), table, is_mig=self.device.mig_enabled)
        # By instance, which has no GPM here.
        self.gr_active: dict[str, float] = {}

    def close(self) -> None:
        self.driver.close()

    def readings(self) -> list[DeviceReading]:
        """The card's and each instance's, with owners, as the driver says them."""
        self.owners.list_processes()
        values: dict[Series, Any] = {GPU_UP: 1, GPU_MEMORY_USED: self._used(self._handle)}
        if not self.device.mig_enabled:
            values[GPU_BUSY] = self.driver.ask("DeviceGetUtilizationRates", self._handle).gpu / 100
        readings = [DeviceReading(self.uuid, None, values, {})]
        for instance in self.device.instances:
            handle = self.driver.ask("DeviceGetHandleByUUID", instance.uuid)
            values = {GPU_UP: 1, GPU_MEMORY_USED: self._used(handle), GPU_GR_ACTIVE: self.gr_active.get(instance.uuid)}
            readings.append(DeviceReading(self.uuid, instance.uuid, values, {}))
        return self.owners.split(self.device, readings)

    def read(self) -> DeviceReading:
        """The card's own reading as it leaves the node: nothing of it may be garbage."""
        checked = refuse_garbage(self.readings()[0])
        assert checked.refused == ()
        return checked.reading

    def _used(self, handle: Any) -> int:
        used: int = self.driver.ask("DeviceGetMemoryInfo", handle, version=MEMORY_VERSION_2).used
        return used


def memory_of(reading: DeviceReading) -> dict[str, int]:
    """Bytes by owner as far as they are told, which sum to the device."""
    memory = {owner: use.memory_bytes for owner, use in reading.owners.items() if use.memory_bytes is not None}
    assert sum(memory.values()) == reading.values[GPU_MEMORY_USED]
    return memory


def compute_of(reading: DeviceReading, series: Series = GPU_BUSY) -> dict[str, float]:
    """Ratios by owner, rounded, which sum to the device."""
    ratios = {owner: use.compute_ratio for owner, use in reading.owners.items()}
    told = {owner: ratio for owner, ratio in ratios.items() if ratio is not None}
    assert len(told) == len(ratios)
    total = reading.values[series]
    assert total is not None
    assert abs(sum(told.values()) - total) < 1e-9
    return {owner: round(ratio, 6) for owner, ratio in told.items()}


Own = Callable[..., OwnedCard]
"""Opens a card, and instances of it, with the owners that a `/proc` and records prove."""


def run_process(driver: FakeDriver, proc: ProcTree, uuid: str, pid: int, cgroup: str, used_bytes: int = GIB) -> None:
    proc.process(pid, cgroup)
    driver.process(uuid, pid, used_bytes)


def told_uses(driver: FakeDriver, uuid: str, percents: dict[int, int], age_us: int = 100_000) -> None:
    at_us = driver.now_us() - age_us
    driver.uses(uuid, [{"pid": pid, "at_us": at_us, "sm": percent} for pid, percent in percents.items()])
