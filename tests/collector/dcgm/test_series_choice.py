"""Which of two sources tells a series, second by second: it stays, it changes openly, and it does not flap."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from collector.field_states import FieldStates
from collector.series_choice import SeriesChoice
from collector.source_order import DCGM, NVML
from domain.samples import UNATTRIBUTED, Basis, DeviceReading, FieldState, OwnerUse
from domain.series import (
    GPU_BASIS_INFO,
    GPU_BUSY,
    GPU_CLOCK_EVENT,
    GPU_COMPUTE,
    GPU_ECC_CORRECTED,
    GPU_ENERGY,
    GPU_LAST_XID,
    GPU_MEMORY_USED,
    GPU_NVLINK_RECEIVED,
    GPU_PCIE_RECEIVED,
    GPU_POWER,
    GPU_SM_ACTIVE,
    GPU_UP,
    OWNER_COMPUTE,
    OWNER_MEMORY,
    Series,
)

_WATCHED = Basis("dcgm_engine", "watched")


def _nvml(values: Mapping[Series, Any], **more: Any) -> DeviceReading:
    missing = {series: value for series, value in values.items() if isinstance(value, FieldState)}
    said = {series: None if series in missing else value for series, value in values.items()}
    return DeviceReading("GPU-1", None, {GPU_UP: 1, **said}, more.pop("owners", {}), missing=missing, **more)


def _dcgm(values: Mapping[Series, Any], **more: Any) -> DeviceReading:
    told = dict.fromkeys([*values, *more.get("parts", {})], _WATCHED)
    return _nvml(values, bases=told, **more)


class _Seconds:
    """Seconds of one card, as they go by."""

    def __init__(self) -> None:
        self.choice = SeriesChoice("GPU-1", None)
        self.second_s = 1_790_000_000

    def __call__(
        self, nvml: DeviceReading | None, dcgm: DeviceReading | None = None, seconds: int = 1
    ) -> DeviceReading:
        told = {source: each for source, each in ((NVML, nvml), (DCGM, dcgm)) if each is not None}
        for _ in range(seconds):
            self.second_s += 1
            reading = self.choice.reading(self.second_s, told)
        return reading


@pytest.fixture
def after() -> _Seconds:
    return _Seconds()


def test_nvml_comes_first_where_both_speak(after: _Seconds) -> None:
    reading = after(_nvml({GPU_POWER: 300.5, GPU_BUSY: 0.9}), _dcgm({GPU_POWER: 300.0, GPU_BUSY: 0.8}))

    assert reading.values == {GPU_UP: 1, GPU_POWER: 300.5, GPU_BUSY: 0.9}
    assert reading.bases[GPU_POWER] == Basis("nvml", "current")


def test_what_nvml_says_of_its_values_is_kept(after: _Seconds) -> None:
    reading = after(_nvml({GPU_BUSY: 0.9}, bases={GPU_BUSY: Basis("nvml", "sampled")}), None)

    assert reading.bases[GPU_BUSY] == Basis("nvml", "sampled")


def test_sm_active_of_an_a100_is_dcgms_and_compute_with_it(after: _Seconds) -> None:
    """NVML has no counters of the SMs before Hopper; both bases are said."""
    nvml = _nvml({GPU_BUSY: 0.9, GPU_SM_ACTIVE: FieldState.UNSUPPORTED, GPU_COMPUTE: 0.9})

    reading = after(nvml, _dcgm({GPU_BUSY: 0.8, GPU_SM_ACTIVE: 0.3, GPU_COMPUTE: 0.3}))

    assert reading.values[GPU_SM_ACTIVE] == 0.3
    assert reading.values[GPU_BUSY] == 0.9
    assert (reading.values[GPU_COMPUTE], reading.bases[GPU_COMPUTE]) == (0.3, Basis("dcgm_engine", "sm_active"))
    assert GPU_SM_ACTIVE not in reading.missing


def test_sm_active_of_an_h100_is_nvmls(after: _Seconds) -> None:
    """One that is not ready in its first second is waited for: DCGM would be left again at once."""
    first = after(_nvml({GPU_SM_ACTIVE: FieldState.NOT_READY}), _dcgm({GPU_SM_ACTIVE: 0.3}))
    then = after(_nvml({GPU_SM_ACTIVE: 0.31}), _dcgm({GPU_SM_ACTIVE: 0.3}))

    assert first.values[GPU_SM_ACTIVE] is None
    assert first.missing[GPU_SM_ACTIVE] is FieldState.NOT_READY
    assert (then.values[GPU_SM_ACTIVE], then.bases[GPU_SM_ACTIVE].source) == (0.31, "nvml")


@pytest.mark.parametrize("seconds_before", [0, 5])
def test_r14_a_card_at_work_for_its_driver_is_not_busy_by_dcgm(after: _Seconds, seconds_before: int) -> None:
    """R14: NVML says that it is not ready for half a minute after the driver was loaded; DCGM knows no better."""
    dcgm = _dcgm({GPU_BUSY: 0.8})
    if seconds_before:
        after(_nvml({GPU_BUSY: 0.9}), dcgm, seconds_before)

    told = [after(_nvml({GPU_BUSY: FieldState.NOT_READY}), dcgm) for _ in range(30)]
    then = after(_nvml({GPU_BUSY: 0.1}), dcgm)

    assert {reading.values[GPU_BUSY] for reading in told} == {None}
    assert {reading.missing[GPU_BUSY] for reading in told} == {FieldState.NOT_READY}
    assert (then.values[GPU_BUSY], then.bases[GPU_BUSY].source) == (0.1, "nvml")


def test_what_only_one_of_them_knows_is_its_own(after: _Seconds) -> None:
    """NVML never speaks of the last XID; what it asks once a minute is waited for longer than that."""
    nvml, dcgm = _nvml({GPU_POWER: 300}), _dcgm({GPU_LAST_XID: 31})

    assert after(nvml, dcgm).values.get(GPU_LAST_XID) is None
    assert after(nvml, dcgm, 66).values[GPU_LAST_XID] == 31


def test_a_series_that_is_told_once_a_minute_keeps_its_source(after: _Seconds) -> None:
    counts = _nvml({GPU_POWER: 300, GPU_ECC_CORRECTED: 5})
    quiet = _nvml({GPU_POWER: 300})
    dcgm = _dcgm({GPU_ECC_CORRECTED: 4})

    told = [after(counts if second % 60 == 0 else quiet, dcgm) for second in range(180)]

    assert [reading.values[GPU_ECC_CORRECTED] for reading in told if GPU_ECC_CORRECTED in reading.values] == [5] * 3
    assert not any(GPU_ECC_CORRECTED in reading.missing for reading in told)


def test_a_choice_changes_after_three_silent_seconds_and_says_so_in_that_second(after: _Seconds) -> None:
    nvml, dcgm = _nvml({GPU_POWER: 300.5}), _dcgm({GPU_POWER: 300.0})
    states = FieldStates("node-a")
    after(nvml, dcgm, 10)

    with capture_logs() as logs:
        told = [after(None, dcgm) for _ in range(5)]

    assert [reading.values[GPU_POWER] for reading in told] == [None, None, None, 300.0, 300.0]
    assert [reading.missing.get(GPU_POWER) for reading in told] == [FieldState.ERROR] * 3 + [None, None]
    assert [reading.bases.get(GPU_POWER) for reading in told] == [None, None, None, _WATCHED, _WATCHED]
    (changed,) = [entry for entry in logs if entry["event"] == "source_changed"]
    assert (changed["before"], changed["after"], changed["series"]) == ("nvml", "dcgm", 1)
    assert changed["second_s"] == after.second_s - 1
    # From the last line of NVML to the first of DCGM no second is told under a basis that is not its own.
    runs = [run for run in states.runs(after.second_s - 1, [told[3]]) if run.series is GPU_BASIS_INFO]
    assert [(run.labels["field"], run.labels["source"], run.values) for run in runs] == [
        (GPU_POWER.name, "dcgm_engine", (1,))
    ]


def test_a_failure_of_one_field_changes_that_series_only(after: _Seconds) -> None:
    dcgm = _dcgm({GPU_POWER: 300.0, GPU_BUSY: 0.8})
    after(_nvml({GPU_POWER: 300.5, GPU_BUSY: 0.9}), dcgm, 5)

    reading = after(_nvml({GPU_POWER: FieldState.ERROR, GPU_BUSY: 0.9}), dcgm, 4)

    assert (reading.values[GPU_POWER], reading.values[GPU_BUSY]) == (300.0, 0.9)


def test_a_source_that_comes_back_is_chosen_again_after_a_minute(after: _Seconds) -> None:
    nvml, dcgm = _nvml({GPU_POWER: 300.5}), _dcgm({GPU_POWER: 300.0})
    after(nvml, dcgm, 5)
    after(None, dcgm, 10)

    told = [after(nvml, dcgm).values[GPU_POWER] for _ in range(70)]

    assert told == [300.0] * 60 + [300.5] * 10


def test_a_source_that_comes_and_goes_does_not_flap(after: _Seconds) -> None:
    """Ten seconds there, ten seconds gone: one change, and no way back."""
    nvml, dcgm = _nvml({GPU_POWER: 300.5}), _dcgm({GPU_POWER: 300.0})
    after(nvml, dcgm, 5)

    with capture_logs() as logs:
        for _ in range(20):
            after(None, dcgm, 10)
            after(nvml, dcgm, 10)

    assert len([entry for entry in logs if entry["event"] == "source_changed"]) == 1


@pytest.mark.parametrize("series", [GPU_PCIE_RECEIVED])
def test_r15_a_counter_of_another_source_is_another_counter(after: _Seconds, series: Series) -> None:
    """R15: it stands elsewhere, so that a change would be traffic that never was."""
    after(_nvml({series: 1_000}), _dcgm({series: 9_000_000}), 5)

    reading = after(None, _dcgm({series: 9_000_001}), 600)

    assert reading.values[series] is None
    assert after(_nvml({series: 2_000}), _dcgm({series: 9_000_002})).values[series] == 2_000


def test_r15_parts_of_a_counter_stay_with_their_source_too(after: _Seconds) -> None:
    """R15: by link, with NVML; in all, with DCGM."""
    nvml = _nvml({}, parts={GPU_NVLINK_RECEIVED: {"0": 5, "1": 6}, GPU_CLOCK_EVENT: {"gpu_idle": 0}})
    dcgm = _dcgm({}, parts={GPU_NVLINK_RECEIVED: {"all": 11}, GPU_CLOCK_EVENT: {"gpu_idle": 1}})
    assert after(nvml, dcgm).parts[GPU_NVLINK_RECEIVED] == {"0": 5, "1": 6}

    reading = after(None, dcgm, 10)

    assert GPU_NVLINK_RECEIVED not in reading.parts
    assert reading.parts[GPU_CLOCK_EVENT] == {"gpu_idle": 1}, "a reason of now may come from either"


def test_energy_goes_on_where_it_stood(after: _Seconds) -> None:
    """DCGM reads it from NVML: it is one counter."""
    after(_nvml({GPU_ENERGY: 1_000.5}), _dcgm({GPU_ENERGY: 1_000.5}), 5)

    assert after(None, _dcgm({GPU_ENERGY: 1_900.5}), 4).values[GPU_ENERGY] == 1_900.5


def test_owners_come_with_the_memory_that_they_are_of(after: _Seconds) -> None:
    """A sum of owners that is not the device's memory cannot be believed."""
    mine = {"alloc:a": OwnerUse(60, None), UNATTRIBUTED: OwnerUse(40, None)}
    nobodys = {UNATTRIBUTED: OwnerUse(96, None)}
    nvml, dcgm = _nvml({GPU_MEMORY_USED: 100}, owners=mine), _dcgm({GPU_MEMORY_USED: 96}, owners=nobodys)

    assert after(nvml, dcgm).owners == mine
    assert after(None, dcgm).owners == {}, "NVML is waited for"
    then = after(None, dcgm, 5)
    assert (then.values[GPU_MEMORY_USED], then.owners) == (96, nobodys)


