"""What a card can tell is found field by field; what it cannot is told why, and not asked for every second."""

import pynvml
import pytest

from collector.nvml.driver import CardLostError, DriverGoneError
from domain.samples import Basis, FieldState
from domain.series import (
    GPU_BUSY,
    GPU_CLOCK_EVENT,
    GPU_COMPUTE,
    GPU_DECODER_BUSY,
    GPU_ENCODER_BUSY,
    GPU_ENERGY,
    GPU_GR_ACTIVE,
    GPU_JPEG_BUSY,
    GPU_MEMORY_BUSY,
    GPU_MEMORY_CLOCK,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_TEMPERATURE,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_NVLINK_RECEIVED,
    GPU_OFA_BUSY,
    GPU_PCIE_RECEIVED,
    GPU_POWER,
    GPU_POWER_INSTANT,
    GPU_SM_ACTIVE,
    GPU_SM_CLOCK,
    GPU_TEMPERATURE,
    GPU_THROTTLE,
)
from domain.units import MIB
from tests.collector.nvml.value_rig import ValueRig, number, state_of
from tests.fakes.nvml.driver import Can


def test_a_4090_is_read_in_base_units_and_says_what_it_has_not(values: ValueRig) -> None:
    uuid = values.fake.card(
        0,
        used=1_200 * MIB,
        busy_percent=87,
        memory_percent=31,
        encoder_percent=5,
        decoder_percent=6,
        jpeg_percent=7,
        ofa_percent=8,
        milliwatts=312_450,
        milliwatts_instant=333_000,
        millijoules=952_494,
        celsius=61,
        sm_megahertz=2_520,
        memory_megahertz=10_501,
    )

    said = values.card(uuid).read()

    assert {series: value for series, value in said.values.items() if value is not None} == {
        GPU_MEMORY_TOTAL: 24_564 * MIB,
        GPU_MEMORY_RESERVED: 340 * MIB,
        GPU_MEMORY_USED: 1_200 * MIB,
        GPU_BUSY: 0.87,
        GPU_MEMORY_BUSY: 0.31,
        GPU_ENCODER_BUSY: 0.05,
        GPU_DECODER_BUSY: 0.06,
        GPU_JPEG_BUSY: 0.07,
        GPU_OFA_BUSY: 0.08,
        GPU_POWER: 312.45,
        GPU_POWER_INSTANT: 333,
        GPU_ENERGY: 952.494,
        GPU_TEMPERATURE: 61,
        GPU_SM_CLOCK: 2_520_000_000,
        GPU_MEMORY_CLOCK: 10_501_000_000,
        GPU_COMPUTE: 0.87,
    }
    for series in (GPU_SM_ACTIVE, GPU_GR_ACTIVE, GPU_MEMORY_TEMPERATURE, GPU_PCIE_RECEIVED, GPU_NVLINK_RECEIVED):
        assert state_of(said, series) is FieldState.UNSUPPORTED


def test_reserved_memory_explains_what_used_and_free_fall_short(values: ValueRig) -> None:
    """R6: 24576 in all, 1200 used, 22800 free: 576 MiB are the driver's."""
    uuid = values.fake.card(0, total=24_576 * MIB, reserved=576 * MIB, used=1_200 * MIB)

    said = values.card(uuid).read()

    used, reserved = number(said, GPU_MEMORY_USED), number(said, GPU_MEMORY_RESERVED)
    assert (used, reserved) == (1_200 * MIB, 576 * MIB)
    assert number(said, GPU_MEMORY_TOTAL) == used + reserved + 22_800 * MIB


def test_a_0_of_what_cannot_be_0_is_no_answer(values: ValueRig) -> None:
    """R5: some drivers say 0 of what others say is not supported."""
    uuid = values.fake.card(0, "any", memory_celsius=0, milliwatts=0)

    said = values.card(uuid).read()

    assert state_of(said, GPU_MEMORY_TEMPERATURE) is FieldState.UNSUPPORTED
    assert state_of(said, GPU_POWER) is state_of(said, GPU_POWER_INSTANT) is FieldState.UNSUPPORTED


