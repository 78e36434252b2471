"""NVLink, topology, peer access and virtual cards."""

from typing import Any

import pynvml

from domain.units import GIB
from tests.fakes.nvml.driver import Can, FakeDriver
from tests.fakes_nvml.answers import code_of

NOW_US = 1_700_000_000_000_000
ALL_LINKS = 0xFFFFFFFF


def test_links_lead_to_cards_and_switches(driver: FakeDriver, handle: Any) -> None:
    uuid, other = pynvml.nvmlDeviceGetUUID(handle), driver.card(1, "NVIDIA H100 80GB HBM3")
    driver.link(uuid, 0, other, errors=(1, 2, 3, 4, 5))
    driver.link(uuid, 1)
    driver.link(uuid, 2, active=0)

    assert [pynvml.nvmlDeviceGetNvLinkState(handle, link) for link in range(3)] == [1, 1, 0]
    assert pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, 0).busId == "00000000:66:00.0"
    assert pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, 0).bus == 0x66
    kinds = [pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link) for link in (0, 1)]
    assert kinds == [pynvml.NVML_NVLINK_DEVICE_TYPE_GPU, pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH]
    assert pynvml.nvmlDeviceGetNvLinkVersion(handle, 0) == pynvml.NVML_NVLINK_VERSION_4_0
    counters = [pynvml.nvmlDeviceGetNvLinkErrorCounter(handle, 0, kind) for kind in range(5)]
    assert counters == [1, 2, 3, 4, 5]
    assert code_of(pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, 2) == pynvml.NVML_ERROR_NOT_SUPPORTED
    assert code_of(pynvml.nvmlDeviceGetNvLinkState, handle, 3) == pynvml.NVML_ERROR_NOT_SUPPORTED
    assert code_of(pynvml.nvmlDeviceGetNvLinkState, handle, 18) == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_bytes_of_links_are_fields_of_one_link_or_of_all(driver: FakeDriver, handle: Any) -> None:
    """138 to 141 count KiB, 202 and 204 bytes, of newer drivers only."""
    uuid = pynvml.nvmlDeviceGetUUID(handle)
    for link in range(2):
        driver.link(uuid, link, data_tx_bytes=(link + 1) * GIB, data_rx_bytes=5 * GIB, raw_tx_bytes=6 * GIB)
    asked = [(138, 0), (138, 1), (138, ALL_LINKS), (139, 0), (140, 1), (202, 1), (204, ALL_LINKS), (138, 2), (91, 0)]

    told = pynvml.nvmlDeviceGetFieldValues(handle, asked)
    mib = GIB // 1_024
    values = [(entry.nvmlReturn, entry.value.ullVal) for entry in told]
    assert values[:7] == [(0, mib), (0, 2 * mib), (0, 3 * mib), (0, 5 * mib), (0, 6 * mib), (0, 2 * GIB), (0, 10 * GIB)]
    assert values[7][0] == pynvml.NVML_ERROR_NOT_SUPPORTED
    assert values[8] == (0, 18)
    driver.deny(uuid, Can.NVLINK_BYTES)
    assert pynvml.nvmlDeviceGetFieldValues(handle, [(202, 0)])[0].nvmlReturn == pynvml.NVML_ERROR_NOT_SUPPORTED


def test_how_two_cards_are_joined_is_the_same_from_both(driver: FakeDriver, handle: Any) -> None:
    uuid, near, far = pynvml.nvmlDeviceGetUUID(handle), driver.card(1), driver.card(2)
    driver.relation(uuid, near, pynvml.NVML_TOPOLOGY_SINGLE)
    driver.relation(uuid, far, pynvml.NVML_TOPOLOGY_SYSTEM, pynvml.NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED)
    first, second, third = (pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(3))

    level = pynvml.nvmlDeviceGetTopologyCommonAncestor
    assert [level(first, each) for each in (first, second, third)] == [0, 10, 50]
    assert [level(each, first) for each in (second, third)] == [10, 50]
    status = pynvml.nvmlDeviceGetP2PStatus
    read = pynvml.NVML_P2P_CAPS_INDEX_WRITE
    assert [status(first, second, read), status(third, first, read)] == [0, 1]
    driver.lose(far)
    assert code_of(level, first, third) == pynvml.NVML_ERROR_GPU_IS_LOST


def test_virtual_cards_and_what_runs_on_them(driver: FakeDriver, handle: Any) -> None:
    uuid = pynvml.nvmlDeviceGetUUID(handle)
    assert pynvml.nvmlDeviceGetActiveVgpus(handle) == []
    driver.vgpus(
        uuid,
        [
            {
                "id": 3251634213,
                "vm_id": "vm-1",
                "uuid": "uuid-1",
                "at_us": NOW_US,
                "sm": 40,
                "used_bytes": 7,
                "type_id": 9,
            },
            {"id": 3251634214, "vm_id": "vm-2", "uuid": "uuid-2", "at_us": NOW_US + 1, "sm": 50, "jpeg": 3},
        ],
    )
    driver.vgpu_processes(uuid, [{"vgpu_id": 3251634213, "pid": 7, "name": "python", "at_us": NOW_US, "sm": 39}])

    first, second = pynvml.nvmlDeviceGetActiveVgpus(handle)
    assert [pynvml.nvmlVgpuInstanceGetVmID(each)[0] for each in (first, second)] == [b"vm-1", b"vm-2"]
    assert pynvml.nvmlVgpuInstanceGetUUID(second) == "uuid-2"
    assert pynvml.nvmlVgpuInstanceGetType(first) == 9
    assert code_of(pynvml.nvmlVgpuInstanceGetUUID, 5) == pynvml.NVML_ERROR_NOT_FOUND
    used = pynvml.nvmlDeviceGetVgpuUtilization(handle, 0)
    assert [(each.vgpuInstance, each.timeStamp, each.smUtil.uiVal) for each in used] == [
        (first, NOW_US, 40),
        (second, NOW_US + 1, 50),
    ]
    newer = pynvml.nvmlDeviceGetVgpuInstancesUtilizationInfo(handle, NOW_US)
    assert [(each.vgpuInstance, each.jpgUtil.uiVal) for each in newer] == [(second, 3)]
    (process,) = pynvml.nvmlDeviceGetVgpuProcessUtilization(handle, 0)
    assert (process.pid, process.processName, process.smUtil) == (7, "python", 39)
    assert pynvml.nvmlDeviceGetVgpuProcessUtilization(handle, NOW_US) == []
