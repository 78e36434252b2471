"""No card can say it: it is refused and counted, and never leaves the node."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.ranges import is_possible, refuse_garbage
from domain.samples import UNATTRIBUTED, DeviceReading, OwnerUse
from domain.series import (
    CATALOGUE,
    DEVICE,
    GPU_BUSY,
    GPU_ENERGY,
    GPU_MEMORY_CLOCK,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_SM_CLOCK,
    GPU_TEMPERATURE,
    GPU_UP,
    OWNER_COMPUTE,
    OWNER_MEMORY,
    Kind,
    Series,
)
from domain.units import GIB, MIB

VRAM_BYTES = 24 * GIB

_DEVICE_VALUES = [series for series in CATALOGUE.values() if series.labels == DEVICE]


def _reading(values: dict[Series, int | float | None], owners: dict[str, OwnerUse] | None = None) -> DeviceReading:
    return DeviceReading("GPU-1", None, {GPU_UP: 1, GPU_MEMORY_TOTAL: VRAM_BYTES, **values}, owners or {})


@pytest.mark.parametrize("percent", [4_294_967_295, 808_334_905, 200_000, 1_000, 101])
def test_a_utilisation_beyond_100_percent_is_no_reading(percent: int) -> None:
    """Case 43, R1: such points came between good ones, on an idle card too. It is not clamped to 100 either."""
    checked = refuse_garbage(_reading({GPU_BUSY: percent / 100, GPU_POWER: 60.5}))

    assert checked.refused == (GPU_BUSY,)
    assert GPU_BUSY not in checked.reading.values
    assert checked.reading.values[GPU_POWER] == 60.5


@pytest.mark.parametrize(
    "blank",
    [
        140_737_488_355_328.0,
        1.40737488355328e16,
        9_223_372_036_854_775_792,
        9_223_372_036_854_775_794,
        2**64 - 1,
        2_147_483_632,
        2_147_483_634,
        math.nan,
        math.inf,
        -math.inf,
        -1_000,
    ],
)
@pytest.mark.parametrize(
    "series", [each for each in _DEVICE_VALUES if each.unit != "bytes"], ids=lambda each: each.name
)
def test_a_drivers_blank_is_missing_whatever_it_was_read_as(series: Series, blank: float) -> None:
    """Cases 44 and 46, R2: blanks of DCGM and NVML as 32-bit, 64-bit and double, some of them times 100."""
    if is_possible(series, blank):
        # A counter passes every number once: its blanks are told by their type, where the source is read.
        if series.kind is not Kind.COUNTER:
            assert series in (GPU_SM_CLOCK, GPU_MEMORY_CLOCK), "only 2^31 can be a real frequency"
        assert blank < 2**63 - 2**24
    else:
        assert series not in refuse_garbage(_reading({series: blank})).reading.values


@pytest.mark.parametrize("millijoules", [2**47, 0x7FFF_FFFF_FFFF_FFF0, 2**64 - 1])
def test_a_blank_is_seen_after_its_unit_was_converted(millijoules: int) -> None:
    assert not is_possible(GPU_ENERGY, millijoules / 1_000)


def test_used_memory_is_held_against_the_card_it_is_on() -> None:
    """2^64-1 bytes, and any number that some other card could have."""
    for used_bytes in (2**64 - 1, VRAM_BYTES + 1):
        checked = refuse_garbage(_reading({GPU_MEMORY_USED: used_bytes}, {UNATTRIBUTED: OwnerUse(used_bytes, None)}))

        assert checked.refused == (GPU_MEMORY_USED, OWNER_MEMORY)
        assert checked.reading.owners == {}


def test_used_free_and_reserved_need_not_sum_to_the_total() -> None:
    """R6: total 24,576, used 1,200, free 22,800 MiB leave 576 to the driver; used is as told, not total - free."""
    reading = _reading({GPU_MEMORY_USED: 1_200 * MIB, GPU_MEMORY_RESERVED: 576 * MIB})

    assert refuse_garbage(reading) == (reading, ())


def test_what_a_card_cannot_tell_is_not_garbage() -> None:
    """Case 49: a busy machine that answers N/A is neither idle nor broken."""
    reading = _reading({GPU_BUSY: None, GPU_MEMORY_USED: None, GPU_MEMORY_TOTAL: None})

    assert refuse_garbage(reading) == (reading, ())


def test_a_fraction_of_a_byte_is_garbage() -> None:
    assert not is_possible(GPU_MEMORY_USED, 0.5)
    assert not is_possible(GPU_UP, 0.5)


def test_owners_that_do_not_sum_to_the_device_are_not_believed() -> None:
    owners = {"alloc:a": OwnerUse(3 * MIB, 0.2), UNATTRIBUTED: OwnerUse(MIB, 0.0)}

    assert refuse_garbage(_reading({GPU_MEMORY_USED: 4 * MIB, GPU_BUSY: 0.2}, owners)).refused == ()
    for used_bytes in (3 * MIB, 5 * MIB):
        checked = refuse_garbage(_reading({GPU_MEMORY_USED: used_bytes, GPU_BUSY: 0.2}, owners))
        assert checked.refused == (OWNER_MEMORY,)
        assert checked.reading.owners == {UNATTRIBUTED: OwnerUse(used_bytes, None)}, "whose it is, is not known"


def test_owners_busier_than_their_card_keep_their_memory_only() -> None:
    """A sum of process utilisation of 260 % says nothing of anyone's compute, but the memory stands."""
    owners = {"alloc:a": OwnerUse(3 * MIB, 0.9), "alloc:b": OwnerUse(MIB, 0.9)}

    checked = refuse_garbage(_reading({GPU_MEMORY_USED: 4 * MIB, GPU_BUSY: 1.0}, owners))

    assert checked.refused == (OWNER_COMPUTE,)
    assert [use.memory_bytes for use in checked.reading.owners.values()] == [3 * MIB, MIB]
    assert [use.compute_ratio for use in checked.reading.owners.values()] == [None, None]


@given(
    values=st.dictionaries(
        st.sampled_from(_DEVICE_VALUES), st.none() | st.integers() | st.floats(allow_nan=True, allow_infinity=True)
    )
)
def test_what_passes_is_in_range_and_what_does_not_is_counted(values: dict[Series, int | float | None]) -> None:
    checked = refuse_garbage(DeviceReading("GPU-1", None, values, {}))

    passed = checked.reading.values
    assert all(value is None or is_possible(series, value) for series, value in passed.items())
    assert set(passed) | set(checked.refused) == set(values)
    assert not set(passed) & set(checked.refused)
    used_bytes, total_bytes = passed.get(GPU_MEMORY_USED), passed.get(GPU_MEMORY_TOTAL)
    assert used_bytes is None or total_bytes is None or used_bytes <= total_bytes
    celsius = passed.get(GPU_TEMPERATURE)
    assert celsius is None or celsius < 200
