"""A 4090 with two processes of which all is known: what it tells of them, as they come, go and are refused."""

from fractions import Fraction
from typing import Any

import pynvml
import pytest

from domain.units import GIB, MIB
from tests.fakes.nvml.driver import Can, FakeDriver
from tests.fakes.nvml.truth import SECOND_US, GroundTruth, Work
from tests.fakes_nvml.answers import code_of
from tests.fakes_nvml.meter import PERIOD_US, START_S, START_US, Meter


@pytest.fixture
def working(driver: FakeDriver) -> tuple[str, Any, GroundTruth]:
    """A 4090 of which two processes have 40 % and 20 % of the time."""
    driver.set_clock(START_US)
    uuid = driver.card(0)
    truth = GroundTruth(driver, START_US)
    truth.simulate(uuid, pcie_tx_bytes_per_busy_second=GIB)
    truth.run(uuid, Work(7, GIB, START_US, None, PERIOD_US, 0, 20_000, 500, memory_permille=300, tenant="a"))
    truth.run(uuid, Work(8, 2 * GIB, START_US, None, PERIOD_US, 20_000, 10_000, 1_000, tenant="b"))
    return uuid, pynvml.nvmlDeviceGetHandleByIndex(0), truth


def test_rates_are_of_the_periods_that_have_ended(driver: FakeDriver, working: tuple[str, Any, GroundTruth]) -> None:
    uuid, handle, truth = working
    driver.set_clock(START_US + SECOND_US + 1_234)

    true = truth.true_second(uuid, START_S)
    assert (true.busy, true.busy_by_pid) == (Fraction(3, 5), {7: Fraction(2, 5), 8: Fraction(1, 5)})
    rates = pynvml.nvmlDeviceGetUtilizationRates(handle)
    assert (rates.gpu, rates.memory) == (60, 12)
    _, samples = pynvml.nvmlDeviceGetSamples(handle, pynvml.NVML_GPU_UTILIZATION_SAMPLES, START_US)
    assert [(each.timeStamp, each.sampleValue.uiVal) for each in samples] == [
        (START_US + (place + 1) * 100_000, 60) for place in range(10)
    ]
    _, newer = pynvml.nvmlDeviceGetSamples(handle, pynvml.NVML_GPU_UTILIZATION_SAMPLES, samples[6].timeStamp)
    assert [each.timeStamp for each in newer] == [each.timeStamp for each in samples[7:]]
    used = pynvml.nvmlDeviceGetProcessUtilization(handle, START_US)
    assert [(each.pid, each.timeStamp, each.smUtil) for each in used] == [
        (7, START_US + SECOND_US, 40),
        (8, START_US + SECOND_US, 20),
    ]
    assert code_of(pynvml.nvmlDeviceGetProcessUtilization, handle, START_US + SECOND_US) == pynvml.NVML_ERROR_NOT_FOUND


def test_power_is_idle_and_so_much_for_each_sm(driver: FakeDriver, working: tuple[str, Any, GroundTruth]) -> None:
    """22 W, and 428 W more where all SMs work: 0.4 of them on the mean, half of them now."""
    uuid, handle, truth = working
    driver.set_clock(START_US + 2 * SECOND_US + 10_000)
    assert pynvml.nvmlDeviceGetPowerUsage(handle) == 22_000 + 428_000 * 4 // 10
    instant = pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_POWER_INSTANT])[0]
    assert instant.value.uiVal == 22_000 + 428_000 // 2
    assert truth.true_second(uuid, START_S).joules == Fraction(1_932, 10)


def test_bytes_go_by_busy_time(driver: FakeDriver, working: tuple[str, Any, GroundTruth]) -> None:
    uuid, handle, _ = working
    driver.allow(uuid, Can.PCIE_COUNTERS)
    driver.set_clock(START_US + 5 * SECOND_US)
    assert pynvml.nvmlDeviceGetFieldValues(handle, [197])[0].value.ullVal == 3 * GIB


