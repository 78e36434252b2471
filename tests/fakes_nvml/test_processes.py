"""Who holds memory and who computes, with the ways in which drivers tell it."""

from typing import Any

import pynvml
import pytest

from domain.units import GIB, MIB
from tests.fakes.nvml.driver import FakeDriver
from tests.fakes_nvml.answers import code_of

NOW_US = 1_700_000_000_000_000
NOBODY = 0xFFFFFFFF


def test_each_list_has_its_processes(driver: FakeDriver, handle: Any) -> None:
    uuid = pynvml.nvmlDeviceGetUUID(handle)
    for pid, kind in ((101, "compute"), (102, "graphics"), (103, "mps"), (104, "mps")):
        driver.process(uuid, pid, pid * MIB, kind)

    def told(version: str) -> list[list[tuple[int, int, int]]]:
        kinds = ("Compute", "Graphics", "MPSCompute")
        ask = [getattr(pynvml, f"nvmlDeviceGet{kind}RunningProcesses_{version}") for kind in kinds]
        return [[(each.pid, each.usedGpuMemory, each.gpuInstanceId) for each in call(handle)] for call in ask]

    expected = [
        [(101, 101 * MIB, NOBODY)],
        [(102, 102 * MIB, NOBODY)],
        [(103, 103 * MIB, NOBODY), (104, 104 * MIB, NOBODY)],
    ]
    assert told("v3") == told("v2") == expected
    details = pynvml.nvmlDeviceGetRunningProcessDetailList(handle, pynvml.nvmlProcessDetailList_v1, 2)
    assert [(each.pid, each.usedGpuMemory) for each in details] == [(103, 103 * MIB), (104, 104 * MIB)]

    driver.end_process(uuid, 103)
    assert told("v3")[2] == [(104, 104 * MIB, NOBODY)]
    driver.process(uuid, 105, MIB)
    driver.end_processes(uuid)
    assert told("v3") == [[], [], []]


def test_hundreds_of_processes_on_a_card(driver: FakeDriver, handle: Any) -> None:
    uuid = pynvml.nvmlDeviceGetUUID(handle)
    for pid in range(1, 401):
        driver.process(uuid, pid, MIB)
    assert [each.pid for each in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)] == list(range(1, 401))


def test_memory_that_is_not_told(driver: FakeDriver, handle: Any) -> None:
    """A5."""
    driver.process(pynvml.nvmlDeviceGetUUID(handle), 7, 2**64 - 1)
    assert pynvml.nvmlDeviceGetComputeRunningProcesses(handle)[0].usedGpuMemory is None


def test_entries_of_32_bytes_are_read_askew_by_who_expects_24(driver: FakeDriver, handle: Any) -> None:
    """A4: some drivers of 535 had one number more in an entry, under the same name."""
    uuid = pynvml.nvmlDeviceGetUUID(handle)
    driver.quirks(process_entry_bytes=32)
    driver.process(uuid, 4_242, GIB, protected_bytes=0)
    driver.process(uuid, 4_243, 2 * GIB)
    driver.process(uuid, 4_244, 3 * GIB)

    first, second, third = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    assert (first.pid, first.usedGpuMemory) == (4_242, GIB)
    assert (second.pid, second.usedGpuMemory) == (0, 4_243)
    assert (third.pid, third.usedGpuMemory) == (NOBODY, 0)

    count, buffer = pynvml.c_uint(3), (pynvml.c_nvmlProcessDetail_v1_t * 4)()
    driver.library.nvmlDeviceGetComputeRunningProcesses_v3(handle, pynvml.byref(count), buffer)
    assert [(each.pid, each.usedGpuMemory) for each in buffer[:2]] == [(4_242, GIB), (4_243, 2 * GIB)]
    assert buffer[2].pid == 0, "what has no room is left out rather than written past the end"


