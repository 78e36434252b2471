"""The driver's lists of processes, in whatever layout that driver has them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pynvml
import pytest
from structlog.testing import capture_logs

from collector.call_times import CallTimes
from collector.nvml.driver import CardLostError, Driver
from collector.nvml.processes import ListedProcess, ProcessLists
from domain.clock import SystemClock
from domain.samples import FieldState
from domain.units import GIB, MIB
from tests.fakes.nvml.driver import FakeDriver

DETAILS = "nvmlDeviceGetRunningProcessDetailList"
V3 = [f"nvmlDeviceGet{kind}RunningProcesses_v3" for kind in ("Compute", "Graphics", "MPSCompute")]
# As read with the wrong length: the bytes of one are the PID of the next.
SEEN = range(100, 400)

UseDriver = Callable[[Path], FakeDriver]


class Lists:
    """The lists of one card, as `ProcessLists` reads them."""

    def __init__(self, fake: FakeDriver, uuid: str) -> None:
        self.calls = CallTimes(SystemClock())
        self._driver = Driver(self.calls)
        handle = self._driver.ask("DeviceGetHandleByUUID", uuid)
        self.lists = ProcessLists(self._driver, handle, SEEN.__contains__)

    def close(self) -> None:
        self._driver.close()

    def read(self) -> list[ListedProcess]:
        listed = self.lists.read()
        assert not isinstance(listed, FieldState)
        return listed

    def asked(self) -> set[str]:
        """Which functions of lists have been called since this was last asked."""
        return {call for call in self.calls.times() if "RunningProcess" in call}


@pytest.fixture
def open_lists() -> Iterator[Callable[[FakeDriver, str], Lists]]:
    opened: list[Lists] = []

    def open_(fake: FakeDriver, uuid: str) -> Lists:
        opened.append(Lists(fake, uuid))
        return opened[-1]

    yield open_
    for each in opened:
        each.close()


OpenLists = Callable[[FakeDriver, str], Lists]


@pytest.fixture(scope="module")
def early_535(build_nvml: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A driver from before the call whose entries have one length."""
    return build_nvml(tmp_path_factory.mktemp("early-535"), without=[DETAILS])


