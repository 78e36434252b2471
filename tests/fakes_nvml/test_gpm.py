"""GPU performance metrics: what two samples counted between them."""

from collections.abc import Iterator
from typing import Any

import pynvml
import pytest

from domain.units import GIB, MIB
from tests.fakes.nvml.driver import Can, FakeDriver
from tests.fakes.nvml.state import NONE
from tests.fakes_nvml.answers import code_of

NOW_US = 1_700_000_000_000_000


@pytest.fixture
def samples(driver: FakeDriver) -> Iterator[tuple[Any, Any]]:
    both = (pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc())
    yield both
    for sample in both:
        pynvml.nvmlGpmSampleFree(sample)


def metrics(samples: tuple[Any, Any], ids: list[int]) -> list[tuple[int, float]]:
    """Code and value of each metric."""
    get = pynvml.c_nvmlGpmMetricsGet_t(version=1, numMetrics=len(ids), sample1=samples[0], sample2=samples[1])
    for place, metric in enumerate(ids):
        get.metrics[place].metricId = metric
    pynvml.nvmlGpmMetricsGet(get)
    return [(each.nvmlReturn, each.value) for each in get.metrics[: len(ids)]]


def test_ratios_are_means_between_two_samples(driver: FakeDriver, handle: Any, samples: tuple[Any, Any]) -> None:
    uuid = pynvml.nvmlDeviceGetUUID(handle)
    driver.set_clock(NOW_US)
    driver.gpm(uuid, {1: 1_000, 2: 400, 5: 0, 10: 1_294})
    pynvml.nvmlGpmSampleGet(handle, samples[0])
    driver.set_clock(NOW_US + 250_000)
    driver.gpm(uuid, {2: 800})
    driver.set_clock(NOW_US + 1_000_000)
    pynvml.nvmlGpmSampleGet(handle, samples[1])

    assert metrics(samples, [1, 2, 5, 10]) == [(0, 100), (0, 70), (0, 0), (0, 129.4)]


def test_bytes_are_mib_a_second(driver: FakeDriver, handle: Any, samples: tuple[Any, Any]) -> None:
    uuid = pynvml.nvmlDeviceGetUUID(handle)
    driver.set_clock(NOW_US)
    driver.link(uuid, 0)
    pynvml.nvmlGpmSampleGet(handle, samples[0])
    driver.set(uuid, pcie_tx_bytes=GIB, pcie_rx_bytes=MIB)
    driver.link(uuid, 0, data_rx_bytes=6 * GIB, data_tx_bytes=2 * GIB)
    driver.set_clock(NOW_US + 2_000_000)
    pynvml.nvmlGpmSampleGet(handle, samples[1])

    assert metrics(samples, [20, 21, 60, 61]) == [(0, 512), (0, 0.5), (0, 3_072), (0, 1_024)]


def test_cycles_are_counted_since_boot_where_the_driver_has_them(
    driver: FakeDriver, handle: Any, samples: tuple[Any, Any]
) -> None:
    uuid = pynvml.nvmlDeviceGetUUID(handle)
    driver.quirks(boot_us=NOW_US - 10_000_000)
    driver.set_clock(NOW_US)
    driver.set(uuid, sms=100, sm_megahertz=2_000, pcie_tx_bytes=7)
    driver.gpm(uuid, {2: 500})
    pynvml.nvmlGpmSampleGet(handle, samples[0])
    driver.set_clock(NOW_US + 1_000_000)
    pynvml.nvmlGpmSampleGet(handle, samples[1])

    per_second = 100 * 2_000 * 10**6
    assert metrics(samples, [248, 249, 255]) == [(0, 11 * per_second), (0, per_second / 2), (0, 7)]
    driver.deny(uuid, Can.GPM_COUNTERS)
    pynvml.nvmlGpmSampleGet(handle, samples[1])
    assert [code for code, _ in metrics(samples, [2, 248])] == [0, pynvml.NVML_ERROR_NOT_SUPPORTED]


