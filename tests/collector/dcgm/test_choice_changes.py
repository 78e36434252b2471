"""When the choice of who tells a series changes: openly, after some silence, and without flapping."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from collector.field_states import FieldStates
from domain.samples import Basis, FieldState
from domain.series import (
    GPU_BASIS_INFO,
    GPU_BUSY,
    GPU_CLOCK_EVENT,
    GPU_COMPUTE,
    GPU_ECC_CORRECTED,
    GPU_ENERGY,
    GPU_NVLINK_RECEIVED,
    GPU_PCIE_RECEIVED,
    GPU_POWER,
    GPU_SM_ACTIVE,
    Series,
)
from tests.collector.dcgm.choice_seconds import WATCHED, ChoiceSeconds, dcgm_says, nvml_says


def test_a_choice_changes_after_three_silent_seconds_and_says_so_in_that_second(after: ChoiceSeconds) -> None:
    nvml, dcgm = nvml_says({GPU_POWER: 300.5}), dcgm_says({GPU_POWER: 300.0})
    states = FieldStates("node-a")
    after(nvml, dcgm, 10)

    with capture_logs() as logs:
        told = [after(None, dcgm) for _ in range(5)]

    assert [reading.values[GPU_POWER] for reading in told] == [None, None, None, 300.0, 300.0]
    assert [reading.missing.get(GPU_POWER) for reading in told] == [FieldState.ERROR] * 3 + [None, None]
    assert [reading.bases.get(GPU_POWER) for reading in told] == [None, None, None, WATCHED, WATCHED]
    (changed,) = [entry for entry in logs if entry["event"] == "source_changed"]
    assert (changed["before"], changed["after"], changed["series"]) == ("nvml", "dcgm", 1)
    assert changed["second_s"] == after.second_s - 1
    # From the last line of NVML to the first of DCGM no second is told under a basis that is not its own.
    runs = [run for run in states.runs(after.second_s - 1, [told[3]]) if run.series is GPU_BASIS_INFO]
    assert [(run.labels["field"], run.labels["source"], run.values) for run in runs] == [
        (GPU_POWER.name, "dcgm_engine", (1,))
    ]


def test_a_failure_of_one_field_changes_that_series_only(after: ChoiceSeconds) -> None:
    dcgm = dcgm_says({GPU_POWER: 300.0, GPU_BUSY: 0.8})
    after(nvml_says({GPU_POWER: 300.5, GPU_BUSY: 0.9}), dcgm, 5)

    reading = after(nvml_says({GPU_POWER: FieldState.ERROR, GPU_BUSY: 0.9}), dcgm, 4)

    assert (reading.values[GPU_POWER], reading.values[GPU_BUSY]) == (300.0, 0.9)


def test_a_source_that_comes_back_is_chosen_again_after_a_minute(after: ChoiceSeconds) -> None:
    nvml, dcgm = nvml_says({GPU_POWER: 300.5}), dcgm_says({GPU_POWER: 300.0})
    after(nvml, dcgm, 5)
    after(None, dcgm, 10)

    told = [after(nvml, dcgm).values[GPU_POWER] for _ in range(70)]

    assert told == [300.0] * 60 + [300.5] * 10


_QUIET = nvml_says({GPU_POWER: 300.5})


def test_what_is_told_once_a_minute_returns_with_the_first_value_after_a_minute(after: ChoiceSeconds) -> None:
    """That a source does not speak of it in all other seconds does not say that it is away."""
    counts, dcgm = nvml_says({GPU_ECC_CORRECTED: 40}), dcgm_says({GPU_ECC_CORRECTED: 40})
    after(counts, dcgm)
    after(None, dcgm, 10)

    told = [after(counts if second % 60 == 30 else _QUIET, dcgm).bases for second in range(180)]

    sources = [bases[GPU_ECC_CORRECTED].source if GPU_ECC_CORRECTED in bases else None for bases in told]
    assert sources == ["dcgm_engine"] * 90 + ["nvml"] + [None] * 59 + ["nvml"] + [None] * 29


def test_what_is_told_once_a_minute_does_not_return_to_a_source_that_cannot_tell_it(after: ChoiceSeconds) -> None:
    """It says so in every second, and a minute begins when that ends."""
    counts, dcgm = nvml_says({GPU_ECC_CORRECTED: 40}), dcgm_says({GPU_ECC_CORRECTED: 40})
    after(counts, dcgm)
    after(None, dcgm, 10)
    after(nvml_says({GPU_ECC_CORRECTED: FieldState.ERROR}), dcgm, 120)

    told = [after(counts if second % 60 == 0 else _QUIET, dcgm) for second in range(61)]

    sources = [reading.bases[GPU_ECC_CORRECTED].source for reading in told]
    assert sources == ["dcgm_engine"] * 60 + ["nvml"]


def test_a_source_that_comes_and_goes_does_not_flap(after: ChoiceSeconds) -> None:
    """Ten seconds there, ten seconds gone: one change, and no way back."""
    nvml, dcgm = nvml_says({GPU_POWER: 300.5}), dcgm_says({GPU_POWER: 300.0})
    after(nvml, dcgm, 5)

    with capture_logs() as logs:
        for _ in range(20):
            after(None, dcgm, 10)
            after(nvml, dcgm, 10)

    assert len([entry for entry in logs if entry["event"] == "source_changed"]) == 1


def test_r15_a_counter_of_another_source_is_another_counter(after: ChoiceSeconds) -> None:
    """R15: it stands elsewhere, so that a change would be traffic that never was."""
    after(nvml_says({GPU_PCIE_RECEIVED: 1_000}), dcgm_says({GPU_PCIE_RECEIVED: 9_000_000}), 5)

    reading = after(None, dcgm_says({GPU_PCIE_RECEIVED: 9_000_001}), 600)

    assert reading.values[GPU_PCIE_RECEIVED] is None
    then = after(nvml_says({GPU_PCIE_RECEIVED: 2_000}), dcgm_says({GPU_PCIE_RECEIVED: 9_000_002}))
    assert then.values[GPU_PCIE_RECEIVED] == 2_000


def test_r15_parts_of_a_counter_stay_with_their_source_too(after: ChoiceSeconds) -> None:
    """R15: by link, with NVML; in all, with DCGM."""
    nvml = nvml_says({}, parts={GPU_NVLINK_RECEIVED: {"0": 5, "1": 6}, GPU_CLOCK_EVENT: {"gpu_idle": 0}})
    dcgm = dcgm_says({}, parts={GPU_NVLINK_RECEIVED: {"all": 11}, GPU_CLOCK_EVENT: {"gpu_idle": 1}})
    assert after(nvml, dcgm).parts[GPU_NVLINK_RECEIVED] == {"0": 5, "1": 6}

    reading = after(None, dcgm, 10)

    assert GPU_NVLINK_RECEIVED not in reading.parts
    assert reading.parts[GPU_CLOCK_EVENT] == {"gpu_idle": 1}, "a reason of now may come from either"


def test_energy_goes_on_where_it_stood(after: ChoiceSeconds) -> None:
    """DCGM reads it from NVML: it is one counter."""
    after(nvml_says({GPU_ENERGY: 1_000.5}), dcgm_says({GPU_ENERGY: 1_000.5}), 5)

    assert after(None, dcgm_says({GPU_ENERGY: 1_900.5}), 4).values[GPU_ENERGY] == 1_900.5


def test_compute_waits_for_profiling_that_is_gone_and_says_its_new_basis(after: ChoiceSeconds) -> None:
    """DCGM is gone: busy is told under its own name, and not at once."""
    nvml = nvml_says({GPU_BUSY: 0.9, GPU_SM_ACTIVE: FieldState.UNSUPPORTED, GPU_COMPUTE: 0.9})
    after(nvml, dcgm_says({GPU_SM_ACTIVE: 0.3}), 5)

    told = [after(nvml, None) for _ in range(15)]

    bases = [reading.bases.get(GPU_COMPUTE) for reading in told]
    assert bases[0] is None
    assert bases[-1] == Basis("nvml", "busy")
    assert {reading.values.get(GPU_COMPUTE) for reading in told} == {None, 0.9}


def _seconds_of(watts: int) -> st.SearchStrategy[dict[Series, Any] | None]:
    """What a source says of a second: nothing at all, no value with or without a reason, or its own."""
    return st.sampled_from([None, {GPU_POWER: None}, {GPU_POWER: FieldState.ERROR}, {GPU_POWER: watts}])


@given(st.lists(st.tuples(_seconds_of(1), _seconds_of(2)), min_size=1, max_size=200))
def test_every_value_is_that_of_the_source_that_its_basis_names(
    seconds: list[tuple[dict[Series, Any] | None, dict[Series, Any] | None]],
) -> None:
    """A series never changes its meaning silently, whatever the two sources do."""
    after = ChoiceSeconds()
    for nvml, dcgm in seconds:
        if nvml is None and dcgm is None:
            after.second_s += 1
            continue
        reading = after(
            None if nvml is None else nvml_says(nvml),
            None if dcgm is None else dcgm_says(dcgm),
        )
        watts, basis = reading.values.get(GPU_POWER), reading.bases.get(GPU_POWER)
        assert watts == {None: None, "nvml": 1, "dcgm_engine": 2}[basis.source if basis else None]
        assert (GPU_POWER in reading.missing) == (watts is None)