@pytest.fixture(scope="module")
def before_510(build_nvml: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_nvml(tmp_path_factory.mktemp("before-510"), without=[DETAILS, *V3])


def _three(fake: FakeDriver) -> tuple[str, list[ListedProcess]]:
    uuid = fake.card(0, used=10 * GIB)
    for pid, used_bytes in ((101, GIB), (102, 4_242), (103, 2 * GIB)):
        fake.process(uuid, pid, used_bytes)
    expected = [(101, GIB), (102, 4_242), (103, 2 * GIB)]
    return uuid, [ListedProcess(pid, used_bytes, None, None) for pid, used_bytes in expected]


def test_entries_of_32_bytes_are_read_as_such(use_driver: UseDriver, early_535: Path, open_lists: OpenLists) -> None:
    """A4: early drivers of 535 wrote 32 bytes where 24 belong: a PID of 1073741824, and 4242 bytes."""
    fake = use_driver(early_535)
    fake.quirks(process_entry_bytes=32)
    uuid, expected = _three(fake)
    lists = open_lists(fake, uuid)

    with capture_logs() as logs:
        assert [lists.read() for _ in range(3)] == [expected] * 3
    assert [(log["event"], log["bytes"]) for log in logs] == [("process_entries_of_another_length", 32)]


def test_entries_of_24_bytes_stay_what_they_are(use_driver: UseDriver, early_535: Path, open_lists: OpenLists) -> None:
    """A4: also where one process has just ended, with next to nothing left of it: that one's bytes are missing."""
    fake = use_driver(early_535)
    uuid, expected = _three(fake)
    lists = open_lists(fake, uuid)
    assert lists.read() == expected

    fake.process(uuid, 7, 4_242)
    with capture_logs() as logs:
        assert lists.read() == [*expected, ListedProcess(7, None, None, None)]
    assert logs == []


def test_a_driver_that_is_exchanged_for_one_of_the_other_length_is_read_by_the_other(
    use_driver: UseDriver, early_535: Path, open_lists: OpenLists
) -> None:
    fake = use_driver(early_535)
    uuid, expected = _three(fake)
    lists = open_lists(fake, uuid)
    for entry_bytes in (32, 24, 32):
        fake.quirks(process_entry_bytes=entry_bytes)
        assert lists.read() == expected


def test_where_the_entries_make_no_sense_the_call_of_one_length_is_asked(
    driver: FakeDriver, open_lists: OpenLists
) -> None:
    """A4: newer drivers have one that says its length."""
    driver.quirks(process_entry_bytes=32)
    uuid, expected = _three(driver)
    lists = open_lists(driver, uuid)

    assert lists.read() == expected
    assert DETAILS.removeprefix("nvml") in lists.asked()


def test_a_list_that_makes_sense_is_asked_once(driver: FakeDriver, open_lists: OpenLists) -> None:
    uuid, expected = _three(driver)
    lists = open_lists(driver, uuid)

    assert lists.read() == expected
    times = lists.calls.times()
    assert {call: times[call].calls for call in lists.asked()} == {call.removeprefix("nvml"): 1 for call in V3}
    assert lists.calls.failures() == {}


def test_a_driver_without_the_third_version_is_asked_by_the_second(
    use_driver: UseDriver, before_510: Path, open_lists: OpenLists
) -> None:
    """And what it lacks is not asked for in every second."""
    fake = use_driver(before_510)
    uuid, expected = _three(fake)
    lists = open_lists(fake, uuid)

    assert [lists.read() for _ in range(3)] == [expected] * 3
    assert sum(lists.calls.failures().values()) == 3


def test_lists_longer_than_there_is_room_for_are_asked_again(driver: FakeDriver, open_lists: OpenLists) -> None:
    uuid = driver.card(0, used=200 * MIB)
    for pid in range(100, 300):
        driver.process(uuid, pid, MIB)
    lists = open_lists(driver, uuid)

    assert [each.pid for each in lists.read()] == list(range(100, 300))
    assert [each.pid for each in lists.read()] == list(range(100, 300))
    assert sum(lists.calls.failures().values()) == 1, "once there is room"


def test_a_process_has_the_most_that_any_list_says(driver: FakeDriver, open_lists: OpenLists) -> None:
    uuid = driver.card(0, used=4 * GIB)
    driver.process(uuid, 101, GIB, "compute")
    driver.process(uuid, 101, 2 * GIB, "graphics")
    driver.process(uuid, 102, 2**64 - 1, "compute")
    driver.process(uuid, 102, GIB, "mps")
    driver.process(uuid, 103, 2**64 - 1, "compute")

    assert open_lists(driver, uuid).read() == [
        ListedProcess(101, 2 * GIB, None, None),
        ListedProcess(102, GIB, None, None),
        ListedProcess(103, None, None, None),
    ]


def test_a_process_on_two_instances_is_two(driver: FakeDriver, open_lists: OpenLists) -> None:
    uuid = driver.card(0, "NVIDIA H100 80GB HBM3", mig_mode=1)
    instances = [driver.instance(0, index, "1g.10gb", gi_id=gi_id) for index, gi_id in enumerate((7, 8))]
    for instance in instances:
        driver.process(instance, 101, GIB)

    assert open_lists(driver, uuid).read() == [
        ListedProcess(101, GIB, 7, 0),
        ListedProcess(101, GIB, 8, 0),
    ]


def test_one_list_is_enough_where_the_others_are_lacking(driver: FakeDriver, open_lists: OpenLists) -> None:
    uuid = driver.card(0, used=4 * GIB)
    driver.process(uuid, 101, GIB)
    for kind in ("Graphics", "MPSCompute"):
        for version in ("v3", "v2"):
            driver.fault(pynvml.NVML_ERROR_NOT_SUPPORTED, f"nvmlDeviceGet{kind}RunningProcesses_{version}")

    assert open_lists(driver, uuid).read() == [ListedProcess(101, GIB, None, None)]


def test_a_list_that_fails_leaves_no_list(driver: FakeDriver, open_lists: OpenLists) -> None:
    """Half of who is there is no ground to call the rest nobody's."""
    uuid = driver.card(0, used=4 * GIB)
    driver.process(uuid, 101, GIB)
    lists = open_lists(driver, uuid)
    driver.fault(pynvml.NVML_ERROR_UNKNOWN, V3[1])

    assert lists.lists.read() is FieldState.ERROR
    driver.clear_faults()
    assert lists.read() == [ListedProcess(101, GIB, None, None)]


@pytest.mark.parametrize("call", [V3[0], DETAILS])
def test_a_card_that_is_lost_meanwhile_is_lost(driver: FakeDriver, open_lists: OpenLists, call: str) -> None:
    driver.quirks(process_entry_bytes=32)
    uuid, _ = _three(driver)
    lists = open_lists(driver, uuid)
    driver.fault(pynvml.NVML_ERROR_GPU_IS_LOST, call)

    with pytest.raises(CardLostError):
        lists.lists.read()


def test_a_number_of_entries_that_is_garbage_is_not_believed(driver: FakeDriver, open_lists: OpenLists) -> None:
    """A count of four thousand millions is neither room to be made nor entries to be read."""
    uuid = driver.card(0)
    for pid in range(100, 170):
        driver.process(uuid, pid, MIB)
    lists = open_lists(driver, uuid)
    driver.fault(pynvml.NVML_ERROR_INSUFFICIENT_SIZE, V3[0])

    assert lists.lists.read() is FieldState.ERROR