def test_each_gpu_instance_has_metrics_of_its_own(driver: FakeDriver, samples: tuple[Any, Any]) -> None:
    card = driver.card(0, "NVIDIA H100 80GB HBM3", mig_mode=1)
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    first = driver.instance(0, 0, "3g.40gb", gi_id=2)
    driver.instance(0, 1, "1g.10gb", gi_id=9, ci_id=NONE, start=4)
    driver.set_clock(NOW_US)
    driver.gpm(first, {2: 250})
    driver.gpm(card, {2: 100})
    pynvml.nvmlGpmMigSampleGet(handle, 2, samples[0])
    driver.set_clock(NOW_US + 1_000_000)
    pynvml.nvmlGpmMigSampleGet(handle, 2, samples[1])

    assert metrics(samples, [2]) == [(0, 25)]
    assert code_of(pynvml.nvmlGpmMigSampleGet, handle, 9, samples[0]) == pynvml.NVML_ERROR_NO_DATA
    assert code_of(pynvml.nvmlGpmMigSampleGet, handle, 3, samples[0]) == pynvml.NVML_ERROR_NOT_FOUND
    driver.set_clock(NOW_US + 2_000_000)
    pynvml.nvmlGpmMigSampleGet(handle, 2, samples[0])
    driver.set_clock(NOW_US + 3_000_000)
    pynvml.nvmlGpmSampleGet(handle, samples[1])
    assert code_of(metrics, samples, [2]) == pynvml.NVML_ERROR_INVALID_ARGUMENT, "of an instance and of a card"


def test_samples_that_span_two_lives_of_an_instance_make_no_sense(driver: FakeDriver, samples: tuple[Any, Any]) -> None:
    """M2: who does not look at the generation gets a number below 0."""
    card = driver.card(0, "NVIDIA H100 80GB HBM3", mig_mode=1)
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    driver.set_clock(NOW_US)
    first = driver.create_instance(card, "3g.40gb")
    driver.gpm(first, {2: 1_000})
    driver.set_clock(NOW_US + 9_000_000)
    pynvml.nvmlGpmMigSampleGet(handle, 1, samples[0])
    driver.destroy_instance(first)
    assert driver.create_instance(card, "3g.40gb") == first
    driver.set_clock(NOW_US + 10_000_000)
    pynvml.nvmlGpmMigSampleGet(handle, 1, samples[1])

    ((code, value),) = metrics(samples, [2])
    assert (code, value) == (0, -900)


def test_what_metrics_are_not_got_of(driver: FakeDriver, handle: Any, samples: tuple[Any, Any]) -> None:
    driver.set_clock(NOW_US)
    assert code_of(metrics, samples, [2]) == pynvml.NVML_ERROR_INVALID_ARGUMENT, "nothing was sampled"
    for sample in samples:
        pynvml.nvmlGpmSampleGet(handle, sample)
    assert code_of(metrics, samples, [2]) == pynvml.NVML_ERROR_INVALID_ARGUMENT, "no time has passed"
    get = pynvml.c_nvmlGpmMetricsGet_t(version=7, sample1=samples[0], sample2=samples[1])
    assert code_of(pynvml.nvmlGpmMetricsGet, get) == pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
    driver.deny(pynvml.nvmlDeviceGetUUID(handle), Can.GPM)
    assert not pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice
    assert code_of(pynvml.nvmlGpmSampleGet, handle, samples[0]) == pynvml.NVML_ERROR_NOT_SUPPORTED


def test_streaming_is_remembered_by_the_card(driver: FakeDriver, handle: Any) -> None:
    assert pynvml.nvmlGpmQueryIfStreamingEnabled(handle) == 0
    pynvml.nvmlGpmSetStreamingEnabled(handle, 1)
    assert pynvml.nvmlGpmQueryIfStreamingEnabled(handle) == 1


def test_samples_that_are_held_are_counted(driver: FakeDriver, samples: tuple[Any, Any]) -> None:
    assert driver.opened().gpm_samples == 2
    third = pynvml.nvmlGpmSampleAlloc()
    assert driver.opened().gpm_samples == 3
    pynvml.nvmlGpmSampleFree(third)
    assert driver.opened().gpm_samples == 2
    assert code_of(pynvml.nvmlGpmSampleFree, None) == pynvml.NVML_ERROR_INVALID_ARGUMENT
