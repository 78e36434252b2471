"""MIG: what is made, unmade and made again, and the handles of it."""

import ctypes
from typing import Any

import pynvml
import pytest

from domain.units import MIB
from tests.fakes.nvml.driver import FakeDriver
from tests.fakes.nvml.state import NONE
from tests.fakes_nvml.answers import code_of

GONE = pynvml.NVML_ERROR_INVALID_ARGUMENT


@pytest.fixture
def card(driver: FakeDriver) -> str:
    return driver.card(0, "NVIDIA H100 80GB HBM3", mig_mode=1)


@pytest.fixture
def handle(driver: FakeDriver, card: str) -> Any:
    return pynvml.nvmlDeviceGetHandleByUUID(card)


def devices(handle: Any) -> list[Any]:
    """The handles of the MIG devices of a card; indexes may have holes."""
    indexes = range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle))
    by_index = pynvml.nvmlDeviceGetMigDeviceHandleByIndex
    return [by_index(handle, index) for index in indexes if code_of(by_index, handle, index) == pynvml.NVML_SUCCESS]


def test_two_compute_instances_of_one_gpu_instance(driver: FakeDriver, handle: Any) -> None:
    """M6: 1c.3g and 2c.3g, as nvidia-smi lists them on an H200."""
    first = driver.instance(0, 0, "1c.3g.40gb", gi_id=2, start=4)
    second = driver.instance(0, 5, "2c.3g.40gb", gi_id=2, start=4)

    one, other = devices(handle)
    assert [pynvml.nvmlDeviceGetUUID(each) for each in (one, other)] == [first, second]
    assert pynvml.nvmlDeviceGetName(other) == "NVIDIA H100 80GB HBM3 MIG 2c.3g.40gb"
    assert [pynvml.nvmlDeviceGetGpuInstanceId(each) for each in (one, other)] == [2, 2]
    assert [pynvml.nvmlDeviceGetComputeInstanceId(each) for each in (one, other)] == [0, 1]
    attributes = [pynvml.nvmlDeviceGetAttributes(each) for each in (one, other)]
    assert [each.multiprocessorCount for each in attributes] == [20, 40]
    assert [(each.gpuInstanceSliceCount, each.computeInstanceSliceCount) for each in attributes] == [(3, 1), (3, 2)]
    assert [each.memorySizeMB for each in attributes] == [40_448] * 2
    assert pynvml.nvmlDeviceGetMemoryInfo(one).total == 40_448 * MIB
    assert pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(one)).startswith("GPU-")
    assert pynvml.nvmlDeviceIsMigDeviceHandle(one).value == 1
    assert pynvml.nvmlDeviceIsMigDeviceHandle(handle).value == 0
    assert pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByUUID(second)) == second


def test_from_a_card_down_to_its_compute_instances(driver: FakeDriver, handle: Any) -> None:
    driver.instance(0, 0, "1c.3g.40gb", gi_id=2, gi_profile=2, start=4)
    driver.instance(0, 1, "2c.3g.40gb", gi_id=2, gi_profile=2, start=4)
    driver.instance(0, 2, "1g.10gb", gi_id=9, ci_id=NONE, start=2)

    instance = pynvml.nvmlDeviceGetGpuInstanceById(handle, 2)
    info = pynvml.nvmlGpuInstanceGetInfo(instance)
    assert (info.id, info.profileId, info.placement.start, info.placement.size) == (2, 2, 4, 4)
    compute = pynvml.nvmlComputeInstanceGetInfo(pynvml.nvmlGpuInstanceGetComputeInstanceById(instance, 1))
    assert (compute.id, compute.profileId, compute.placement.start, compute.placement.size) == (1, 1, 1, 2)

    room, count = (pynvml.c_nvmlGpuInstance_t * 8)(), pynvml.c_uint()
    pynvml.nvmlDeviceGetGpuInstances(handle, 2, room, ctypes.byref(count))
    assert (count.value, pynvml.nvmlGpuInstanceGetInfo(room[0]).id) == (1, 2)
    inner = (pynvml.c_nvmlComputeInstance_t * 8)()
    pynvml.nvmlGpuInstanceGetComputeInstances(instance, 1, inner, ctypes.byref(count))
    assert (count.value, pynvml.nvmlComputeInstanceGetInfo(inner[0]).id) == (1, 1)

    empty = pynvml.nvmlDeviceGetGpuInstanceById(handle, 9)
    assert code_of(pynvml.nvmlGpuInstanceGetComputeInstanceById, empty, 0) == pynvml.NVML_ERROR_NOT_FOUND
    assert len(devices(handle)) == 2, "a GPU instance without a compute instance is no MIG device"