_SHARED = {"alloc:a": OwnerUse(60, 0.5), UNATTRIBUTED: OwnerUse(40, 0.4)}
_SPLIT = {OWNER_MEMORY: Basis("nvml", "at_least"), OWNER_COMPUTE: Basis("nvml", "process_samples")}


def test_how_owners_were_told_is_said_too(after: _Seconds) -> None:
    reading = after(_nvml({GPU_MEMORY_USED: 100, GPU_BUSY: 0.9}, owners=_SHARED, bases=_SPLIT), _dcgm({GPU_BUSY: 0.8}))

    assert reading.owners == _SHARED
    assert {series: reading.bases[series] for series in _SPLIT} == _SPLIT
    assert not {OWNER_MEMORY, OWNER_COMPUTE} & reading.missing.keys()


def test_why_owners_are_missing_is_said_too(after: _Seconds) -> None:
    """A13: DCGM's "all is nobody's" does not stand in their place."""
    state = FieldState.ATTRIBUTION_UNAVAILABLE
    nvml = _nvml({GPU_MEMORY_USED: 100, OWNER_MEMORY: state, OWNER_COMPUTE: state})

    reading = after(nvml, _dcgm({GPU_MEMORY_USED: 96}, owners={UNATTRIBUTED: OwnerUse(96, None)}))

    assert reading.owners == {}
    assert (reading.missing[OWNER_MEMORY], reading.missing[OWNER_COMPUTE]) == (state, state)
    assert after(None, _dcgm({})).missing[OWNER_MEMORY] is FieldState.ERROR, "nor while NVML is waited for"


