"""What the driver measures is what was true, to the second, the byte and the joule."""

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pynvml
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.units import GIB, MIB
from tests.fakes.nvml.driver import Can, FakeDriver
from tests.fakes.nvml.truth import SECOND_US, GroundTruth, Work
from tests.fakes_nvml.answers import code_of

START_S = 1_700_000_000
START_US = START_S * SECOND_US
PERIOD_US = 50_000
# How many seconds are looked at.
SECONDS = 5


class Meter:
    """Reads a card, or a GPU instance of it, at whole seconds of the driver's clock."""

    def __init__(self, driver: FakeDriver, uuid: str, gi_id: int | None = None) -> None:
        self._driver, self._gi_id = driver, gi_id
        self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        self._samples = [pynvml.nvmlGpmSampleAlloc() for _ in range(2)]

    def close(self) -> None:
        for sample in self._samples:
            pynvml.nvmlGpmSampleFree(sample)

    def second(self, second_s: int) -> tuple[float, float, int]:
        """Busy and SM active in percent, and millijoules, of [second_s, second_s + 1)."""
        energies = []
        for sample, at_s in zip(self._samples, (second_s, second_s + 1), strict=True):
            self._driver.set_clock(at_s * SECOND_US)
            if self._gi_id is None:
                pynvml.nvmlGpmSampleGet(self._handle, sample)
            else:
                pynvml.nvmlGpmMigSampleGet(self._handle, self._gi_id, sample)
            energies.append(pynvml.nvmlDeviceGetTotalEnergyConsumption(self._handle))
        get = pynvml.c_nvmlGpmMetricsGet_t(version=1, numMetrics=2, sample1=self._samples[0], sample2=self._samples[1])
        get.metrics[0].metricId, get.metrics[1].metricId = 1, 2
        pynvml.nvmlGpmMetricsGet(get)
        return get.metrics[0].value, get.metrics[1].value, energies[1] - energies[0]

    def memory(self) -> dict[int, int]:
        return {each.pid: each.usedGpuMemory for each in pynvml.nvmlDeviceGetComputeRunningProcesses(self._handle)}


@st.composite
def works(draw: st.DrawFn, first_pid: int = 1) -> list[Work]:
    """Processes that take turns in one period, come and go at any microsecond, and some that only hold memory."""
    cuts = sorted(draw(st.lists(st.integers(0, PERIOD_US), min_size=0, max_size=6, unique=True)))
    turns = [(start, end - start) for start, end in pairwise(cuts)]
    made = []
    for pid, (offset_us, on_us) in enumerate(turns, start=first_pid):
        # A life starts on the grid of the period, so that turns stay apart.
        start_us = START_US + PERIOD_US * draw(st.integers(0, 60))
        end_us = draw(st.none() | st.integers(start_us + 1, START_US + SECONDS * SECOND_US))
        memory_bytes = draw(st.integers(0, 8 * GIB))
        permille = draw(st.integers(0, 1_000))
        made.append(
            Work(pid, memory_bytes, start_us, end_us, PERIOD_US, offset_us, on_us, permille, tenant=f"tenant-{pid}")
        )
    return [*made, Work(first_pid + 99, draw(st.integers(1, GIB)), START_US)]


@given(
    turn=st.tuples(st.integers(0, 30), st.integers(0, 40)),
    life=st.tuples(st.integers(0, 200), st.none() | st.integers(1, 400)),
    span=st.tuples(st.integers(0, 500), st.integers(0, 500)),
)
def test_the_time_of_a_turn_is_the_sum_of_its_microseconds(
    turn: tuple[int, int], life: tuple[int, int | None], span: tuple[int, int]
) -> None:
    start_us, lasts_us = START_US + life[0], life[1]
    work = Work(1, 0, start_us, None if lasts_us is None else start_us + lasts_us, 70, *turn)
    from_us, until_us = (START_US + each for each in sorted(span))

    def runs(at_us: int) -> bool:
        in_period = (at_us - work.start_us) % work.period_us
        return work.lives_at(at_us) and work.offset_us <= in_period < work.offset_us + work.on_us

    assert work.on_between_us(from_us, until_us) == sum(map(runs, range(from_us, until_us)))


