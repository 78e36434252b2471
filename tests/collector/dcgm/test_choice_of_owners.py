"""Owners where two sources tell of a card: they come with the memory and the busy ratio that they sum to."""

import pytest

from domain.samples import UNATTRIBUTED, Basis, ComputeSplit, DeviceReading, FieldState, OwnerUse
from domain.series import GPU_BUSY, GPU_GR_ACTIVE, GPU_MEMORY_USED, OWNER_COMPUTE, OWNER_MEMORY
from tests.collector.dcgm.choice_seconds import ChoiceSeconds, dcgm_says, nvml_says


def test_owners_come_with_the_memory_that_they_are_of(after: ChoiceSeconds) -> None:
    """A sum of owners that is not the device's memory cannot be believed."""
    mine = {"alloc:a": OwnerUse(60, None), UNATTRIBUTED: OwnerUse(40, None)}
    nobodys = {UNATTRIBUTED: OwnerUse(96, None)}
    nvml, dcgm = nvml_says({GPU_MEMORY_USED: 100}, owners=mine), dcgm_says({GPU_MEMORY_USED: 96}, owners=nobodys)

    assert after(nvml, dcgm).owners == mine
    assert after(None, dcgm).owners == {}, "NVML is waited for"
    then = after(None, dcgm, 5)
    assert (then.values[GPU_MEMORY_USED], then.owners) == (96, nobodys)


_SHARED = {"alloc:a": OwnerUse(60, 0.5), UNATTRIBUTED: OwnerUse(40, 0.4)}
_SPLIT = {OWNER_MEMORY: Basis("nvml", "at_least"), OWNER_COMPUTE: Basis("nvml", "process_samples")}


def test_how_owners_were_told_is_said_too(after: ChoiceSeconds) -> None:
    reading = after(
        nvml_says({GPU_MEMORY_USED: 100, GPU_BUSY: 0.9}, owners=_SHARED, bases=_SPLIT), dcgm_says({GPU_BUSY: 0.8})
    )

    assert reading.owners == _SHARED
    assert {series: reading.bases[series] for series in _SPLIT} == _SPLIT
    assert not {OWNER_MEMORY, OWNER_COMPUTE} & reading.missing.keys()


def test_why_owners_are_missing_is_said_too(after: ChoiceSeconds) -> None:
    """A13: DCGM's "all is nobody's" does not stand in their place."""
    state = FieldState.ATTRIBUTION_UNAVAILABLE
    nvml = nvml_says({GPU_MEMORY_USED: 100, OWNER_MEMORY: state, OWNER_COMPUTE: state})

    reading = after(nvml, dcgm_says({GPU_MEMORY_USED: 96}, owners={UNATTRIBUTED: OwnerUse(96, None)}))

    assert reading.owners == {}
    assert (reading.missing[OWNER_MEMORY], reading.missing[OWNER_COMPUTE]) == (state, state)
    assert after(None, dcgm_says({})).missing[OWNER_MEMORY] is FieldState.ERROR, "nor while NVML is waited for"


def test_owners_compute_is_not_told_beside_a_busy_ratio_of_another_source(after: ChoiceSeconds) -> None:
    """It sums to NVML's; for a minute after NVML failed to tell it the card's is DCGM's."""
    nvml = nvml_says({GPU_MEMORY_USED: 100, GPU_BUSY: 0.9}, owners=_SHARED, bases=_SPLIT)
    dcgm = dcgm_says({GPU_MEMORY_USED: 96, GPU_BUSY: 0.2})
    after(nvml, dcgm, 5)
    after(nvml_says({GPU_MEMORY_USED: 100, GPU_BUSY: FieldState.ERROR}), dcgm, 5)

    reading = after(nvml, dcgm)

    assert reading.values[GPU_BUSY] == 0.2
    assert reading.owners == {owner: OwnerUse(use.memory_bytes, None) for owner, use in _SHARED.items()}
    assert reading.missing == {OWNER_COMPUTE: FieldState.NOT_READY}
    assert reading.bases[OWNER_MEMORY] == _SPLIT[OWNER_MEMORY]
    assert OWNER_COMPUTE not in reading.bases
    assert after(nvml, dcgm, 60).owners == _SHARED


