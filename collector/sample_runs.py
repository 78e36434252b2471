"""One second of readings as the sample runs of that second."""

from collections.abc import Iterable, Iterator, Mapping

from domain.inventory import Device
from domain.samples import DeviceReading, SampleRun
from domain.series import GPU_INFO, MIG_INFO, OWNER_COMPUTE, OWNER_MEMORY, Series


def part_runs(reading: DeviceReading, labels: Mapping[str, str], second_s: int) -> Iterator[SampleRun]:
    """What a device has several values of in one second, its owners' among them; `labels` are the device's."""
    for series, parts in reading.parts.items():
        for part, value in parts.items():
            yield one_sample(series, {**labels, str(series.part): part}, second_s, value)
    for owner, use in reading.owners.items():
        if use.memory_bytes is not None:
            yield one_sample(OWNER_MEMORY, {**labels, "owner": owner}, second_s, use.memory_bytes)
        if use.compute_ratio is not None:
            yield one_sample(OWNER_COMPUTE, {**labels, "owner": owner}, second_s, use.compute_ratio)


def device_labels(node: str, reading: DeviceReading) -> dict[str, str]:
    """What tells a device from all others."""
    return {"node": node, "gpu_uuid": reading.gpu_uuid, "mig_uuid": reading.mig_uuid or ""}


def info_runs(node: str, second_s: int, devices: Iterable[Device]) -> Iterator[SampleRun]:
    """What is known of each card and MIG instance beside its numbers, with the value 1."""
    for device in devices:
        labels = {
            "node": node,
            "gpu_uuid": device.uuid,
            "index": str(device.index),
            "minor": _or_nothing(device.minor),
            "model": device.model,
            "architecture": device.architecture,
            "driver_version": device.driver_version,
            "vbios_version": device.vbios_version,
            "pci_bus_id": device.pci_bus_id,
            "numa_node": _or_nothing(device.numa_node),
        }
        yield one_sample(GPU_INFO, labels, second_s, 1)
        for instance in device.instances:
            labels = {
                "node": node,
                "gpu_uuid": device.uuid,
                "mig_uuid": instance.uuid,
                "gi_id": str(instance.gi_id),
                "generation": str(instance.generation),
                "profile": instance.profile,
            }
            yield one_sample(MIG_INFO, labels, second_s, 1)


def one_sample(series: Series, labels: Mapping[str, str], second_s: int, value: int | float) -> SampleRun:
    """A run of one second."""
    return SampleRun(series, labels, (second_s,), (value,))


def _or_nothing(number: int | None) -> str:
    return "" if number is None else str(number)