@pytest.mark.parametrize("garbage", [2**64 - 1, 2**32 - 1])
def test_what_the_header_calls_not_available_is_no_number(values: ValueRig, garbage: int) -> None:
    uuid = values.fake.card(0, "any")
    for field in (82, 74, 138):
        values.fake.fault(0, "nvmlDeviceGetFieldValues", entry=field, garbage=garbage)
    values.fake.fault(0, "nvmlDeviceGetCurrentClocksEventReasons", garbage=2**64 - 1)
    values.fake.link(uuid, 0)

    said = values.card(uuid).read()

    assert state_of(said, GPU_MEMORY_TEMPERATURE) is FieldState.UNSUPPORTED
    assert state_of(said, GPU_CLOCK_EVENT) is FieldState.UNSUPPORTED
    if garbage == 2**64 - 1:
        assert "sw_power_cap" not in said.parts[GPU_THROTTLE]


def test_cards_of_one_node_are_asked_each_what_it_can(values: ValueRig) -> None:
    """M5: a 4090 beside an A100 and an H100: one schema, each with its own gaps."""
    names = ("NVIDIA GeForce RTX 4090", "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3")
    said = [values.card(values.fake.card(index, name)).read() for index, name in enumerate(names)]

    assert [(state_of(each, GPU_MEMORY_TEMPERATURE), state_of(each, GPU_SM_ACTIVE)) for each in said] == [
        (FieldState.UNSUPPORTED, FieldState.UNSUPPORTED),
        (None, FieldState.UNSUPPORTED),
        (None, FieldState.NOT_READY),
    ]


CALLS = ["nvmlDeviceGetJpgUtilization", "nvmlGpmQueryDeviceSupport", "nvmlDeviceGetTotalEnergyConsumption"]


@pytest.mark.parametrize("call", CALLS)
def test_what_is_not_supported_is_asked_again_after_ten_minutes_only(values: ValueRig, call: str) -> None:
    """L10: one failure of a call that the card lacks, not one a second; its state stays published meanwhile."""
    uuid = values.fake.card(0)
    fault = values.fake.fault(pynvml.NVML_ERROR_NOT_SUPPORTED, call)
    card = values.card(uuid)
    first = card.read()
    for _ in range(598):
        said = values.after(card)
    assert fault.hits == 1
    assert said.missing == first.missing

    values.after(card, 2)
    assert fault.hits == 2

    values.card(uuid).read()
    assert fault.hits == 3, "a new handle is asked anew"


def test_a_field_that_is_not_supported_is_left_out_of_the_one_call(values: ValueRig) -> None:
    """L10: a driver older than a field says INVALID_ARGUMENT of it."""
    uuid = values.fake.card(0, "any", memory_celsius=70)
    fault = values.fake.fault(pynvml.NVML_ERROR_INVALID_ARGUMENT, "nvmlDeviceGetFieldValues", entry=82)
    card = values.card(uuid)
    card.read()
    for _ in range(10):
        said = values.after(card)

    assert fault.hits == 1
    assert values.fake.calls("nvmlDeviceGetFieldValues") == 11
    assert state_of(said, GPU_MEMORY_TEMPERATURE) is FieldState.UNSUPPORTED

    fault.take_back()
    values.advance(600)
    assert card.read().values[GPU_MEMORY_TEMPERATURE] == 70


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (pynvml.NVML_ERROR_NO_PERMISSION, FieldState.NO_PERMISSION),
        (pynvml.NVML_ERROR_NOT_READY, FieldState.NOT_READY),
        (pynvml.NVML_ERROR_UNKNOWN, FieldState.ERROR),
    ],
)
def test_what_failed_for_now_is_asked_again_in_the_next_second(values: ValueRig, code: int, state: FieldState) -> None:
    uuid = values.fake.card(0, "any", celsius=55, memory_celsius=70)
    faults = [
        values.fake.fault(code, "nvmlDeviceGetTemperature"),
        values.fake.fault(code, "nvmlDeviceGetFieldValues", entry=82),
    ]
    card = values.card(uuid)
    for _ in range(3):
        said = values.after(card)
        assert state_of(said, GPU_TEMPERATURE) is state
        assert state_of(said, GPU_MEMORY_TEMPERATURE) is state
    assert [fault.hits for fault in faults] == [3, 3]

    values.fake.clear_faults()
    said = values.after(card)
    assert (said.values[GPU_TEMPERATURE], said.values[GPU_MEMORY_TEMPERATURE]) == (55, 70)