def test_what_each_process_did(driver: FakeDriver, handle: Any) -> None:
    driver.uses(
        pynvml.nvmlDeviceGetUUID(handle),
        [
            {"pid": 7, "at_us": NOW_US, "sm": 40, "memory": 10, "encoder": 1, "decoder": 2, "jpeg": 3, "ofa": 4},
            {"pid": 8, "at_us": NOW_US + 5, "sm": 50},
        ],
    )

    first, second = pynvml.nvmlDeviceGetProcessUtilization(handle, 0)
    assert (first.pid, first.timeStamp, first.smUtil, first.memUtil) == (7, NOW_US, 40, 10)
    assert (first.encUtil, first.decUtil) == (1, 2)
    assert (second.pid, second.smUtil) == (8, 50)
    info = pynvml.nvmlDeviceGetProcessesUtilizationInfo(handle, 0)[0]
    assert (info.pid, info.timeStamp, info.smUtil, info.jpgUtil, info.ofaUtil) == (7, NOW_US, 40, 3, 4)
    assert [each.pid for each in pynvml.nvmlDeviceGetProcessUtilization(handle, NOW_US)] == [8]


@pytest.mark.parametrize(
    ("quirks", "code"),
    [
        ({}, pynvml.NVML_ERROR_NOT_FOUND),
        ({"process_utilization_idle_code": 0}, pynvml.NVML_SUCCESS),
        ({"process_utilization_room": 100}, pynvml.NVML_ERROR_NOT_FOUND),
    ],
)
def test_a_card_where_no_process_did_anything(
    driver: FakeDriver, handle: Any, quirks: dict[str, int], code: int
) -> None:
    """The bindings make an error of value 0 out of SUCCESS without entries."""
    driver.quirks(**quirks)
    with pytest.raises(pynvml.NVMLError) as raised:
        pynvml.nvmlDeviceGetProcessUtilization(handle, 0)
    assert raised.value.value == code


def test_a_sizing_call_that_always_says_100(driver: FakeDriver, handle: Any) -> None:
    driver.uses(pynvml.nvmlDeviceGetUUID(handle), [{"pid": 7, "at_us": NOW_US, "sm": 40}])
    driver.quirks(process_utilization_room=100)
    count = pynvml.c_uint(0)
    sizing = driver.library.nvmlDeviceGetProcessUtilization(handle, None, pynvml.byref(count), pynvml.c_ulonglong(0))
    assert (sizing, count.value) == (pynvml.NVML_ERROR_INSUFFICIENT_SIZE, 100)
    assert [each.pid for each in pynvml.nvmlDeviceGetProcessUtilization(handle, 0)] == [7]


def test_stale_entries_are_told_again_by_some_drivers(driver: FakeDriver, handle: Any) -> None:
    """A2."""
    driver.uses(pynvml.nvmlDeviceGetUUID(handle), [{"pid": 7, "at_us": NOW_US - 9_000_000, "sm": 100}])
    assert code_of(pynvml.nvmlDeviceGetProcessUtilization, handle, NOW_US) == pynvml.NVML_ERROR_NOT_FOUND
    driver.quirks(process_utilization_stale=1)
    assert [each.smUtil for each in pynvml.nvmlDeviceGetProcessUtilization(handle, NOW_US)] == [100]


def test_accounting_keeps_what_ended(driver: FakeDriver, handle: Any) -> None:
    uuid = pynvml.nvmlDeviceGetUUID(handle)
    assert pynvml.nvmlDeviceGetAccountingMode(handle) == 0
    assert code_of(pynvml.nvmlDeviceGetAccountingStats, handle, 7) == pynvml.NVML_ERROR_NOT_FOUND
    driver.accounts(
        uuid, [{"pid": 7, "gpu_percent": 93, "memory_percent": 20, "memory_bytes_max": GIB, "time_ms": 61_000}]
    )

    assert pynvml.nvmlDeviceGetAccountingMode(handle) == 1
    assert pynvml.nvmlDeviceGetAccountingPids(handle) == [7]
    stats = pynvml.nvmlDeviceGetAccountingStats(handle, 7)
    assert (stats.gpuUtilization, stats.memoryUtilization, stats.maxMemoryUsage, stats.time) == (93, 20, GIB, 61_000)
    second = pynvml.nvmlDeviceGetAccountingStats_v2(handle, 7)
    assert (second.pid, second.gpuUtilization, second.time, second.isRunning) == (7, 93, 61_000, 0)
