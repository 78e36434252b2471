"""What the driver says of a card in MIG mode and of the instances on it."""

from collections.abc import Callable

import pynvml
import pytest

from collector.nvml.compute_instances import ComputeInstances
from collector.nvml.source import NvmlSource
from domain.errors import UnavailableError
from domain.inventory import MigInstance
from domain.samples import UNATTRIBUTED, FieldState, OwnerUse
from domain.series import (
    GPU_BUSY,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_UP,
)
from domain.units import MIB
from tests.collector.nvml.value_rig import ValueRig
from tests.fakes.nvml.driver import FakeDriver

SECOND_S = 1_700_000_000

Open = Callable[[], NvmlSource]
New = Callable[..., NvmlSource]


def _mig_card(driver: FakeDriver) -> str:
    return driver.card(
        0,
        name="NVIDIA H100 80GB HBM3",
        total=81_559 * MIB,
        reserved=479 * MIB,
        used=59 * MIB,
        mig_mode=1,
        full_card_profile=pynvml.NVML_GPU_INSTANCE_PROFILE_7_SLICE,
        full_card_sms=132,
        milliwatts=438_000,
    )


def test_mig_instances_are_found_behind_holes_with_the_sizes_the_hardware_reports(
    driver: FakeDriver, open_source: Open
) -> None:
    card = _mig_card(driver)
    large = driver.instance(0, 0, "3g.40gb", gi_id=2, start=4, size=4, sms=60, memory_mib=40_448, total=40_448 * MIB)
    small = driver.instance(
        0, 5, "1g.10gb", gi_id=9, start=2, size=1, sms=16, memory_mib=9_984, total=9_984 * MIB, used=9 * MIB
    )
    source = open_source()

    (device,) = source.inventory()
    assert (device.mig_enabled, device.sm_count) == (True, 132)
    assert device.instances == (
        MigInstance(large, 2, "3g.40gb", 4, 4, 60, 40_448 * MIB),
        MigInstance(small, 9, "1g.10gb", 2, 1, 16, 9_984 * MIB),
    )

    whole, first, second = source.read(card, SECOND_S)
    assert whole.values[GPU_BUSY] is None, "M1: 0 % of a card in MIG mode at 438 W is no reading"
    assert whole.values[GPU_POWER] == 438
    assert whole.owners == {}
    assert (first.mig_uuid, second.mig_uuid) == (large, small)
    expected = {
        GPU_UP: 1,
        GPU_MEMORY_TOTAL: 9_984 * MIB,
        GPU_MEMORY_RESERVED: 0,
        GPU_MEMORY_USED: 9 * MIB,
    }
    assert {series: second.values[series] for series in expected} == expected
    assert second.owners == {UNATTRIBUTED: OwnerUse(9 * MIB, None)}


def test_two_compute_instances_of_one_gpu_instance_count_once(driver: FakeDriver, open_source: Open) -> None:
    """M6: 1c.3g and 2c.3g share their memory; the profile is the GPU instance's."""
    card = _mig_card(driver)
    first = driver.instance(0, 0, "1c.3g.40gb", gi_id=2, start=0, size=4, sms=60, memory_mib=40_448, total=1, used=1)
    driver.instance(0, 1, "2c.3g.40gb", gi_id=2, start=0, size=4, sms=60, memory_mib=40_448, total=1, used=1)
    source = open_source()

    (device,) = source.inventory()
    assert [(each.uuid, each.profile) for each in device.instances] == [(first, "3g.40gb")]
    assert [reading.mig_uuid for reading in source.read(card, SECOND_S)] == [None, first]


def test_an_instance_that_was_destroyed_is_not_read_as_empty(driver: FakeDriver, open_source: Open) -> None:
    """M3: its card and the other instances are."""
    card = _mig_card(driver)
    gone = driver.instance(0, 0, "1g.10gb", gi_id=7, size=1, sms=16, memory_mib=9_984, total=1)
    stays = driver.instance(0, 1, "1g.10gb", gi_id=8, start=1, size=1, sms=16, memory_mib=9_984, total=1)
    source = open_source()
    driver.set(gone, exists=0)

    assert [reading.mig_uuid for reading in source.read(card, SECOND_S)] == [None, stays]
    assert [each.uuid for each in source.inventory()[0].instances] == [stays]


def test_a_lost_card_in_mig_mode_loses_its_instances(driver: FakeDriver, open_source: Open) -> None:
    card = _mig_card(driver)
    instance = driver.instance(0, 0, "1g.10gb", gi_id=7, size=1, sms=16, memory_mib=9_984, total=1)
    source = open_source()
    driver.fault(pynvml.NVML_ERROR_GPU_IS_LOST)

    assert [(each.mig_uuid, each.values) for each in source.read(card, SECOND_S)] == [
        (None, {GPU_UP: 0}),
        (instance, {GPU_UP: 0}),
    ]


def test_where_an_instance_lies_is_seen_by_root_only(driver: FakeDriver, new_source: New) -> None:
    _mig_card(driver)
    driver.instance(0, 0, "1g.10gb", gi_id=7, size=1, sms=16, memory_mib=9_984, total=1)
    driver.fault(pynvml.NVML_ERROR_NO_PERMISSION, "nvmlDeviceGetGpuInstanceById")
    source = new_source()

    with pytest.raises(UnavailableError, match="run the collector as root"):
        source.inventory()


def test_an_a30_counts_its_sms_by_its_four_slice_profile(driver: FakeDriver, open_source: Open) -> None:
    driver.card(
        0, name="NVIDIA A30", mig_mode=1, full_card_profile=pynvml.NVML_GPU_INSTANCE_PROFILE_4_SLICE, full_card_sms=56
    )

    assert open_source().inventory()[0].sm_count == 56


def test_sms_that_no_card_has_are_garbage_for_as_long_as_they_are_told(values: ValueRig) -> None:
    """R1: by them one of two tenants would have used all that both did."""
    card = _mig_card(values.fake)
    shared = {"gi_id": 2, "start": 0}
    values.fake.instance(0, 0, "1c.3g.40gb", sms=16, **shared)
    sick = values.fake.instance(0, 1, "2c.3g.40gb", sms=32, **shared)
    values.fake.instance(0, 2, "1g.10gb", gi_id=9, start=4, sms=16)
    instances = ComputeInstances(values.nvml, values.handle(card))
    fault = values.fake.fault(0, "nvmlDeviceGetAttributes_v2", sick, garbage=2**64 - 1)

    assert instances.sms(2, {0, 1}) is FieldState.GARBAGE
    assert instances.sms(9, {0}) == {0: 16}
    fault.take_back()
    assert instances.sms(2, {0, 1}) == {0: 16, 1: 32}


def test_an_instance_with_sms_that_no_card_has_is_refused_with_their_number(
    driver: FakeDriver, new_source: New
) -> None:
    """R1: whichever of its compute instances says so."""
    _mig_card(driver)
    shared = {"gi_id": 2, "start": 0}
    driver.instance(0, 0, "1c.3g.40gb", sms=16, **shared)
    driver.instance(0, 1, "2c.3g.40gb", sms=2**32 - 1, **shared)
    source = new_source()

    with pytest.raises(
        UnavailableError, match=r"cannot believe that the MIG instance .* and 4294967295 SMs; see dmesg"
    ):
        source.inventory()