def test_ids_and_uuids_come_back_and_old_handles_do_not(driver: FakeDriver, card: str, handle: Any) -> None:
    """M2, M3: an instance that was made again has the id and UUID of the one before."""
    first = driver.create_instance(card, "3g.40gb")
    stays = driver.create_instance(card, "1g.10gb")
    before, other = devices(handle)
    gi_id = pynvml.nvmlDeviceGetGpuInstanceId(before)
    instance = pynvml.nvmlDeviceGetGpuInstanceById(handle, gi_id)

    driver.destroy_instance(first)
    for ask in (pynvml.nvmlDeviceGetMemoryInfo, pynvml.nvmlDeviceGetUUID, pynvml.nvmlDeviceGetAttributes):
        assert code_of(ask, before) == GONE
    assert code_of(pynvml.nvmlDeviceGetGpuInstanceById, handle, gi_id) == pynvml.NVML_ERROR_NOT_FOUND

    assert driver.create_instance(card, "3g.40gb") == first
    assert code_of(pynvml.nvmlDeviceGetMemoryInfo, before) == GONE
    assert code_of(pynvml.nvmlGpuInstanceGetInfo, instance) == GONE
    again = devices(handle)[0]
    assert (pynvml.nvmlDeviceGetUUID(again), pynvml.nvmlDeviceGetGpuInstanceId(again)) == (first, gi_id)
    assert pynvml.nvmlDeviceGetUUID(other) == stays


def test_an_instance_that_does_not_fit_is_not_made(driver: FakeDriver, card: str) -> None:
    for _ in range(2):
        driver.create_instance(card, "3g.40gb")
    with pytest.raises(IndexError):
        driver.create_instance(card, "1g.10gb")
    with pytest.raises(ValueError, match="MIG"):
        driver.create_instance(driver.card(1), "1g.10gb")


def test_a_card_in_mig_mode_has_no_utilisation_and_some_drivers_say_0(driver: FakeDriver, card: str) -> None:
    """M1."""
    handle = pynvml.nvmlDeviceGetHandleByUUID(card)
    driver.set(card, busy_percent=50)
    asks = {
        "nvmlDeviceGetUtilizationRates": (),
        "nvmlDeviceGetEncoderUtilization": (),
        "nvmlDeviceGetProcessUtilization": (0,),
        "nvmlDeviceGetSamples": (1, 0),
        "nvmlDeviceGetPcieThroughput": (0,),
    }
    for name, arguments in asks.items():
        assert code_of(getattr(pynvml, name), handle, *arguments) == pynvml.NVML_ERROR_NOT_SUPPORTED
    driver.quirks(mig_busy_is_zero=1)
    assert pynvml.nvmlDeviceGetUtilizationRates(handle).gpu == 0


def test_a_mig_device_is_no_card(driver: FakeDriver, card: str, handle: Any) -> None:
    """Power and temperature are the card's alone."""
    driver.create_instance(card, "1g.10gb")
    (device,) = devices(handle)
    for ask in (pynvml.nvmlDeviceGetPowerUsage, pynvml.nvmlDeviceGetUtilizationRates, pynvml.nvmlDeviceGetMigMode):
        assert code_of(ask, device) == pynvml.NVML_ERROR_NOT_SUPPORTED
    assert code_of(pynvml.nvmlDeviceGetGpuInstanceId, handle) == pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert code_of(pynvml.nvmlDeviceGetAttributes, handle) == pynvml.NVML_ERROR_NOT_SUPPORTED


def test_processes_are_listed_on_the_card_and_on_their_device(driver: FakeDriver, handle: Any) -> None:
    first = driver.instance(0, 0, "1c.3g.40gb", gi_id=2)
    second = driver.instance(0, 1, "2c.3g.40gb", gi_id=2)
    driver.process(first, 101, MIB)
    driver.process(second, 102, 2 * MIB)

    whole = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    assert [(each.pid, each.gpuInstanceId, each.computeInstanceId) for each in whole] == [(101, 2, 0), (102, 2, 1)]
    lists = [pynvml.nvmlDeviceGetComputeRunningProcesses(device) for device in devices(handle)]
    assert [[each.pid for each in listed] for listed in lists] == [[101], [102]]


@pytest.mark.parametrize("version", [1, 2])
def test_the_full_card_says_how_many_sms_there_are(driver: FakeDriver, handle: Any, version: int) -> None:
    full = pynvml.NVML_GPU_INSTANCE_PROFILE_7_SLICE
    assert pynvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, full, version=version).multiprocessorCount == 132
    others = pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE
    ask = pynvml.nvmlDeviceGetGpuInstanceProfileInfo
    assert code_of(ask, handle, others, version=version) == pynvml.NVML_ERROR_NOT_SUPPORTED
