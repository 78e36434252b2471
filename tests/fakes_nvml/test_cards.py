"""Which cards there are, and who they are."""

from typing import Any

import pynvml
import pytest

from tests.fakes.nvml.driver import Can, FakeDriver
from tests.fakes.nvml.models import A100, H100, H200, L40S, MODELS, RTX_4090, T4, Model
from tests.fakes_nvml.answers import code_of


def test_who_a_card_is(driver: FakeDriver) -> None:
    uuid = driver.card(3, "NVIDIA H100 80GB HBM3", minor=6, serial="1654321000001", numa_node=1)
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)

    assert pynvml.nvmlSystemGetDriverVersion() == "590.48.01"
    assert pynvml.nvmlSystemGetNVMLVersion() == "13.590.48.01"
    assert pynvml.nvmlSystemGetCudaDriverVersion() == 13_010
    assert pynvml.nvmlDeviceGetUUID(handle) == uuid
    assert pynvml.nvmlDeviceGetName(handle) == "NVIDIA H100 80GB HBM3"
    assert pynvml.nvmlDeviceGetIndex(handle) == 0
    assert pynvml.nvmlDeviceGetMinorNumber(handle) == 6
    assert pynvml.nvmlDeviceGetSerial(handle) == "1654321000001"
    assert pynvml.nvmlDeviceGetVbiosVersion(handle) == "96.00.74.00.01"
    assert pynvml.nvmlDeviceGetArchitecture(handle) == pynvml.NVML_DEVICE_ARCH_HOPPER
    assert pynvml.nvmlDeviceGetCudaComputeCapability(handle) == (9, 0)
    assert pynvml.nvmlDeviceGetPersistenceMode(handle) == 1
    assert pynvml.nvmlDeviceGetVirtualizationMode(handle) == pynvml.NVML_GPU_VIRTUALIZATION_MODE_NONE
    assert pynvml.nvmlDeviceGetNumaNodeId(handle) == 1
    pci = pynvml.nvmlDeviceGetPciInfo(handle)
    assert (pci.busId, pci.busIdLegacy, pci.bus) == ("00000000:68:00.0", "0000:68:00.0", 0x68)


def test_a_card_is_found_by_what_it_is_called(driver: FakeDriver) -> None:
    uuids = [driver.card(index) for index in range(3)]
    for find, name in (
        (pynvml.nvmlDeviceGetHandleByUUID, uuids[1]),
        (pynvml.nvmlDeviceGetHandleByPciBusId, "00000000:66:00.0"),
        (pynvml.nvmlDeviceGetHandleByPciBusId, "0000:66:00.0"),
        (pynvml.nvmlDeviceGetHandleBySerial, "1650000000001"),
    ):
        assert pynvml.nvmlDeviceGetUUID(find(name)) == uuids[1]
    assert code_of(pynvml.nvmlDeviceGetHandleByUUID, "GPU-none") == pynvml.NVML_ERROR_NOT_FOUND
    assert code_of(pynvml.nvmlDeviceGetHandleByPciBusId, "0000:01:00.0") == pynvml.NVML_ERROR_NOT_FOUND
    assert code_of(pynvml.nvmlDeviceGetHandleByPciBusId, "nowhere") == pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert code_of(pynvml.nvmlDeviceGetHandleByIndex, 3) == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_a_node_has_up_to_64_cards(driver: FakeDriver) -> None:
    uuids = [driver.card(index) for index in range(64)]
    assert pynvml.nvmlDeviceGetCount() == 64
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(64)]
    assert [pynvml.nvmlDeviceGetUUID(handle) for handle in handles] == uuids
    assert len({pynvml.nvmlDeviceGetPciInfo(handle).busId for handle in handles}) == 64


def test_a_card_that_is_taken_out_shifts_the_indexes_behind_it(driver: FakeDriver) -> None:
    """L9: a hot unplug, and the card back again."""
    uuids = [driver.card(index) for index in range(3)]
    gone = pynvml.nvmlDeviceGetHandleByIndex(1)
    last = pynvml.nvmlDeviceGetHandleByIndex(2)

    driver.remove(uuids[1])
    assert pynvml.nvmlDeviceGetCount() == 2
    assert pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(1)) == uuids[2]
    assert pynvml.nvmlDeviceGetIndex(last) == 1
    assert code_of(pynvml.nvmlDeviceGetUUID, gone) == pynvml.NVML_ERROR_INVALID_ARGUMENT

    driver.plug(uuids[1])
    assert pynvml.nvmlDeviceGetIndex(last) == 2
    assert pynvml.nvmlDeviceGetUUID(gone) == uuids[1]