def _instance(active: float | FieldState, owners: dict[str, OwnerUse]) -> DeviceReading:
    """NVML of a MIG instance that two owners have, in compute instances of 14 and 42 SMs."""
    split = ComputeSplit({"alloc:a": 0.25, "alloc:b": 0.75, UNATTRIBUTED: 0.0}, Basis("nvml", "sm_share"))
    values = {GPU_MEMORY_USED: 100, GPU_GR_ACTIVE: active}
    if isinstance(active, FieldState):
        return nvml_says(values | {OWNER_COMPUTE: active}, owners=owners, split=split)
    return nvml_says(values, owners=owners, split=split, bases={OWNER_COMPUTE: split.basis})


def test_m6_the_engine_of_an_instance_is_dcgms_and_how_it_is_split_is_nvmls() -> None:
    """M6: of an A100 NVML tells no ratio, and DCGM no owner. One whose memory is not told has computed all the same."""
    after = ChoiceSeconds("MIG-1")
    nvml = _instance(FieldState.UNSUPPORTED, {"alloc:a": OwnerUse(60, None), UNATTRIBUTED: OwnerUse(40, None)})

    reading = after(nvml, dcgm_says({GPU_GR_ACTIVE: 0.5}))

    assert reading.owners == {
        "alloc:a": OwnerUse(60, 0.125),
        "alloc:b": OwnerUse(None, 0.375),
        UNATTRIBUTED: OwnerUse(40, 0.0),
    }
    assert reading.bases[OWNER_COMPUTE] == Basis("nvml", "sm_share")
    assert OWNER_COMPUTE not in reading.missing
    away = after(nvml, None)
    assert away.owners == nvml.owners
    assert (away.missing[OWNER_COMPUTE], away.missing[GPU_GR_ACTIVE]) == (FieldState.ERROR, FieldState.ERROR)
    assert OWNER_COMPUTE not in away.bases


def test_m6_who_shares_what_nothing_splits_has_no_zero_of_dcgms_ratio() -> None:
    """M6: as an A100's two tenants in one compute instance: all of DCGM's ratio is nobody's."""
    split = ComputeSplit({UNATTRIBUTED: 1.0}, Basis("nvml", "shared"))
    state = FieldState.UNSUPPORTED
    values = {GPU_MEMORY_USED: 100, GPU_GR_ACTIVE: state, OWNER_COMPUTE: state}
    owners = {"alloc:a": OwnerUse(60, None), "alloc:b": OwnerUse(30, None), UNATTRIBUTED: OwnerUse(10, None)}

    reading = ChoiceSeconds("MIG-1")(nvml_says(values, owners=owners, split=split), dcgm_says({GPU_GR_ACTIVE: 0.5}))

    assert reading.owners == owners | {UNATTRIBUTED: OwnerUse(10, 0.5)}
    assert reading.bases[OWNER_COMPUTE] == split.basis
    assert OWNER_COMPUTE not in reading.missing


def test_m6_an_instance_whose_ratio_nobody_tells_has_no_compute_by_owner() -> None:
    nvml = _instance(FieldState.UNSUPPORTED, {UNATTRIBUTED: OwnerUse(100, None)})

    reading = ChoiceSeconds("MIG-1")(nvml, dcgm_says({GPU_GR_ACTIVE: FieldState.UNSUPPORTED}))

    assert reading.owners == nvml.owners
    assert reading.missing[OWNER_COMPUTE] is FieldState.UNSUPPORTED


def test_m6_owners_of_an_instance_keep_their_compute_where_its_ratio_is_dcgms_for_a_minute() -> None:
    """M6: an H100, whose NVML failed for some seconds."""
    after, dcgm = ChoiceSeconds("MIG-1"), dcgm_says({GPU_GR_ACTIVE: 0.8})
    owners = {"alloc:a": OwnerUse(60, 0.1), "alloc:b": OwnerUse(20, 0.3), UNATTRIBUTED: OwnerUse(20, 0.0)}
    nvml = _instance(0.4, owners)
    assert after(nvml, dcgm).owners == owners
    after(_instance(FieldState.ERROR, owners), dcgm, 5)

    reading = after(nvml, dcgm)

    assert reading.values[GPU_GR_ACTIVE] == 0.8
    assert [use.compute_ratio for use in reading.owners.values()] == pytest.approx([0.2, 0.6, 0])
    assert after(nvml, dcgm, 60).owners == owners