def test_reasons_and_bases_are_the_same_object_while_nothing_changes(values: ValueRig) -> None:
    """They are told anew only where they change; a mapping that is the same needs no comparing."""
    uuid = values.fake.card(0, "NVIDIA H100 80GB HBM3", millijoules=1)
    card = values.card(uuid)
    card.read()
    second = values.after(card)
    third = values.after(card)
    assert third.missing is second.missing
    assert third.bases is second.bases

    values.fake.fault(pynvml.NVML_ERROR_UNKNOWN, "nvmlDeviceGetTemperature")
    fourth = values.after(card)
    assert fourth.missing is not third.missing
    assert fourth.bases is third.bases


def test_the_call_that_blocks_is_never_made(values: ValueRig) -> None:
    """nvmlDeviceGetPcieThroughput counts for 20 ms in each direction."""
    card = values.card(values.fake.card(0))
    for _ in range(3):
        values.after(card)

    assert values.fake.calls("nvmlDeviceGetPcieThroughput") == 0


@pytest.mark.parametrize("call", ["nvmlDeviceGetFieldValues", "nvmlGpmMetricsGet", "nvmlDeviceGetSamples"])
def test_a_lost_card_is_lost_whichever_question_finds_it(values: ValueRig, call: str) -> None:
    """L1."""
    card = values.card(values.fake.card(0, "NVIDIA H100 80GB HBM3"))
    values.after(card)
    values.fake.fault(pynvml.NVML_ERROR_GPU_IS_LOST, call)

    with pytest.raises(CardLostError):
        values.after(card)


@pytest.mark.parametrize(("call", "entry"), [("nvmlDeviceGetFieldValues", 82), ("nvmlGpmMetricsGet", 2)])
def test_a_card_is_lost_also_where_one_of_many_values_says_so(values: ValueRig, call: str, entry: int) -> None:
    uuid = values.fake.card(0, "NVIDIA H100 80GB HBM3")
    card = values.card(uuid)
    values.after(card)
    values.fake.fault(pynvml.NVML_ERROR_GPU_IS_LOST, call, uuid, entry=entry)

    with pytest.raises(CardLostError):
        values.after(card)


def test_a_driver_that_is_gone_is_no_missing_value(values: ValueRig) -> None:
    card = values.card(values.fake.card(0))
    values.fake.unload()

    with pytest.raises(DriverGoneError):
        values.after(card)


def test_clock_events_are_told_one_by_one_as_0_and_1(values: ValueRig) -> None:
    uuid = values.fake.card(0, "any", clock_event_reasons=0x004 | 0x040)

    reasons = values.card(uuid).read().parts[GPU_CLOCK_EVENT]

    assert {reason for reason, is_active in reasons.items() if is_active} == {"sw_power_cap", "hw_thermal_slowdown"}
    assert set(reasons.values()) == {0, 1}


def test_clock_events_have_another_name_in_older_drivers(values: ValueRig) -> None:
    uuid = values.fake.card(0, clock_event_reasons=0x001)
    values.fake.fault(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, "nvmlDeviceGetCurrentClocksEventReasons")

    assert values.card(uuid).read().parts[GPU_CLOCK_EVENT]["gpu_idle"] == 1


def test_throttle_nanoseconds_become_seconds_by_reason(values: ValueRig) -> None:
    uuid = values.fake.card(0, "any", perf_policy_ns=[2_500_000_000], clock_event_ns=[0, 750_000_000])

    throttle = values.card(uuid).read().parts[GPU_THROTTLE]

    assert throttle["sw_power_cap"] == 2.5
    assert throttle["hw_thermal_slowdown"] == 0.75
    assert throttle["sw_thermal_slowdown"] == 0


def test_throttles_that_a_card_does_not_count_are_unsupported(values: ValueRig) -> None:
    uuid = values.fake.card(0)
    values.fake.deny(uuid, Can.PERF_POLICY)

    assert state_of(values.card(uuid).read(), GPU_THROTTLE) is FieldState.UNSUPPORTED


def test_what_a_value_means_is_said_with_it(values: ValueRig) -> None:
    """R15: a series never changes what it means silently."""
    said = values.card(values.fake.card(0, millijoules=1)).read()

    assert said.bases == {
        GPU_BUSY: Basis("nvml", "rate"),
        GPU_MEMORY_BUSY: Basis("nvml", "rate"),
        GPU_COMPUTE: Basis("nvml", "busy"),
        GPU_POWER: Basis("nvml", "average"),
        GPU_ENERGY: Basis("nvml", "counter"),
    }
