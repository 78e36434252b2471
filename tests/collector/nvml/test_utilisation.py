"""How busy a card was, from the driver's own samples: each once, on whichever clock it stamps them."""

import pynvml
import pytest

from collector.ranges import refuse_garbage
from domain.samples import Basis, DeviceReading, FieldState
from domain.series import GPU_BUSY, GPU_COMPUTE, GPU_MEMORY_BUSY
from tests.collector.nvml.value_rig import START_US, ValueRig, state_of

GPU, MEMORY = pynvml.NVML_GPU_UTILIZATION_SAMPLES, pynvml.NVML_MEMORY_UTILIZATION_SAMPLES
SAMPLED, RATE = Basis("nvml", "sampled"), Basis("nvml", "rate")


def _at(milliseconds: int) -> int:
    return START_US + milliseconds * 1_000


def test_the_samples_of_the_second_are_averaged_and_used_once(values: ValueRig) -> None:
    uuid = values.fake.card(0, busy_percent=99)
    values.fake.samples(uuid, GPU, [(_at(-2_000), 100), (_at(200), 20), (_at(400), 40), (_at(1_000), 60)])
    values.fake.samples(uuid, MEMORY, [(_at(1_000), 8)])
    card = values.card(uuid)

    said = values.after(card)
    assert (said.values[GPU_BUSY], said.values[GPU_MEMORY_BUSY]) == (0.4, 0.08)
    assert (said.bases[GPU_BUSY], said.bases[GPU_MEMORY_BUSY]) == (SAMPLED, SAMPLED)

    values.fake.samples(
        uuid, GPU, [(_at(200), 20), (_at(400), 40), (_at(1_000), 60), (_at(1_500), 10), (_at(2_000), 30)]
    )
    assert values.after(card).values[GPU_BUSY] == 0.2


def test_after_a_silence_a_value_is_of_its_own_second(values: ValueRig) -> None:
    uuid = values.fake.card(0)
    values.fake.samples(uuid, GPU, [(_at(100 * step), 100 if step < 80 else 50) for step in range(1, 101)])
    card = values.card(uuid)

    assert values.after(card, 10).values[GPU_BUSY] == 0.5


def test_stamps_of_the_time_since_boot_are_recognised(values: ValueRig) -> None:
    """R12: stamps of 1.2e11 while the epoch is at 1.8e15."""
    uuid = values.fake.card(0)
    with values.fake.state.writing() as world:
        world.samples_on_boot_clock = 1
    values.advance(120_000)
    values.fake.samples(uuid, GPU, [(_at(119_990_000), 90), (_at(120_000_500), 30), (_at(120_001_000), 50)])
    card = values.card(uuid)

    said = values.after(card)

    assert (said.values[GPU_BUSY], said.bases[GPU_BUSY]) == (0.4, SAMPLED)


def test_stamps_of_no_clock_that_is_known_are_not_used(values: ValueRig) -> None:
    uuid = values.fake.card(0, busy_percent=7)
    values.fake.samples(uuid, GPU, [(START_US * 1_000, 90)])

    said = values.after(values.card(uuid))

    assert (said.values[GPU_BUSY], said.bases[GPU_BUSY]) == (0.07, RATE)


def test_an_idle_card_without_samples_is_at_0(values: ValueRig) -> None:
    """R13: NOT_FOUND is neither an error nor missing where the rate answers."""
    said = values.after(values.card(values.fake.card(0)))

    assert (said.values[GPU_BUSY], said.values[GPU_MEMORY_BUSY]) == (0, 0)
    assert said.bases[GPU_BUSY] == RATE


def test_a_card_whose_samples_and_rate_fail_has_no_ratio(values: ValueRig) -> None:
    """R13: NOT_FOUND alone is no 0."""
    uuid = values.fake.card(0)
    values.fake.fault(pynvml.NVML_ERROR_UNKNOWN, "nvmlDeviceGetUtilizationRates")

    said = values.after(values.card(uuid))

    assert state_of(said, GPU_BUSY) is FieldState.ERROR
    assert state_of(said, GPU_COMPUTE) is FieldState.ERROR


@pytest.mark.parametrize("garbage", [808_334_905, 4_294_967_295, 101])
def test_a_sample_that_no_card_can_have_is_refused_and_not_averaged_away(values: ValueRig, garbage: int) -> None:
    """R1: one among good ones leaves a hole that is counted, and is not clamped to 100."""
    uuid = values.fake.card(0)
    values.fake.samples(uuid, GPU, [(_at(10 * step), 40) for step in range(1, 100)] + [(_at(1_000), garbage)])

    said = values.after(values.card(uuid))
    checked = refuse_garbage(DeviceReading(uuid, None, said.values, {}, missing=said.missing))

    assert checked.refused == (GPU_BUSY,)
    assert checked.reading.missing[GPU_BUSY] is FieldState.GARBAGE
    assert state_of(said, GPU_COMPUTE) is FieldState.GARBAGE


def test_the_samples_go_on_after_the_wall_clock_was_set_back(values: ValueRig) -> None:
    """Asked for what is newer than its own future, the driver has nothing; it is asked for everything then."""
    uuid = values.fake.card(0)
    card = values.card(uuid)
    values.fake.samples(uuid, GPU, [(_at(900), 80)])
    assert values.after(card).values[GPU_BUSY] == 0.8

    values.clock.advance_us(-3_600_000_000)
    values.fake.set_clock(values.clock.now_us())
    values.fake.samples(uuid, GPU, [(values.clock.now_us() + 500_000, 30)])
    values.after(card)
    values.fake.samples(uuid, GPU, [(values.clock.now_us() + 500_000, 60)])

    assert values.after(card).values[GPU_BUSY] == 0.6


def test_a_card_that_its_driver_scrubs_is_not_busy_for_anybody(values: ValueRig) -> None:
    """R14: ECC is on, no process is there, the driver was just loaded."""
    uuid = values.fake.card(0, "NVIDIA A100-SXM4-80GB", busy_percent=100, memory_percent=90)
    card = values.card(uuid)

    said = values.after(card)
    assert state_of(said, GPU_BUSY) is FieldState.NOT_READY
    assert state_of(said, GPU_MEMORY_BUSY) is FieldState.NOT_READY
    assert state_of(said, GPU_COMPUTE) is FieldState.NOT_READY

    values.fake.process(uuid, 4_242, 1)
    assert values.after(card).values[GPU_BUSY] == 1, "from the first process on it is someone's"


def test_scrubbing_is_over_after_half_a_minute(values: ValueRig) -> None:
    """R14: what is busy then is, whoever does it."""
    uuid = values.fake.card(0, "NVIDIA A100-SXM4-80GB", busy_percent=100)
    card = values.card(uuid)

    assert values.after(card, 29).values[GPU_BUSY] is None
    assert values.after(card, 2).values[GPU_BUSY] == 1


@pytest.mark.parametrize("call", ["nvmlDeviceGetEccMode", "nvmlDeviceGetComputeRunningProcesses_v3"])
def test_scrubbing_is_not_assumed_where_ecc_or_processes_are_not_told(values: ValueRig, call: str) -> None:
    """R14."""
    uuid = values.fake.card(0, "NVIDIA A100-SXM4-80GB", busy_percent=100)
    values.fake.fault(pynvml.NVML_ERROR_NO_PERMISSION, call)

    assert values.after(values.card(uuid)).values[GPU_BUSY] == 1