def test_owners_compute_is_not_told_beside_a_busy_ratio_of_another_source(after: _Seconds) -> None:
    """It sums to NVML's; for a minute after NVML failed to tell it the card's is DCGM's."""
    nvml = _nvml({GPU_MEMORY_USED: 100, GPU_BUSY: 0.9}, owners=_SHARED, bases=_SPLIT)
    dcgm = _dcgm({GPU_MEMORY_USED: 96, GPU_BUSY: 0.2})
    after(nvml, dcgm, 5)
    after(_nvml({GPU_MEMORY_USED: 100, GPU_BUSY: FieldState.ERROR}), dcgm, 5)

    reading = after(nvml, dcgm)

    assert reading.values[GPU_BUSY] == 0.2
    assert reading.owners == {owner: OwnerUse(use.memory_bytes, None) for owner, use in _SHARED.items()}
    assert reading.missing == {OWNER_COMPUTE: FieldState.NOT_READY}
    assert reading.bases[OWNER_MEMORY] == _SPLIT[OWNER_MEMORY]
    assert OWNER_COMPUTE not in reading.bases
    assert after(nvml, dcgm, 60).owners == _SHARED


def test_a_card_that_answers_one_of_them_is_up(after: _Seconds) -> None:
    after(_nvml({GPU_POWER: 1}), _dcgm({GPU_POWER: 1}))

    assert after(None, _dcgm({GPU_POWER: 1})).values[GPU_UP] == 1


