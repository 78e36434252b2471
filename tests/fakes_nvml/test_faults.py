"""What goes wrong with one call of one card, while everybody else is answered."""

import struct
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pynvml
import pytest

from tests.fakes.nvml.driver import FakeDriver
from tests.fakes_nvml.answers import code_of

UNKNOWN = pynvml.NVML_ERROR_UNKNOWN
NAME, POWER = "nvmlDeviceGetName", "nvmlDeviceGetPowerUsage"


@pytest.fixture
def handles(driver: FakeDriver) -> list[Any]:
    """Of three cards."""
    for index in range(3):
        driver.card(index, milliwatts=1_000 * index)
    return [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(3)]


def codes(call: Any, handles: list[Any]) -> list[int]:
    return [code_of(call, handle) for handle in handles]


def uuid_of(handle: Any) -> str:
    return str(pynvml.nvmlDeviceGetUUID(handle))


def test_a_fault_is_of_a_call_and_a_card(driver: FakeDriver, handles: list[Any]) -> None:
    driver.fault(UNKNOWN, POWER, uuid_of(handles[1]))
    assert codes(pynvml.nvmlDeviceGetPowerUsage, handles) == [0, UNKNOWN, 0]
    assert codes(pynvml.nvmlDeviceGetName, handles) == [0, 0, 0]
    driver.fault(0)
    assert codes(pynvml.nvmlDeviceGetPowerUsage, handles) == [0, 0, 0]


def test_a_fault_of_a_card_is_met_by_who_asks_for_its_handle(driver: FakeDriver, handles: list[Any]) -> None:
    found = driver.fault(UNKNOWN, uuid=uuid_of(handles[1]))
    asked = [code_of(pynvml.nvmlDeviceGetHandleByIndex, index) for index in range(3)]
    assert asked == [0, UNKNOWN, 0]
    assert (found.calls, found.hits) == (1, 1)


def test_a_fault_of_every_card_counts_a_call_once(driver: FakeDriver, handles: list[Any]) -> None:
    found = driver.fault(UNKNOWN, "nvmlDeviceGetHandleByIndex_v2", after=1, times=1)
    assert [code_of(pynvml.nvmlDeviceGetHandleByIndex, 0) for _ in range(3)] == [0, UNKNOWN, 0]
    assert (found.calls, found.hits) == (3, 1)


def test_the_first_fault_that_matches_wins(driver: FakeDriver, handles: list[Any]) -> None:
    driver.fault(pynvml.NVML_ERROR_TIMEOUT, POWER)
    driver.fault(UNKNOWN)
    assert code_of(pynvml.nvmlDeviceGetPowerUsage, handles[0]) == pynvml.NVML_ERROR_TIMEOUT
    assert code_of(pynvml.nvmlDeviceGetName, handles[0]) == UNKNOWN


def test_a_fault_can_spare_some_calls_and_strike_some(driver: FakeDriver, handles: list[Any]) -> None:
    found = driver.fault(UNKNOWN, NAME, after=2, times=3)
    assert [code_of(pynvml.nvmlDeviceGetName, handles[0]) for _ in range(7)] == [0, 0, *[UNKNOWN] * 3, 0, 0]
    assert (found.calls, found.hits) == (7, 3)


def test_a_fault_of_some_probability_is_the_same_for_the_same_seed(driver: FakeDriver, handles: list[Any]) -> None:
    def series(seed: int) -> list[int]:
        found = driver.fault(UNKNOWN, NAME, probability=0.3, seed=seed)
        told = [code_of(pynvml.nvmlDeviceGetName, handles[0]) for _ in range(500)]
        assert found.hits == told.count(UNKNOWN)
        driver.fault(0)
        return told

    first = series(1)
    assert first == series(1)
    assert first != series(2)
    # Of 500 calls at 0.3, ten standard deviations from the mean at most.
    assert abs(first.count(UNKNOWN) - 150) < 103


def test_a_call_hangs_until_it_is_released_and_the_others_go_on(driver: FakeDriver, handles: list[Any]) -> None:
    """L4."""
    found = driver.fault(0, POWER, uuid_of(handles[1]), hang=True)
    with ThreadPoolExecutor(1) as pool:
        stuck = pool.submit(pynvml.nvmlDeviceGetPowerUsage, handles[1])
        while not found.waiting:
            assert not stuck.done()
        assert [pynvml.nvmlDeviceGetPowerUsage(handle) for handle in (handles[0], handles[2])] == [0, 2_000]
        driver.set(uuid_of(handles[1]), milliwatts=5)
        assert not stuck.done()
        found.take_back()
        assert stuck.result() == 5
    assert found.waiting == 0


def test_a_call_can_hang_and_then_fail(driver: FakeDriver, handles: list[Any]) -> None:
    found = driver.fault(pynvml.NVML_ERROR_GPU_IS_LOST, POWER, hang=True)
    with ThreadPoolExecutor(1) as pool:
        stuck = pool.submit(code_of, pynvml.nvmlDeviceGetPowerUsage, handles[0])
        while not found.waiting:
            assert not stuck.done()
        driver.clear_faults()
        assert stuck.result() == pynvml.NVML_ERROR_GPU_IS_LOST


def test_a_call_that_is_late_answers_all_the_same(driver: FakeDriver, handles: list[Any]) -> None:
    """A delay that is taken back is over."""
    found = driver.fault(0, POWER, delay_us=1_000)
    assert pynvml.nvmlDeviceGetPowerUsage(handles[2]) == 2_000
    assert found.hits == 1
    driver.fault(0)
    found = driver.fault(0, POWER, delay_us=2**31)
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(pynvml.nvmlDeviceGetPowerUsage, handles[2])
        while not found.hits:
            assert not late.done()
        found.take_back()
        assert late.result() == 2_000


