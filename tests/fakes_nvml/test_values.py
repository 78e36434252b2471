"""Numbers of one card, one call each or many fields in one."""

import ctypes
from typing import Any

import pynvml
import pytest

from domain.units import GIB, MIB
from tests.fakes.nvml.driver import Can, FakeDriver
from tests.fakes_nvml.answers import code_of

NOW_US = 1_700_000_000_000_000


def test_memory_of_both_versions(driver: FakeDriver, handle: Any) -> None:
    """R6: `used` of the first version is with what is reserved, and the second says how much that is."""
    uuid = pynvml.nvmlDeviceGetUUID(handle)
    driver.set(uuid, total=24_576 * MIB, reserved=576 * MIB, used=1_200 * MIB)

    first = pynvml.nvmlDeviceGetMemoryInfo(handle)
    second = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    assert (first.total, first.used, first.free) == (24_576 * MIB, 1_776 * MIB, 22_800 * MIB)
    assert (second.total, second.reserved, second.used, second.free) == (
        24_576 * MIB,
        576 * MIB,
        1_200 * MIB,
        22_800 * MIB,
    )
    assert code_of(pynvml.nvmlDeviceGetMemoryInfo, handle, version=7) == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_every_number_is_the_one_that_was_set(driver: FakeDriver, handle: Any) -> None:
    driver.set(
        pynvml.nvmlDeviceGetUUID(handle),
        busy_percent=87,
        memory_percent=45,
        encoder_percent=1,
        decoder_percent=2,
        jpeg_percent=3,
        ofa_percent=4,
        milliwatts=312_450,
        limit_milliwatts=650_000,
        millijoules=2**64 - 1,
        celsius=61,
        sm_megahertz=1_755,
        memory_megahertz=2_619,
        video_megahertz=1_200,
        performance_state=2,
        clock_event_reasons=pynvml.nvmlClocksEventReasonSwPowerCap,
        pcie_tx_kib_per_s=100,
        pcie_rx_kib_per_s=200,
        pcie_replays=5,
    )

    rates = pynvml.nvmlDeviceGetUtilizationRates(handle)
    assert (rates.gpu, rates.memory) == (87, 45)
    engines = ("Encoder", "Decoder", "Jpg", "Ofa")
    told = [getattr(pynvml, f"nvmlDeviceGet{engine}Utilization")(handle) for engine in engines]
    assert told == [[percent, 100_000] for percent in (1, 2, 3, 4)]
    assert pynvml.nvmlDeviceGetPowerUsage(handle) == 312_450
    assert pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) == 650_000
    assert pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) == 2**64 - 1
    assert pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU) == 61
    assert pynvml.nvmlDeviceGetTemperatureV(handle, pynvml.NVML_TEMPERATURE_GPU) == 61
    assert [pynvml.nvmlDeviceGetClockInfo(handle, clock) for clock in range(4)] == [1_755, 1_755, 2_619, 1_200]
    assert code_of(pynvml.nvmlDeviceGetClockInfo, handle, 4) == pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert pynvml.nvmlDeviceGetPerformanceState(handle) == 2
    assert pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle) == 4
    assert pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle) == 4
    assert [pynvml.nvmlDeviceGetPcieThroughput(handle, direction) for direction in (0, 1)] == [100, 200]
    assert pynvml.nvmlDeviceGetPcieReplayCounter(handle) == 5


def test_errors_of_memory(driver: FakeDriver, handle: Any) -> None:
    driver.set(
        pynvml.nvmlDeviceGetUUID(handle),
        ecc_corrected=(1, 2),
        ecc_uncorrected=(3, 4),
        ecc_corrected_at=(0, 5, 6),
        ecc_uncorrected_at=(0, 0, 7),
        remapped_correctable=8,
        remapped_uncorrectable=9,
        remapping_pending=1,
        retired_pages=(2, 1),
        retirement_pending=1,
    )

    totals = [pynvml.nvmlDeviceGetTotalEccErrors(handle, kind, since) for kind in (0, 1) for since in (0, 1)]
    assert totals == [1, 2, 3, 4]
    assert pynvml.nvmlDeviceGetMemoryErrorCounter(handle, 0, 0, pynvml.NVML_MEMORY_LOCATION_L2_CACHE) == 5
    assert pynvml.nvmlDeviceGetMemoryErrorCounter(handle, 1, 0, pynvml.NVML_MEMORY_LOCATION_DRAM) == 7
    assert pynvml.nvmlDeviceGetRemappedRows(handle) == (8, 9, 1, 0)
    rows = pynvml.c_nvmlRemappedRowsInfo_v2_t()
    pynvml.nvmlDeviceGetRemappedRows_v2(handle, ctypes.byref(rows))
    assert (rows.corrActiveRemaps, rows.uncActiveRemaps, rows.bPending) == (8, 9, 1)
    assert [len(pynvml.nvmlDeviceGetRetiredPages(handle, cause)) for cause in (0, 1)] == [2, 1]
    assert len({page["address"] for page in pynvml.nvmlDeviceGetRetiredPages_v2(handle, 0)}) == 2
    assert pynvml.nvmlDeviceGetRetiredPagesPendingStatus(handle) == 1


