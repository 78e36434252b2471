"""What changes seldom: told once a minute, and never as something it was not."""

import pynvml

from domain.samples import FieldState
from domain.series import (
    GPU_ECC_CORRECTED,
    GPU_ECC_UNCORRECTED,
    GPU_RECOVERY_ACTION,
    GPU_REMAPPED_ROWS,
    GPU_ROW_REMAP_FAILED,
    GPU_ROW_REMAP_PENDING,
)
from tests.collector.nvml.value_rig import ValueRig, state_of

H100 = "NVIDIA H100 80GB HBM3"
SERIES = {GPU_ECC_CORRECTED, GPU_ECC_UNCORRECTED, GPU_RECOVERY_ACTION, GPU_ROW_REMAP_FAILED, GPU_ROW_REMAP_PENDING}


def test_health_is_told_in_the_second_it_is_read_in_and_not_again(values: ValueRig) -> None:
    uuid = values.fake.card(
        0,
        H100,
        ecc_corrected=[1, 12],
        ecc_uncorrected=[0, 2],
        remapped_correctable=3,
        remapped_uncorrectable=1,
        remapping_pending=1,
        recovery_action=4,
    )
    card = values.card(uuid)
    first = card.read()
    assert {series: first.values[series] for series in SERIES} == {
        GPU_ECC_CORRECTED: 12,
        GPU_ECC_UNCORRECTED: 2,
        GPU_RECOVERY_ACTION: 4,
        GPU_ROW_REMAP_FAILED: 0,
        GPU_ROW_REMAP_PENDING: 1,
    }
    assert first.parts[GPU_REMAPPED_ROWS] == {"correctable": 3, "uncorrectable": 1}

    values.fake.set(uuid, ecc_uncorrected=[0, 3], recovery_action=1)
    for _ in range(59):
        said = values.after(card)
        assert not SERIES & said.values.keys()
        assert GPU_REMAPPED_ROWS not in said.parts
    said = values.after(card)
    assert (said.values[GPU_ECC_UNCORRECTED], said.values[GPU_RECOVERY_ACTION]) == (3, 1)


def test_why_health_is_not_told_is_said_all_the_time(values: ValueRig) -> None:
    uuid = values.fake.card(0)
    card = values.card(uuid)
    for _ in range(3):
        said = values.after(card)
        for series in (*SERIES, GPU_REMAPPED_ROWS):
            assert state_of(said, series) is FieldState.UNSUPPORTED
    assert values.fake.calls("nvmlDeviceGetTotalEccErrors") == 2, "one for each kind of error"


def test_health_that_could_not_be_read_is_read_in_the_next_minute(values: ValueRig) -> None:
    uuid = values.fake.card(0, H100, ecc_corrected=[0, 5])
    fault = values.fake.fault(pynvml.NVML_ERROR_UNKNOWN, "nvmlDeviceGetTotalEccErrors")
    card = values.card(uuid)
    assert state_of(card.read(), GPU_ECC_CORRECTED) is FieldState.ERROR
    fault.take_back()
    assert state_of(values.after(card), GPU_ECC_CORRECTED) is FieldState.ERROR

    assert values.after(card, 60).values[GPU_ECC_CORRECTED] == 5


def test_a_recovery_action_that_is_no_action_is_no_number(values: ValueRig) -> None:
    uuid = values.fake.card(0, H100)
    values.fake.fault(0, "nvmlDeviceGetFieldValues", entry=230, garbage=2**64 - 1)

    assert state_of(values.card(uuid).read(), GPU_RECOVERY_ACTION) is FieldState.UNSUPPORTED