def test_garbage_takes_the_place_of_what_a_call_says(driver: FakeDriver, handles: list[Any]) -> None:
    """R1: 808334905 percent was seen on real cards."""
    driver.fault(0, "nvmlDeviceGetUtilizationRates", garbage=808_334_905)
    rates = pynvml.nvmlDeviceGetUtilizationRates(handles[0])
    assert (rates.gpu, rates.memory) == (808_334_905, 0)
    driver.fault(0)
    driver.fault(0, "nvmlDeviceGetMemoryInfo_v2", garbage=2**64 - 1)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handles[0], version=pynvml.nvmlMemory_v2)
    assert (memory.version, memory.total, memory.used) == (pynvml.nvmlMemory_v2, 2**64 - 1, 2**64 - 1)


def test_a_fault_of_one_entry_leaves_the_others(driver: FakeDriver, handle: Any) -> None:
    uuid = pynvml.nvmlDeviceGetUUID(handle)
    driver.set(uuid, milliwatts=7, memory_celsius=50, celsius=40)
    driver.fault(UNKNOWN, "nvmlDeviceGetFieldValues", uuid, entry=185)
    driver.fault(0, "nvmlDeviceGetFieldValues", uuid, entry=82, garbage=2**32 - 1)
    told = pynvml.nvmlDeviceGetFieldValues(handle, [186, 185, 82, 230])
    assert [entry.nvmlReturn for entry in told] == [0, UNKNOWN, 0, 0]
    assert [told[place].value.uiVal for place in (0, 2, 3)] == [7, 2**32 - 1, 0]

    driver.fault(UNKNOWN, "nvmlDeviceGetClockInfo", uuid, entry=pynvml.NVML_CLOCK_MEM)
    assert [code_of(pynvml.nvmlDeviceGetClockInfo, handle, clock) for clock in range(3)] == [0, 0, UNKNOWN]


def test_a_metric_can_be_blank_or_garbage(driver: FakeDriver, handle: Any) -> None:
    """R2: a blank of 140737488355328.0."""
    uuid = pynvml.nvmlDeviceGetUUID(handle)
    blank = struct.unpack("<Q", struct.pack("<d", 140_737_488_355_328.0))[0]
    driver.fault(0, "nvmlGpmMetricsGet", uuid, entry=2, garbage=blank)
    driver.fault(pynvml.NVML_ERROR_NO_DATA, "nvmlGpmMetricsGet", uuid, entry=3)
    samples = [pynvml.nvmlGpmSampleAlloc() for _ in range(2)]
    for second, sample in enumerate(samples):
        driver.set_clock(1_700_000_000_000_000 + second * 1_000_000)
        pynvml.nvmlGpmSampleGet(handle, sample)
    get = pynvml.c_nvmlGpmMetricsGet_t(version=1, numMetrics=3, sample1=samples[0], sample2=samples[1])
    for place, metric in enumerate((1, 2, 3)):
        get.metrics[place].metricId = metric
    pynvml.nvmlGpmMetricsGet(get)
    assert [each.nvmlReturn for each in get.metrics[:3]] == [0, 0, pynvml.NVML_ERROR_NO_DATA]
    assert [each.value for each in get.metrics[:2]] == [0, 140_737_488_355_328.0]
    driver.fault(UNKNOWN, "nvmlGpmMetricsGet", uuid)
    assert code_of(pynvml.nvmlGpmMetricsGet, get) == UNKNOWN
    for sample in samples:
        pynvml.nvmlGpmSampleFree(sample)


def test_the_sizing_call_and_the_second_can_see_different_worlds(driver: FakeDriver, handles: list[Any]) -> None:
    """One process more between the two: INSUFFICIENT_SIZE, which asking again mends."""
    uuid = uuid_of(handles[0])
    driver.uses(uuid, [{"pid": 7, "at_us": 5, "sm": 1}])
    driver.fault(pynvml.NVML_ERROR_INSUFFICIENT_SIZE, "nvmlDeviceGetProcessUtilization", uuid, after=1, times=1)
    ask = pynvml.nvmlDeviceGetProcessUtilization
    assert code_of(ask, handles[0], 0) == pynvml.NVML_ERROR_INSUFFICIENT_SIZE
    assert [each.pid for each in ask(handles[0], 0)] == [7]


def test_a_fault_of_a_card_takes_its_instances_along_and_one_of_a_call_does_not(driver: FakeDriver) -> None:
    card = driver.card(0, "NVIDIA H100 80GB HBM3", mig_mode=1)
    first, second = (driver.create_instance(card, "1g.10gb") for _ in range(2))
    handles = [pynvml.nvmlDeviceGetHandleByUUID(uuid) for uuid in (card, first, second)]
    ask = pynvml.nvmlDeviceGetMemoryInfo
    driver.fault(UNKNOWN, "nvmlDeviceGetMemoryInfo", card)
    assert codes(ask, handles) == [UNKNOWN, 0, 0]
    driver.fault(0)
    driver.fault(UNKNOWN, "", card)
    assert codes(ask, handles) == [UNKNOWN, UNKNOWN, UNKNOWN]
    driver.fault(0)
    driver.fault(UNKNOWN, "", second)
    assert codes(ask, handles) == [0, 0, UNKNOWN]


def test_a_fault_that_is_taken_back_does_not_take_another_along(driver: FakeDriver, handles: list[Any]) -> None:
    first = driver.fault(UNKNOWN, POWER)
    first.take_back()
    driver.fault(UNKNOWN, NAME)
    first.take_back()
    assert code_of(pynvml.nvmlDeviceGetPowerUsage, handles[0]) == 0
    assert code_of(pynvml.nvmlDeviceGetName, handles[0]) == UNKNOWN
