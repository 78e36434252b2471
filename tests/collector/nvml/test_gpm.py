"""Performance metrics of Hopper and later: two samples in turns, each metric with its own answer."""

import math
import struct
from collections.abc import Callable
from pathlib import Path

import pynvml
import pytest

from collector.nvml.values.counters import CardCounters
from collector.ranges import refuse_garbage
from domain.samples import Basis, DeviceReading, FieldState
from domain.series import (
    GPU_BUSY,
    GPU_COMPUTE,
    GPU_DRAM_ACTIVE,
    GPU_FP16_ACTIVE,
    GPU_FP32_ACTIVE,
    GPU_FP64_ACTIVE,
    GPU_GR_ACTIVE,
    GPU_MEMORY_USED,
    GPU_SM_ACTIVE,
    GPU_SM_ACTIVE_CYCLES,
    GPU_SM_ELAPSED_CYCLES,
    GPU_SM_OCCUPANCY,
    GPU_TENSOR_ACTIVE,
)
from domain.units import MIB
from tests.collector.nvml.value_rig import ValueRig, number, state_of
from tests.fakes.nvml.driver import Can, FakeDriver

H100 = "NVIDIA H100 80GB HBM3"
SM_ACTIVE = pynvml.NVML_GPM_METRIC_SM_UTIL
BUSY = Basis("nvml", "busy")


