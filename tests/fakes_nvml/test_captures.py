"""A machine as nvidia-smi saw it, told again by the fake: an H100 in MIG mode under load, driver 590.48.01."""

import re
from pathlib import Path

import pynvml
import pytest

from domain.units import MIB
from tests.fakes.nvml.driver import FakeDriver

SAMPLES = Path(__file__).parents[3] / "shared" / "data" / "samples"
TABLE = SAMPLES / "nvidia-smi-q" / "linux-x86_64__nvidia-h100-mig__590.48.01.load.table.txt"
LIST = SAMPLES / "mig" / "linux-x86_64__nvidia-h100-mig__590.48.01.list-L.txt"

pytestmark = pytest.mark.skipif(not TABLE.is_file(), reason="the captures are not beside the checkout")

CARD = re.compile(r"(\d+)C +P\d +(\d+)W / +(\d+)W \| +(\d+)MiB / +(\d+)MiB")
DEVICE = re.compile(r"^\| +0 +(\d+) +(\d+) +(\d+) +\| +(\d+)MiB / +(\d+)MiB +\| +(\d+) ", re.MULTILINE)
PROCESS = re.compile(r"^\| +0 +(\d+) +(\d+) +(\d+) +C +\S+ +(\d+)MiB", re.MULTILINE)
PROFILE = re.compile(r"MIG (\S+) +Device +(\d+)")


def test_an_h100_in_mig_mode_is_told_as_it_was_seen(driver: FakeDriver) -> None:
    table = TABLE.read_text()
    (celsius, watts, limit, used, total) = map(int, CARD.findall(table)[0])
    devices = [tuple(map(int, found)) for found in DEVICE.findall(table)]
    processes = [tuple(map(int, found)) for found in PROCESS.findall(table)]
    profiles = {int(index): profile for profile, index in PROFILE.findall(LIST.read_text())}
    assert len(devices) == len(profiles) == 4
    assert len(processes) == 3
    card = driver.card(
        0,
        "NVIDIA H100 80GB HBM3",
        mig_mode=1,
        celsius=celsius,
        milliwatts=watts * 1_000,
        limit_milliwatts=limit * 1_000,
        used=used * MIB,
        total=total * MIB,
    )
    for gi_id, ci_id, index, device_used, _, _ in devices:
        driver.instance(0, index, profiles[index], gi_id=gi_id, ci_id=ci_id, used=device_used * MIB)
    uuids = {driver.world.cards[0].instances[row].gi_id: uuid for uuid, (_, row) in driver._rows.items()}
    for gi_id, _, pid, process_used in processes:
        driver.process(uuids[gi_id], pid, process_used * MIB)

    handle = pynvml.nvmlDeviceGetHandleByUUID(card)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    assert (memory.total, memory.used) == (total * MIB, used * MIB)
    assert pynvml.nvmlDeviceGetPowerUsage(handle) == watts * 1_000
    told = []
    for index in range(4):
        device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        attributes = pynvml.nvmlDeviceGetAttributes(device)
        own = pynvml.nvmlDeviceGetMemoryInfo(device, version=pynvml.nvmlMemory_v2)
        ids = (pynvml.nvmlDeviceGetGpuInstanceId(device), pynvml.nvmlDeviceGetComputeInstanceId(device), index)
        told.append((*ids, own.used // MIB, attributes.memorySizeMB, attributes.multiprocessorCount))
    assert told == devices, "sizes and SMs come from the geometry of the model, not from the table"
    listed = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    assert [
        (each.gpuInstanceId, each.computeInstanceId, each.pid, each.usedGpuMemory // MIB) for each in listed
    ] == processes
