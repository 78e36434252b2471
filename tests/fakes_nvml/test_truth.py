"""What the driver measures is what was true, to the second, the byte and the joule."""

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pynvml
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.units import GIB
from tests.fakes.nvml.driver import FakeDriver
from tests.fakes.nvml.truth import SECOND_US, GroundTruth, Work
from tests.fakes_nvml.meter import PERIOD_US, START_S, START_US, Meter

# How many seconds are looked at.
SECONDS = 5


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


def test_a_gpu_instance_measures_what_is_done_in_its_compute_instances(driver: FakeDriver) -> None:
    """M6: 20 of its SMs have kernels for 60 % of the time, on half of them, and 40 for 30 %."""
    card = driver.card(0, "NVIDIA H100 80GB HBM3", mig_mode=1)
    small, large = (driver.instance(0, row, f"{row + 1}c.3g.40gb", gi_id=1) for row in range(2))
    truth = GroundTruth(driver, START_US)
    truth.simulate(card)
    truth.run(small, Work(1, GIB, START_US, None, PERIOD_US, 0, PERIOD_US * 6 // 10, 500))
    truth.run(large, Work(2, 2 * GIB, START_US, None, PERIOD_US, 0, PERIOD_US * 3 // 10))
    whole, shared = Meter(driver, card), Meter(driver, card, 1)

    true = truth.true_second(small, START_S)
    assert true == truth.true_second(large, START_S)
    assert (true.busy, true.sm_active) == (Fraction(4, 10), Fraction(3, 10))
    assert true.memory_bytes == {1: GIB, 2: 2 * GIB}
    assert shared.second(START_S)[:2] == pytest.approx((40, 30))
    assert whole.second(START_S)[:2] == pytest.approx((24 / 1.32, 18 / 1.32))
    for meter in (whole, shared):
        meter.close()


def test_the_driver_runs_on_its_own_clock_without_anybody_writing(
    use_driver: Callable[[Path], FakeDriver], nvml_library: Path
) -> None:
    """With the clock running, what is read lies between what was true before and after."""
    driver = use_driver(nvml_library)
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
