"""Clients of MPS and the server that works for them, in what a card's owners computed."""

import pynvml
import pytest

from domain.samples import UNATTRIBUTED, Basis, DeviceReading
from domain.series import OWNER_COMPUTE
from domain.units import GIB, MIB
from tests.collector.nvml.owned_card import Own, compute_of, memory_of, run_process, told_uses
from tests.fakes.nvml.driver import Can, FakeDriver
from tests.fakes.nvml.processes import ProcTree


def _run_mps(driver: FakeDriver, proc: ProcTree, uuid: str) -> None:
    """The operator's server of MPS (100), and clients of it of two owners (101, 102), as the driver lists them."""
    run_process(driver, proc, uuid, 100, "/system.slice/nvidia-mps.service", 32 * MIB)
    for pid, owner in ((101, "a"), (102, "b")):
        run_process(driver, proc, uuid, pid, f"/system.slice/gputab-{owner}.scope")
        driver.process(uuid, pid, GIB, "mps")


def _unsampled_card(driver: FakeDriver) -> str:
    """A card that is busy for 90 %, and does not say by whose process."""
    uuid = driver.card(0, used=4 * GIB, busy_percent=90)
    driver.deny(uuid, Can.PROCESS_UTILIZATION)
    return uuid


def _check_shared(reading: DeviceReading, tenants: set[str]) -> None:
    """All of the card's 90 % is nobody's, and no tenant has a ratio."""
    ratios = {owner: use.compute_ratio for owner, use in reading.owners.items()}
    assert ratios == {**dict.fromkeys(tenants), UNATTRIBUTED: 0.9}
    assert reading.bases[OWNER_COMPUTE] == Basis("nvml", "shared")
    assert reading.missing == {}


@pytest.mark.parametrize(
    ("percents", "expected"),
    [
        ({100: 5, 101: 50, 102: 30}, {"alloc:a": 0.5, "alloc:b": 0.3, UNATTRIBUTED: 0.1}),
        ({101: 90, 102: 45}, {"alloc:a": 0.6, "alloc:b": 0.3, UNATTRIBUTED: 0.0}),
    ],
    ids=["beside each other", "at the same time"],
)
def test_clients_of_mps_have_what_each_computed(
    driver: FakeDriver, proc: ProcTree, own: Own, percents: dict[int, int], expected: dict[str, float]
) -> None:
    """Their kernels run at once, and may add up to more than the card was busy. The server's part is nobody's."""
    uuid = driver.card(0, used=4 * GIB, busy_percent=90)
    _run_mps(driver, proc, uuid)
    told_uses(driver, uuid, percents)

    reading = own(uuid).read()

    assert compute_of(reading) == expected
    assert reading.bases[OWNER_COMPUTE] == Basis("nvml", "process_samples")


def test_clients_of_mps_are_not_told_apart_where_no_process_is_sampled(
    driver: FakeDriver, proc: ProcTree, own: Own
) -> None:
    """All that they computed is nobody's, and none of them has a ratio. Memory is each one's all the same."""
    uuid = _unsampled_card(driver)
    _run_mps(driver, proc, uuid)

    reading = own(uuid).read()

    assert memory_of(reading) == {"alloc:a": GIB, "alloc:b": GIB, UNATTRIBUTED: 2 * GIB}
    _check_shared(reading, {"alloc:a", "alloc:b"})


def test_the_server_of_mps_does_not_count_where_no_process_is_sampled(
    driver: FakeDriver, proc: ProcTree, own: Own
) -> None:
    """It works for its clients: beside one tenant's all that was computed is that tenant's."""
    uuid = _unsampled_card(driver)
    _run_mps(driver, proc, uuid)
    driver.end_process(uuid, 102)
    card = own(uuid)

    reading = card.read()

    assert compute_of(reading) == {"alloc:a": 0.9, UNATTRIBUTED: 0.0}
    assert reading.bases[OWNER_COMPUTE] == Basis("nvml", "sole_owner")
    assert memory_of(reading) == {"alloc:a": GIB, UNATTRIBUTED: 3 * GIB}
    assert card.owners.unproved == 0

    driver.end_process(uuid, 101)
    assert compute_of(card.read()) == {UNATTRIBUTED: 0.9}, "whose it was is not known"


def test_the_server_of_mps_counts_where_the_driver_does_not_list_its_clients(
    driver: FakeDriver, proc: ProcTree, own: Own
) -> None:
    """What was computed may be theirs, and not that of the one tenant who is seen beside it."""
    uuid = _unsampled_card(driver)
    for version in ("v3", "v2"):
        driver.fault(pynvml.NVML_ERROR_NOT_SUPPORTED, f"nvmlDeviceGetMPSComputeRunningProcesses_{version}", uuid)
    run_process(driver, proc, uuid, 100, "/system.slice/nvidia-mps.service", 32 * MIB)
    run_process(driver, proc, uuid, 101, "/system.slice/gputab-a.scope")
    driver.process(uuid, 102, GIB, "mps")
    card = own(uuid)

    reading = card.read()

    assert [each.pid for each in card.owners.processes()] == [100, 101]
    _check_shared(reading, {"alloc:a"})
    assert memory_of(reading) == {"alloc:a": GIB, UNATTRIBUTED: 3 * GIB}
    assert card.owners.unproved == 0


def test_who_is_called_like_a_server_of_mps_counts(driver: FakeDriver, proc: ProcTree, own: Own) -> None:
    """By its process' name and by a unit of its own manager, which a tenant may both choose."""
    uuid = _unsampled_card(driver)
    run_process(driver, proc, uuid, 101, "/system.slice/gputab-a.scope")
    user = "/user.slice/user-1000.slice/user@1000.service/app.slice/nvidia-mps.service"
    proc.process(100, user, name="nvidia-cuda-mps")
    driver.process(uuid, 100, 32 * MIB)
    card = own(uuid)

    _check_shared(card.read(), {"alloc:a"})
    assert card.owners.unproved == 1
