"""Owners of MIG instances."""

from dataclasses import replace

import pynvml
import pytest

from domain.samples import UNATTRIBUTED, Basis, DeviceReading, FieldState
from domain.series import GPU_GR_ACTIVE, OWNER_COMPUTE
from domain.units import GIB, MIB
from tests.collector.nvml.owned_card import Own, OwnedCard, compute_of, memory_of, run_process
from tests.fakes.nvml.driver import FakeDriver
from tests.fakes.nvml.processes import ProcTree


def _check_shared(reading: DeviceReading, ratio: float, tenants: set[str]) -> None:
    """Several in one compute instance: all of it is nobody's, and no tenant has a ratio."""
    ratios = {owner: use.compute_ratio for owner, use in reading.owners.items()}
    assert ratios == {**dict.fromkeys(tenants), UNATTRIBUTED: ratio}
    assert reading.bases[OWNER_COMPUTE] == Basis("nvml", "shared")
    assert reading.missing == {}


class TestInstances:
    """Owners of MIG instances; the card's own reading has none."""

    @pytest.fixture
    def card(self, driver: FakeDriver) -> str:
        return driver.card(0, "NVIDIA H100 80GB HBM3", used=10 * GIB, mig_mode=1)

    @pytest.fixture
    def parted(self, driver: FakeDriver, proc: ProcTree, own: Own, card: str) -> tuple[OwnedCard, str, str]:
        """The card with a GPU instance at 90 % of 16 and 32 SMs, and these two compute instances of it."""
        small = driver.instance(0, 0, "1c.3g.40gb", gi_id=2, start=0, used=8 * GIB, sms=16)
        large = driver.instance(0, 1, "2c.3g.40gb", gi_id=2, start=0, used=8 * GIB, sms=32)
        run_process(driver, proc, small, 101, "/system.slice/gputab-a.scope")
        run_process(driver, proc, large, 102, "/system.slice/gputab-b.scope")
        owned = own(card, small)
        owned.gr_active = {small: 0.9}
        return owned, small, large

    def test_each_instance_has_its_own_owners(self, driver: FakeDriver, proc: ProcTree, own: Own, card: str) -> None:
        """One PID on two instances is two claims; a process of no known instance is nobody's."""
        first = driver.instance(0, 0, "1g.10gb", gi_id=7, start=0, used=4 * GIB)
        second = driver.instance(0, 1, "1g.10gb", gi_id=8, start=1, used=3 * GIB)
        run_process(driver, proc, first, 101, "/system.slice/gputab-a.scope", 2 * GIB)
        driver.process(second, 101, GIB)
        run_process(driver, proc, second, 102, "/system.slice/gputab-b.scope")
        driver.process(card, 102, GIB)
        owned = own(card, first, second)
        owned.gr_active = {first: 0.5}

        whole, *instances = owned.readings()

        assert (whole.owners, whole.missing, whole.bases) == ({}, {}, {})
        assert {each.mig_uuid: memory_of(each) for each in instances} == {
            first: {"alloc:a": 2 * GIB, UNATTRIBUTED: 2 * GIB},
            second: {"alloc:a": GIB, "alloc:b": GIB, UNATTRIBUTED: GIB},
        }
        assert compute_of(instances[0], GPU_GR_ACTIVE) == {"alloc:a": 0.5, UNATTRIBUTED: 0.0}
        assert instances[0].bases[OWNER_COMPUTE] == Basis("nvml", "sole_owner")
        assert instances[1].missing == {OWNER_COMPUTE: FieldState.UNSUPPORTED}, "it has no performance metrics"

    def test_two_compute_instances_of_one_gpu_instance_share_it_by_their_sms(
        self, driver: FakeDriver, proc: ProcTree, parted: tuple[OwnedCard, str, str]
    ) -> None:
        """M6: 1c.3g and 2c.3g: memory of both is the GPU instance's, and its activity is split by SMs."""
        owned, small, large = parted

        _, instance = owned.readings()

        assert memory_of(instance) == {"alloc:a": GIB, "alloc:b": GIB, UNATTRIBUTED: 6 * GIB}
        assert compute_of(instance, GPU_GR_ACTIVE) == {"alloc:a": 0.3, "alloc:b": 0.6, UNATTRIBUTED: 0.0}
        assert instance.bases[OWNER_COMPUTE] == Basis("nvml", "sm_share")

        run_process(driver, proc, large, 103, "/system.slice/gputab-a.scope")
        driver.end_process(small, 101)
        _, instance = owned.readings()
        _check_shared(instance, 0.9, {"alloc:a", "alloc:b"})

    def test_a_server_of_mps_takes_nothing_from_its_clients(
        self, driver: FakeDriver, proc: ProcTree, own: Own, card: str
    ) -> None:
        """Nothing is sampled of an instance's processes; one of which nothing is proved may have computed."""
        instance = driver.instance(0, 0, "1g.10gb", gi_id=7, start=0, used=4 * GIB)
        run_process(driver, proc, instance, 100, "/system.slice/nvidia-mps.service", 32 * MIB)
        run_process(driver, proc, instance, 101, "/system.slice/gputab-a.scope")
        owned = own(card, instance)
        owned.gr_active = {instance: 0.5}

        _, reading = owned.readings()
        assert compute_of(reading, GPU_GR_ACTIVE) == {"alloc:a": 0.5, UNATTRIBUTED: 0.0}
        assert reading.bases[OWNER_COMPUTE] == Basis("nvml", "sole_owner")

        run_process(driver, proc, instance, 102, "/user.slice/user-1000.slice/session-3.scope")
        _check_shared(owned.readings()[1], 0.5, {"alloc:a"})

    def test_a_server_of_mps_has_no_part_of_the_sms(
        self, driver: FakeDriver, proc: ProcTree, parted: tuple[OwnedCard, str, str]
    ) -> None:
        """M6: beside a client it makes no second owner, and a compute instance that it alone is on is idle."""
        owned, small, _ = parted
        for each in (small, driver.instance(0, 2, "1c.3g.40gb", gi_id=2, start=0, used=8 * GIB, sms=16)):
            run_process(driver, proc, each, 100, "/system.slice/nvidia-mps.service", 32 * MIB)

        _, reading = owned.readings()
        assert compute_of(reading, GPU_GR_ACTIVE) == {"alloc:a": 0.3, "alloc:b": 0.6, UNATTRIBUTED: 0.0}
        assert reading.bases[OWNER_COMPUTE] == Basis("nvml", "sm_share")

    def test_compute_instances_that_are_made_anew_are_looked_up_anew(
        self, driver: FakeDriver, parted: tuple[OwnedCard, str, str]
    ) -> None:
        """M2, M6: their numbers come back, with other SMs."""
        owned, small, large = parted
        owned.readings()

        driver.set(small, sms=32)
        driver.set(large, sms=16)
        owned.device = replace(owned.device)
        _, instance = owned.readings()

        assert compute_of(instance, GPU_GR_ACTIVE) == {"alloc:a": 0.6, "alloc:b": 0.3, UNATTRIBUTED: 0.0}

    def test_a_failure_to_tell_compute_instances_costs_compute_only(
        self, driver: FakeDriver, parted: tuple[OwnedCard, str, str]
    ) -> None:
        owned, _, _ = parted
        driver.fault(pynvml.NVML_ERROR_UNKNOWN, "nvmlDeviceGetComputeInstanceId")

        _, instance = owned.readings()

        assert instance.missing == {OWNER_COMPUTE: FieldState.ERROR}
        assert memory_of(instance) == {"alloc:a": GIB, "alloc:b": GIB, UNATTRIBUTED: 6 * GIB}