@settings(max_examples=settings().max_examples * 40 // 100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(works=works())
def test_a_card_measures_what_was_true(driver: FakeDriver, works: list[Work]) -> None:
    """Every second: GPM to the microsecond, energy to the millijoule, memory to the byte."""
    uuid = driver.card(0, "NVIDIA H100 80GB HBM3")
    driver.end_processes(uuid)
    truth = GroundTruth(driver, START_US)
    truth.simulate(uuid)
    for work in works:
        truth.run(uuid, work)
    meter = Meter(driver, uuid)

    joules = Fraction(0)
    for second_s in range(START_S, START_S + SECONDS):
        true = truth.true_second(uuid, second_s)
        busy, sm_active, millijoules = meter.second(second_s)
        assert busy == pytest.approx(float(true.busy * 100), abs=1e-6)
        assert sm_active == pytest.approx(float(true.sm_active * 100), abs=1e-6)
        assert true.joules is not None
        assert abs(millijoules - true.joules * 1_000) < 1
        joules += true.joules
        driver.set_clock(second_s * SECOND_US)
        assert meter.memory() == true.memory_bytes
        used = pynvml.nvmlDeviceGetMemoryInfo(meter._handle, version=pynvml.nvmlMemory_v2).used
        assert used == sum(true.memory_bytes.values())
    driver.set_clock((START_S + SECONDS) * SECOND_US)
    assert pynvml.nvmlDeviceGetTotalEnergyConsumption(meter._handle) == int(joules * 1_000)
    meter.close()


@settings(max_examples=settings().max_examples * 20 // 100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=works(), second=works(first_pid=201))
def test_instances_measure_their_own_and_the_card_their_sum(
    driver: FakeDriver, first: list[Work], second: list[Work]
) -> None:
    """The card weighs each instance by its SMs, and has the only meter of energy."""
    card = driver.card(0, "NVIDIA H100 80GB HBM3", mig_mode=1)
    instances = {
        driver.create_instance(card, "3g.40gb"): (1, first),
        driver.create_instance(card, "1g.10gb"): (7, second),
    }
    truth = GroundTruth(driver, START_US)
    truth.simulate(card)
    for uuid, (_, own) in instances.items():
        for work in own:
            truth.run(uuid, work)

    whole = Meter(driver, card)
    meters = {uuid: Meter(driver, card, gi_id) for uuid, (gi_id, _) in instances.items()}
    for second_s in range(START_S, START_S + SECONDS):
        true = truth.true_second(card, second_s)
        busy, sm_active, millijoules = whole.second(second_s)
        assert busy == pytest.approx(float(true.busy * 100), abs=1e-6)
        assert sm_active == pytest.approx(float(true.sm_active * 100), abs=1e-6)
        assert true.joules is not None
        assert abs(millijoules - true.joules * 1_000) < 1
        for uuid, meter in meters.items():
            own_true = truth.true_second(uuid, second_s)
            assert own_true.joules is None
            own_busy, own_active, _ = meter.second(second_s)
            assert own_busy == pytest.approx(float(own_true.busy * 100), abs=1e-6)
            assert own_active == pytest.approx(float(own_true.sm_active * 100), abs=1e-6)
    for meter in (whole, *meters.values()):
        meter.close()


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


def test_the_driver_runs_on_its_own_clock_without_anybody_writing(
    use_driver: Callable[[Path], FakeDriver], library: Path
) -> None:
    """With the clock running, what is read lies between what was true before and after."""
    driver = use_driver(library)
    pynvml.nvmlInit()
    uuid = driver.card(0)
    start_us = driver.now_us() - 10 * SECOND_US
    truth = GroundTruth(driver, start_us)
    truth.simulate(uuid)
    truth.run(uuid, Work(7, GIB, start_us, None, 1_000, 0, 500))
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)

    before_us = driver.now_us()
    millijoules = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    after_us = driver.now_us()
    low, high = (truth.true_span(uuid, start_us, at_us).joules for at_us in (before_us, after_us))
    assert low is not None
    assert high is not None
    assert int(low * 1_000) <= millijoules <= high * 1_000
    pynvml.nvmlShutdown()