def test_the_energy_counter_can_move_in_steps(driver: FakeDriver, working: tuple[str, Any, GroundTruth]) -> None:
    """R9."""
    uuid, handle, _ = working
    driver.set(uuid, energy_step_us=100_000)
    told = []
    for at_us in (100_000, 150_000, 199_999, 200_000):
        driver.set_clock(START_US + at_us)
        told.append(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle))
    assert told == [19_320, 19_320, 19_320, 38_640]


def test_a_reload_starts_the_counter_at_0_and_the_work_goes_on(
    driver: FakeDriver, working: tuple[str, Any, GroundTruth]
) -> None:
    """R8."""
    uuid, _, truth = working
    driver.set_clock(START_US + SECOND_US)
    driver.load()
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    assert pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) == 0
    driver.set_clock(START_US + 2 * SECOND_US)
    joules = truth.true_second(uuid, START_S + 1).joules
    assert joules is not None
    assert pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) == joules * 1_000


def test_a_process_that_is_stopped_leaves_what_it_did(
    driver: FakeDriver, working: tuple[str, Any, GroundTruth]
) -> None:
    uuid, handle, truth = working
    before = truth.true_second(uuid, START_S)
    truth.stop(uuid, 8, START_US + SECOND_US)
    assert truth.true_second(uuid, START_S) == before
    after = truth.true_second(uuid, START_S + 1)
    assert (after.memory_bytes, after.busy) == ({7: GIB}, Fraction(2, 5))
    driver.set_clock(START_US + 2 * SECOND_US)
    assert [each.pid for each in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)] == [7]
    assert [each.pid for each in pynvml.nvmlDeviceGetProcessUtilization(handle, 0)] == [7, 8]
    driver.set_clock(START_US + 3 * SECOND_US)
    used = pynvml.nvmlDeviceGetProcessUtilization(handle, 0)
    assert [each.pid for each in used] == [7], "the driver's own memory of it has run out"
    assert pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used == GIB


def test_a_kernel_inside_another_is_busy_once(driver: FakeDriver, working: tuple[str, Any, GroundTruth]) -> None:
    uuid, _, truth = working
    driver.allow(uuid, Can.GPM)
    meter = Meter(driver, uuid)
    truth.run(uuid, Work(9, MIB, START_US, None, PERIOD_US, 5_000, 10_000, 300, overlaps=True))
    true = truth.true_second(uuid, START_S)
    assert (true.busy, sum(true.busy_by_pid.values())) == (Fraction(3, 5), Fraction(4, 5))
    assert true.sm_active == Fraction(4, 10) + Fraction(2, 10) * Fraction(3, 10)
    assert meter.second(START_S)[:2] == pytest.approx((60, 46))
    meter.close()


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (Work(9, 0, START_US - 1), "nothing starts before"),
        (Work(9, 0, START_US, None, PERIOD_US, 40_000, 20_000), "make the period longer"),
        (Work(9, 0, START_US, None, PERIOD_US, 10_000, 20_000), "in another's turn"),
        (Work(9, 0, START_US + 30_000, None, PERIOD_US, 30_000, 10_000), "in another's turn"),
        (Work(9, 0, START_US, None, 60_000, 30_000, 10_000), "one period"),
        (Work(9, 0, START_US, None, PERIOD_US, 40_000, 10_000, overlaps=True), "lie inside one"),
        (Work(9, 0, START_US, None, PERIOD_US, 0, 10_000, 600, overlaps=True), "the others leave it less"),
    ],
)
def test_what_no_card_could_do_is_refused(
    driver: FakeDriver, working: tuple[str, Any, GroundTruth], work: Work, words: str
) -> None:
    uuid, handle, truth = working
    with pytest.raises(ValueError, match=words):
        truth.run(uuid, work)
    assert len(pynvml.nvmlDeviceGetComputeRunningProcesses(handle)) == 2