# Field, its value below, the type, and what a card must be able to do.
FIELDS: list[tuple[int, int, int, Can | None]] = [
    (3, 1, pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, Can.ECC),
    (4, 3, pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, Can.ECC),
    (29, 2, pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, Can.RETIRED_PAGES),
    (82, 95, pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, Can.MEMORY_TEMPERATURE),
    (83, 5 * 10**9, pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, Can.ENERGY),
    (94, 6, pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, None),
    (74, 10**12, pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, Can.PERF_POLICY),
    (81, 8, pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, Can.PERF_POLICY),
    (142, 11, pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, Can.ROW_REMAP),
    (145, 1, pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, Can.ROW_REMAP),
    (185, 312_450, pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, Can.POWER_FIELDS),
    (186, 400_000, pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, Can.POWER_FIELDS),
    (197, 12 * GIB, pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, Can.PCIE_COUNTERS),
    (198, 13 * GIB, pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, Can.PCIE_COUNTERS),
    (230, 2, pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, Can.RECOVERY_ACTION),
    (269, 21, pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, Can.CLOCK_EVENT_COUNTERS),
    (271, 23, pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, Can.CLOCK_EVENT_COUNTERS),
]


def test_many_fields_in_one_call_each_with_its_own_answer(driver: FakeDriver, handle: Any) -> None:
    uuid = pynvml.nvmlDeviceGetUUID(handle)
    driver.set_clock(NOW_US)
    driver.set(
        uuid,
        ecc_corrected=(1, 2),
        ecc_uncorrected=(3, 4),
        retired_pages=(2, 0),
        memory_celsius=95,
        millijoules=5 * 10**9,
        pcie_replays=6,
        perf_policy_ns=(10**12, 2, 3, 4, 5, 6, 7, 8),
        clock_event_ns=(21, 22, 23),
        remapped_correctable=11,
        remapping_failed=1,
        milliwatts=312_450,
        milliwatts_instant=400_000,
        pcie_tx_bytes=12 * GIB,
        pcie_rx_bytes=13 * GIB,
        recovery_action=2,
    )
    ids = [field for field, *_ in FIELDS]

    told = pynvml.nvmlDeviceGetFieldValues(handle, [*ids, 0, 308, 250])
    for (field, value, value_type, _), entry in zip(FIELDS, told, strict=False):
        assert (entry.fieldId, entry.nvmlReturn, entry.valueType) == (field, pynvml.NVML_SUCCESS, value_type)
        assert (entry.timestamp, entry.value.ullVal) == (NOW_US, value)
    assert [entry.nvmlReturn for entry in told[len(FIELDS) :]] == [
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
        pynvml.NVML_ERROR_NOT_SUPPORTED,
    ]

    for field, _, _, ability in FIELDS:
        if ability is not None:
            driver.deny(uuid, ability)
            assert pynvml.nvmlDeviceGetFieldValues(handle, [field])[0].nvmlReturn == pynvml.NVML_ERROR_NOT_SUPPORTED
            driver.allow(uuid, ability)


@pytest.mark.parametrize("on_boot_clock", [0, 1])
def test_finer_samples_are_stamped_by_the_clock_of_the_driver(
    driver: FakeDriver, handle: Any, on_boot_clock: int
) -> None:
    """R12: some drivers count from boot, and are asked in that clock too."""
    boot_us = NOW_US - 120_000_000 if on_boot_clock else 0
    driver.quirks(samples_on_boot_clock=on_boot_clock, boot_us=NOW_US - 120_000_000)
    driver.samples(
        pynvml.nvmlDeviceGetUUID(handle), pynvml.NVML_GPU_UTILIZATION_SAMPLES, [(NOW_US + i, i) for i in range(5)]
    )

    value_type, samples = pynvml.nvmlDeviceGetSamples(handle, 1, 0)
    assert value_type == pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
    assert [(each.timeStamp, each.sampleValue.uiVal) for each in samples] == [
        (NOW_US - boot_us + i, i) for i in range(5)
    ]
    _, newer = pynvml.nvmlDeviceGetSamples(handle, 1, samples[2].timeStamp)
    assert [each.sampleValue.uiVal for each in newer] == [3, 4]


def test_an_idle_card_has_no_finer_samples(driver: FakeDriver, handle: Any) -> None:
    """R13."""
    assert code_of(pynvml.nvmlDeviceGetSamples, handle, 1, 0) == pynvml.NVML_ERROR_NOT_FOUND
    assert code_of(pynvml.nvmlDeviceGetSamples, handle, 10, 0) == pynvml.NVML_ERROR_INVALID_ARGUMENT