def test_nothing_that_changes_is_the_same_object(after: _Seconds) -> None:
    nvml, dcgm = _nvml({GPU_POWER: 300, GPU_SM_ACTIVE: FieldState.UNSUPPORTED}), _dcgm({GPU_SM_ACTIVE: 0.5})
    before, now = after(nvml, dcgm, 3), after(nvml, dcgm)

    assert before.missing is now.missing
    assert before.bases is now.bases


def test_compute_waits_for_profiling_that_is_gone_and_says_its_new_basis(after: _Seconds) -> None:
    """DCGM is gone: busy is told under its own name, and not at once."""
    nvml = _nvml({GPU_BUSY: 0.9, GPU_SM_ACTIVE: FieldState.UNSUPPORTED, GPU_COMPUTE: 0.9})
    after(nvml, _dcgm({GPU_SM_ACTIVE: 0.3}), 5)

    told = [after(nvml, None) for _ in range(15)]

    bases = [reading.bases.get(GPU_COMPUTE) for reading in told]
    assert bases[0] is None
    assert bases[-1] == Basis("nvml", "busy")
    assert {reading.values.get(GPU_COMPUTE) for reading in told} == {None, 0.9}


_STATES = st.sampled_from([None, FieldState.ERROR, 1.0])


@given(st.lists(st.tuples(st.booleans(), _STATES, st.booleans(), _STATES), min_size=1, max_size=200))
def test_every_value_is_that_of_the_source_that_its_basis_names(seconds: list[tuple[bool, Any, bool, Any]]) -> None:
    """A series never changes its meaning silently, whatever the two sources do."""
    after = _Seconds()
    for nvml_speaks, nvml, dcgm_speaks, dcgm in seconds:
        if not (nvml_speaks or dcgm_speaks):
            after.second_s += 1
            continue
        reading = after(
            _nvml({GPU_POWER: nvml and (nvml if nvml != 1.0 else 1)}) if nvml_speaks else None,
            _dcgm({GPU_POWER: dcgm and (dcgm if dcgm != 1.0 else 2)}) if dcgm_speaks else None,
        )
        basis = reading.bases.get(GPU_POWER)
        assert (
            reading.values.get(GPU_POWER) == {None: None, "nvml": 1, "dcgm_engine": 2}[basis.source if basis else None]
        )
        assert (GPU_POWER in reading.missing) == (reading.values.get(GPU_POWER) is None)