def _bits(number: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", number))[0])


def test_ratios_are_of_the_second_between_two_samples(values: ValueRig) -> None:
    uuid = values.fake.card(0, H100)
    values.fake.gpm(uuid, {1: 900, 2: 437, 3: 250, 5: 125, 10: 500, 11: 10, 12: 20, 13: 30})
    card = values.card(uuid)

    first = values.after(card)
    assert state_of(first, GPU_SM_ACTIVE) is FieldState.NOT_READY
    assert state_of(first, GPU_COMPUTE) is FieldState.NOT_READY, "a second by another measure would be charged by it"

    said = values.after(card)
    expected = {
        GPU_GR_ACTIVE: 0.9,
        GPU_SM_ACTIVE: 0.437,
        GPU_SM_OCCUPANCY: 0.25,
        GPU_TENSOR_ACTIVE: 0.125,
        GPU_DRAM_ACTIVE: 0.5,
        GPU_FP64_ACTIVE: 0.01,
        GPU_FP32_ACTIVE: 0.02,
        GPU_FP16_ACTIVE: 0.03,
    }
    assert {series: said.values[series] for series in expected} == pytest.approx(expected)
    assert said.values[GPU_COMPUTE] == said.values[GPU_SM_ACTIVE]
    assert said.bases[GPU_COMPUTE] == Basis("nvml", "sm_active")

    values.fake.gpm(uuid, {2: 1_000})
    assert values.after(card).values[GPU_SM_ACTIVE] == pytest.approx(1), "nothing of the second before is in it"


def test_two_samples_serve_for_ever_and_are_freed(values: ValueRig) -> None:
    uuid = values.fake.card(0, H100)
    card = values.card(uuid)
    for _ in range(20):
        values.after(card)
    assert values.fake.opened().gpm_samples == 2
    assert values.fake.calls("nvmlGpmSampleAlloc") == 2

    card.close()
    assert values.fake.opened().gpm_samples == 0
    assert state_of(values.after(card), GPU_SM_ACTIVE) is FieldState.NOT_READY


@pytest.mark.parametrize("seconds", [0.3, 601])
def test_a_window_that_is_too_short_or_too_long_is_not_used(values: ValueRig, seconds: float) -> None:
    uuid = values.fake.card(0, H100)
    values.fake.gpm(uuid, {2: 500})
    card = values.card(uuid)
    values.after(card)
    values.after(card)

    assert state_of(values.after(card, seconds), GPU_SM_ACTIVE) is FieldState.NOT_READY
    assert values.after(card).values[GPU_SM_ACTIVE] == pytest.approx(0.5)


def test_a_window_goes_over_a_second_without_a_sample(values: ValueRig) -> None:
    uuid = values.fake.card(0, H100)
    values.fake.gpm(uuid, {2: 1_000})
    card = values.card(uuid)
    values.after(card)
    fault = values.fake.fault(pynvml.NVML_ERROR_UNKNOWN, "nvmlGpmSampleGet")
    assert state_of(values.after(card), GPU_SM_ACTIVE) is FieldState.ERROR
    fault.take_back()
    values.fake.gpm(uuid, {2: 0})

    assert values.after(card).values[GPU_SM_ACTIVE] == pytest.approx(0.5)


def test_a_metric_that_fails_is_missing_and_the_others_stay(values: ValueRig) -> None:
    uuid = values.fake.card(0, H100)
    values.fake.gpm(uuid, {2: 500, 10: 250})
    card = values.card(uuid)
    values.after(card)
    values.after(card)
    values.fake.fault(pynvml.NVML_ERROR_NO_DATA, "nvmlGpmMetricsGet", uuid, entry=SM_ACTIVE)

    said = values.after(card)

    assert state_of(said, GPU_SM_ACTIVE) is FieldState.NOT_READY
    assert said.values[GPU_DRAM_ACTIVE] == pytest.approx(0.25)


@pytest.mark.parametrize("no_number", [math.nan, math.inf])
def test_not_a_number_is_missing(values: ValueRig, no_number: float) -> None:
    uuid = values.fake.card(0, H100)
    card = values.card(uuid)
    values.after(card)
    values.fake.fault(0, "nvmlGpmMetricsGet", uuid, entry=SM_ACTIVE, garbage=_bits(no_number))

    assert state_of(values.after(card), GPU_SM_ACTIVE) is FieldState.NOT_READY


@pytest.mark.parametrize(("permille", "capped"), [(1_050, 1), (1_001, 1), (1_000, 0)])
def test_a_ratio_a_little_above_1_is_1_and_counted(values: ValueRig, permille: int, capped: int) -> None:
    """R4."""
    uuid, counters = values.fake.card(0, H100), CardCounters()
    values.fake.gpm(uuid, {2: permille})
    card = values.card(uuid, counters=counters)
    values.after(card)

    said = values.after(card)

    assert (said.values[GPU_SM_ACTIVE], said.values[GPU_COMPUTE]) == (1, 1)
    assert counters.capped.get(GPU_SM_ACTIVE, 0) == capped


def test_a_ratio_far_above_1_is_garbage_and_counted(values: ValueRig) -> None:
    """R4: 1.294 on a MIG instance."""
    card = values.fake.card(0, H100, mig_mode=1)
    uuid = values.fake.instance(0, 0, "1g.10gb", gi_id=9)
    values.fake.gpm(uuid, {1: 500, 2: 1_294})
    instance = values.instance(card, uuid, 9)
    values.after(instance)

    said = values.after(instance)
    checked = refuse_garbage(DeviceReading(card, uuid, said.values, {}, missing=said.missing))

    assert said.values[GPU_SM_ACTIVE] == pytest.approx(1.294), "handed on as it was said, to be counted"
    assert checked.refused == (GPU_SM_ACTIVE,)
    assert state_of(said, GPU_COMPUTE) is FieldState.GARBAGE


def test_a_profiler_that_has_the_counters_is_named(values: ValueRig) -> None:
    """L8: what is billed goes by busy then, and says so."""
    uuid = values.fake.card(0, H100, busy_percent=80)
    card = values.card(uuid)
    values.after(card)
    values.fake.process(uuid, 7, 1)
    values.fake.fault(pynvml.NVML_ERROR_IN_USE, "nvmlGpmSampleGet")

    said = values.after(card)

    assert state_of(said, GPU_SM_ACTIVE) is FieldState.PROFILER_BUSY
    assert (said.values[GPU_COMPUTE], said.bases[GPU_COMPUTE]) == (0.8, BUSY)


def test_a_card_without_metrics_is_not_asked_for_samples(values: ValueRig) -> None:
    """L10: a GeForce says so once."""
    card = values.card(values.fake.card(0))
    for _ in range(5):
        said = values.after(card)

    assert state_of(said, GPU_SM_ACTIVE) is FieldState.UNSUPPORTED
    assert values.fake.calls("nvmlGpmQueryDeviceSupport") == 1
    assert values.fake.calls("nvmlGpmSampleGet") == 0
    assert values.fake.calls("nvmlGpmSampleAlloc") == 0


def test_cycles_are_told_where_the_driver_counts_them(values: ValueRig) -> None:
    uuid = values.fake.card(0, H100)
    values.fake.allow(uuid, Can.GPM_COUNTERS)
    values.fake.gpm(uuid, {2: 500})
    card = values.card(uuid)
    values.after(card)

    first, second = values.after(card), values.after(card)

    elapsed = [number(said, GPU_SM_ELAPSED_CYCLES) for said in (first, second)]
    active = [number(said, GPU_SM_ACTIVE_CYCLES) for said in (first, second)]
    assert elapsed[1] - elapsed[0] == pytest.approx(132 * 1_980_000_000)
    assert active[1] - active[0] == pytest.approx(132 * 990_000_000)


def test_a_driver_older_than_a_metric_is_asked_for_the_others(values: ValueRig) -> None:
    """It refuses a whole request with a number that it does not know."""
    uuid = values.fake.card(0, H100)
    values.fake.gpm(uuid, {2: 500})
    for metric in (248, 249, 255, 256):
        values.fake.fault(pynvml.NVML_ERROR_INVALID_ARGUMENT, "nvmlGpmMetricsGet", uuid, entry=metric)
    card = values.card(uuid)
    values.after(card)

    said = values.after(card)

    assert said.values[GPU_SM_ACTIVE] == pytest.approx(0.5)
    assert state_of(said, GPU_SM_ELAPSED_CYCLES) is FieldState.UNSUPPORTED


def test_a_library_without_the_functions_has_no_metrics(
    use_driver: Callable[[Path], FakeDriver], build_nvml: Callable[..., Path], tmp_path: Path
) -> None:
    """A driver before 520."""
    functions = ["nvmlGpmQueryDeviceSupport", "nvmlGpmSampleGet", "nvmlGpmMetricsGet"]
    fake = use_driver(build_nvml(tmp_path, without=functions))
    rig = ValueRig(fake)
    card = rig.card(fake.card(0, H100))

    assert state_of(rig.after(card), GPU_SM_ACTIVE) is FieldState.UNSUPPORTED
    rig.close()


def test_an_instance_has_its_own_metrics_and_memory(values: ValueRig) -> None:
    """M9: memory by the MIG handle. R7: no energy, no power of an instance."""
    card = values.fake.card(0, H100, mig_mode=1)
    uuids = [values.fake.instance(0, row, "1g.10gb", gi_id=7 + row, used=(row + 1) * MIB) for row in range(2)]
    instances = [values.instance(card, uuid, 7 + row) for row, uuid in enumerate(uuids)]
    for uuid, permille in zip(uuids, (250, 750), strict=True):
        values.fake.gpm(uuid, {1: permille, 2: permille // 2})
    values.advance()
    for instance in instances:
        instance.read()
    values.advance()

    said = [instance.read() for instance in instances]

    assert [each.values[GPU_MEMORY_USED] for each in said] == [MIB, 2 * MIB]
    assert [each.values[GPU_GR_ACTIVE] for each in said] == pytest.approx([0.25, 0.75])
    assert [each.values[GPU_COMPUTE] for each in said] == pytest.approx([0.125, 0.375])
    assert all(state_of(each, GPU_BUSY) is FieldState.UNSUPPORTED for each in said)
    assert not any(series.name.startswith(("gpu_energy", "gpu_power")) for each in said for series in each.values)


def test_no_value_spans_two_instances_of_one_number(values: ValueRig) -> None:
    """M2: what is made for the new one starts with a sample of its own."""
    card = values.fake.card(0, H100, mig_mode=1)
    old = values.fake.instance(0, 0, "1g.10gb", gi_id=9)
    values.fake.gpm(old, {2: 1_000})
    of_old = values.instance(card, old, 9)
    values.after(of_old)
    values.after(of_old)
    of_old.close()
    values.fake.destroy_instance(old)
    new = values.fake.instance(0, 0, "1g.10gb", gi_id=9)
    values.fake.gpm(new, {2: 100})
    of_new = values.instance(card, new, 9)

    assert state_of(values.after(of_new), GPU_SM_ACTIVE) is FieldState.NOT_READY
    assert values.after(of_new).values[GPU_SM_ACTIVE] == pytest.approx(0.1)


def test_an_instance_without_a_compute_instance_has_no_data(values: ValueRig) -> None:
    card = values.fake.card(0, H100, mig_mode=1)
    uuid = values.fake.instance(0, 0, "1g.10gb", gi_id=9)
    instance = values.instance(card, uuid, 9)
    values.after(instance)
    values.fake.fault(pynvml.NVML_ERROR_NO_DATA, "nvmlGpmMigSampleGet")

    assert state_of(values.after(instance), GPU_SM_ACTIVE) is FieldState.NOT_READY


def test_metrics_are_not_ready_while_another_card_has_the_turn(values: ValueRig) -> None:
    """They wait for their own next second; everything else of the card is told."""
    uuid = values.fake.card(0, H100, celsius=50)
    card = values.card(uuid)
    values.after(card)
    turn = values.nvml.gpm_turn.take()
    assert turn is not None

    said = values.after(card)

    assert state_of(said, GPU_SM_ACTIVE) is FieldState.NOT_READY
    values.nvml.gpm_turn.give(turn)
    assert values.after(card).values[GPU_SM_ACTIVE] == 0