def test_another_card_in_the_same_slot_has_nothing_of_the_first(driver: FakeDriver) -> None:
    driver.card(0, "NVIDIA H100 80GB HBM3", mig_mode=1, used=1)
    driver.instance(0, 0, "1g.10gb", gi_id=7)
    driver.card(0, "NVIDIA H100 80GB HBM3", uuid="GPU-other")
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)

    assert pynvml.nvmlDeviceGetUUID(handle) == "GPU-other"
    assert pynvml.nvmlDeviceGetMigMode(handle) == [0, 0]
    assert code_of(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, 0) == pynvml.NVML_ERROR_NOT_FOUND


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.name)
def test_a_model_tells_what_cards_of_it_tell(driver: FakeDriver, model: Model) -> None:
    driver.card(0, model=model)
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)

    assert (memory.total, memory.reserved) == (model.total_bytes, model.reserved_bytes)
    assert bool(pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice) == (model in {H100, H200})
    has_mig = code_of(pynvml.nvmlDeviceGetMigMode, handle) == pynvml.NVML_SUCCESS
    assert has_mig == (model in {A100, H100, H200})
    has_rows = code_of(pynvml.nvmlDeviceGetRemappedRows, handle) == pynvml.NVML_SUCCESS
    assert has_rows == (model not in {RTX_4090, T4})
    has_ecc = code_of(pynvml.nvmlDeviceGetEccMode, handle) == pynvml.NVML_SUCCESS
    assert has_ecc == (model is not RTX_4090)
    has_memory_sensor = pynvml.nvmlDeviceGetFieldValues(handle, [82])[0].nvmlReturn == pynvml.NVML_SUCCESS
    assert has_memory_sensor == (model not in {RTX_4090, L40S, T4})


# What is asked, and what a card must be able to do for it.
QUESTIONS: list[tuple[Can, str, tuple[Any, ...]]] = [
    (Can.UTILIZATION, "nvmlDeviceGetUtilizationRates", ()),
    (Can.UTILIZATION, "nvmlDeviceGetEncoderUtilization", ()),
    (Can.PROCESS_UTILIZATION, "nvmlDeviceGetProcessUtilization", (0,)),
    (Can.PROCESS_UTILIZATION, "nvmlDeviceGetProcessesUtilizationInfo", (0,)),
    (Can.SAMPLES, "nvmlDeviceGetSamples", (1, 0)),
    (Can.POWER, "nvmlDeviceGetPowerUsage", ()),
    (Can.POWER, "nvmlDeviceGetEnforcedPowerLimit", ()),
    (Can.ENERGY, "nvmlDeviceGetTotalEnergyConsumption", ()),
    (Can.MEMORY, "nvmlDeviceGetMemoryInfo", ()),
    (Can.CLOCK_EVENTS, "nvmlDeviceGetCurrentClocksEventReasons", ()),
    (Can.PCIE_THROUGHPUT, "nvmlDeviceGetPcieThroughput", (0,)),
    (Can.ECC, "nvmlDeviceGetTotalEccErrors", (0, 0)),
    (Can.ECC, "nvmlDeviceGetMemoryErrorCounter", (0, 0, 2)),
    (Can.ROW_REMAP, "nvmlDeviceGetRemappedRows", ()),
    (Can.RETIRED_PAGES, "nvmlDeviceGetRetiredPages", (0,)),
    (Can.RETIRED_PAGES, "nvmlDeviceGetRetiredPagesPendingStatus", ()),
    (Can.NVLINK, "nvmlDeviceGetNvLinkState", (0,)),
    (Can.GPM_STREAMING, "nvmlGpmQueryIfStreamingEnabled", ()),
    (Can.MIG, "nvmlDeviceGetMigMode", ()),
    (Can.ACCOUNTING, "nvmlDeviceGetAccountingMode", ()),
    (Can.NUMA, "nvmlDeviceGetNumaNodeId", ()),
    (Can.VGPU, "nvmlDeviceGetActiveVgpus", ()),
    (Can.JPEG_OFA, "nvmlDeviceGetJpgUtilization", ()),
    (Can.JPEG_OFA, "nvmlDeviceGetOfaUtilization", ()),
    (Can.EVENTS, "nvmlDeviceGetSupportedEventTypes", ()),
    (Can.SERIAL, "nvmlDeviceGetSerial", ()),
]


@pytest.mark.parametrize(("ability", "call", "arguments"), QUESTIONS, ids=[question[1] for question in QUESTIONS])
def test_what_a_card_cannot_tell_it_refuses(
    driver: FakeDriver, handle: Any, ability: Can, call: str, arguments: tuple[Any, ...]
) -> None:
    uuid = pynvml.nvmlDeviceGetUUID(handle)
    driver.link(uuid, 0)
    driver.samples(uuid, 1, [(1, 1)])
    driver.uses(uuid, [{"pid": 7, "at_us": 1, "sm": 1}])
    ask = getattr(pynvml, call)

    assert code_of(ask, handle, *arguments) == pynvml.NVML_SUCCESS
    driver.deny(uuid, ability)
    assert code_of(ask, handle, *arguments) == pynvml.NVML_ERROR_NOT_SUPPORTED
    driver.allow(uuid, ability)
    assert code_of(ask, handle, *arguments) == pynvml.NVML_SUCCESS
