"""Which of two sources tells a series."""

import pytest

from domain.samples import Basis, FieldState
from domain.series import GPU_BUSY, GPU_COMPUTE, GPU_ECC_CORRECTED, GPU_LAST_XID, GPU_POWER, GPU_SM_ACTIVE, GPU_UP
from tests.collector.dcgm.choice_seconds import ChoiceSeconds, dcgm_says, nvml_says


def test_nvml_comes_first_where_both_speak(after: ChoiceSeconds) -> None:
    reading = after(nvml_says({GPU_POWER: 300.5, GPU_BUSY: 0.9}), dcgm_says({GPU_POWER: 300.0, GPU_BUSY: 0.8}))

    assert reading.values == {GPU_UP: 1, GPU_POWER: 300.5, GPU_BUSY: 0.9}
    assert reading.bases[GPU_POWER] == Basis("nvml", "current")


def test_what_nvml_says_of_its_values_is_kept(after: ChoiceSeconds) -> None:
    reading = after(nvml_says({GPU_BUSY: 0.9}, bases={GPU_BUSY: Basis("nvml", "sampled")}), None)

    assert reading.bases[GPU_BUSY] == Basis("nvml", "sampled")


def test_sm_active_of_an_a100_is_dcgms_and_compute_with_it(after: ChoiceSeconds) -> None:
    """NVML has no counters of the SMs before Hopper; both bases are said."""
    nvml = nvml_says({GPU_BUSY: 0.9, GPU_SM_ACTIVE: FieldState.UNSUPPORTED, GPU_COMPUTE: 0.9})

    reading = after(nvml, dcgm_says({GPU_BUSY: 0.8, GPU_SM_ACTIVE: 0.3, GPU_COMPUTE: 0.3}))

    assert reading.values[GPU_SM_ACTIVE] == 0.3
    assert reading.values[GPU_BUSY] == 0.9
    assert (reading.values[GPU_COMPUTE], reading.bases[GPU_COMPUTE]) == (0.3, Basis("dcgm_engine", "sm_active"))
    assert GPU_SM_ACTIVE not in reading.missing


def test_a_busy_ratio_that_only_dcgm_tells_is_what_compute_is_measured_by(after: ChoiceSeconds) -> None:
    """With the exporter's default counters there is no SM-active; NVML has no compute of what it cannot tell."""
    nvml = nvml_says(dict.fromkeys((GPU_BUSY, GPU_SM_ACTIVE, GPU_COMPUTE), FieldState.UNSUPPORTED))

    reading = after(nvml, dcgm_says({GPU_BUSY: 0.8, GPU_COMPUTE: 0.8}))

    assert (reading.values[GPU_COMPUTE], reading.bases[GPU_COMPUTE]) == (0.8, Basis("dcgm_engine", "busy"))
    assert GPU_COMPUTE not in reading.missing


def test_sm_active_of_an_h100_is_nvmls(after: ChoiceSeconds) -> None:
    """One that is not ready in its first second is waited for: DCGM would be left again at once."""
    first = after(nvml_says({GPU_SM_ACTIVE: FieldState.NOT_READY}), dcgm_says({GPU_SM_ACTIVE: 0.3}))
    then = after(nvml_says({GPU_SM_ACTIVE: 0.31}), dcgm_says({GPU_SM_ACTIVE: 0.3}))

    assert first.values[GPU_SM_ACTIVE] is None
    assert first.missing[GPU_SM_ACTIVE] is FieldState.NOT_READY
    assert (then.values[GPU_SM_ACTIVE], then.bases[GPU_SM_ACTIVE].source) == (0.31, "nvml")


@pytest.mark.parametrize("seconds_before", [0, 5])
def test_r14_a_card_at_work_for_its_driver_is_not_busy_by_dcgm(after: ChoiceSeconds, seconds_before: int) -> None:
    """R14: NVML says that it is not ready for half a minute after the driver was loaded; DCGM knows no better."""
    dcgm = dcgm_says({GPU_BUSY: 0.8})
    if seconds_before:
        after(nvml_says({GPU_BUSY: 0.9}), dcgm, seconds_before)

    told = [after(nvml_says({GPU_BUSY: FieldState.NOT_READY}), dcgm) for _ in range(30)]
    then = after(nvml_says({GPU_BUSY: 0.1}), dcgm)

    assert {reading.values[GPU_BUSY] for reading in told} == {None}
    assert {reading.missing[GPU_BUSY] for reading in told} == {FieldState.NOT_READY}
    assert (then.values[GPU_BUSY], then.bases[GPU_BUSY].source) == (0.1, "nvml")


def test_what_only_one_of_them_knows_is_its_own(after: ChoiceSeconds) -> None:
    """NVML never speaks of the last XID; what it asks once a minute is waited for longer than that."""
    nvml, dcgm = nvml_says({GPU_POWER: 300}), dcgm_says({GPU_LAST_XID: 31})

    assert after(nvml, dcgm).values.get(GPU_LAST_XID) is None
    assert after(nvml, dcgm, 66).values[GPU_LAST_XID] == 31


def test_a_series_that_is_told_once_a_minute_keeps_its_source(after: ChoiceSeconds) -> None:
    counts = nvml_says({GPU_POWER: 300, GPU_ECC_CORRECTED: 5})
    quiet = nvml_says({GPU_POWER: 300})
    dcgm = dcgm_says({GPU_ECC_CORRECTED: 4})

    told = [after(counts if second % 60 == 0 else quiet, dcgm) for second in range(180)]

    assert [reading.values[GPU_ECC_CORRECTED] for reading in told if GPU_ECC_CORRECTED in reading.values] == [5] * 3
    assert not any(GPU_ECC_CORRECTED in reading.missing for reading in told)


def test_a_card_that_answers_one_of_them_is_up(after: ChoiceSeconds) -> None:
    after(nvml_says({GPU_POWER: 1}), dcgm_says({GPU_POWER: 1}))

    assert after(None, dcgm_says({GPU_POWER: 1})).values[GPU_UP] == 1


def test_nothing_that_changes_is_the_same_object(after: ChoiceSeconds) -> None:
    nvml, dcgm = nvml_says({GPU_POWER: 300, GPU_SM_ACTIVE: FieldState.UNSUPPORTED}), dcgm_says({GPU_SM_ACTIVE: 0.5})
    before, now = after(nvml, dcgm, 3), after(nvml, dcgm)

    assert before.missing is now.missing
    assert before.bases is now.bases
