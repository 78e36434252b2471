"""A driver that stays away is given up where a supervisor is there to start a new container; else never."""

from collections.abc import Iterator

import pynvml
import pytest

from collector.call_times import CallTimes
from collector.nvml.driver import DriverGoneError
from collector.nvml.driver_life import DriverLife, DriverState
from collector.source import DriverGivenUpError, NewProcessNeededError
from domain.clock import FrozenClock
from tests.fakes.nvml.driver import FakeDriver

PATIENCE_S = 300


class Node:
    """The driver's life on a machine whose time passes when a test says so."""

    def __init__(self, driver: FakeDriver, give_up_s: int | None) -> None:
        self._driver = driver
        self._clock = FrozenClock(0)
        self.life = DriverLife(CallTimes(self._clock), lambda: None, give_up_s)

    def lose_devices(self) -> None:
        """As after a daemon-reload: what is open is void and every opening fails, and one who asks is told."""
        self._driver.fault(pynvml.NVML_ERROR_UNKNOWN, "nvmlInitWithFlags")
        self._driver.unload()
        self._driver.load()
        with pytest.raises(DriverGoneError), self.life.use("test") as opened:
            opened.driver.ask("DeviceGetCount")

    def pass_s(self, seconds: int, *, quiesce: bool = False) -> None:
        """Let time pass, in each second of which the driver is tended."""
        for _ in range(seconds):
            self._clock.sleep_s(1)
            self.life.tend(quiesce=quiesce)

    def ends_after(self, seconds: int, error: type[Exception]) -> str:
        """Let so much time pass: then the collector ends by that error, and not a second before. Its message."""
        self.pass_s(seconds - 1)
        self.life.require_process()
        self.pass_s(1)
        with pytest.raises(error) as raised:
            self.life.require_process()
        return str(raised.value)


@pytest.fixture
def node(driver: FakeDriver) -> Iterator[Node]:
    node = Node(driver, PATIENCE_S)
    node.life.open()
    yield node
    node.life.close()


def test_a_driver_that_has_been_gone_for_long_enough_is_given_up(node: Node) -> None:
    """L3: not a second before, and how long it was open does not count."""
    node.pass_s(2 * PATIENCE_S)
    node.life.require_process()
    node.lose_devices()
    said = node.ends_after(PATIENCE_S, DriverGivenUpError)
    assert "away for 300 s; start the container again" in said


def test_without_a_limit_it_is_waited_for_forever(driver: FakeDriver) -> None:
    node = Node(driver, None)
    node.life.open()
    node.lose_devices()
    node.pass_s(5 * PATIENCE_S)
    node.life.require_process()
    driver.clear_faults()
    node.pass_s(10)
    assert node.life.status().state is DriverState.OPEN
    node.life.close()


def test_a_driver_that_comes_back_is_waited_for_anew_when_it_goes(node: Node, driver: FakeDriver) -> None:
    for _ in range(3):
        node.lose_devices()
        node.pass_s(PATIENCE_S - 20)
        node.life.require_process()
        driver.clear_faults()
        node.pass_s(10)
        assert node.life.status().state is DriverState.OPEN


def test_cards_that_are_let_go_of_are_not_given_up(node: Node) -> None:
    """M4: somebody works on them, for as long as that takes, whatever the driver was before."""
    node.lose_devices()
    node.pass_s(PATIENCE_S - 1)
    node.pass_s(2 * PATIENCE_S, quiesce=True)
    node.life.require_process()
    # From when it was tried to open it again, which is after a second.
    node.ends_after(1 + PATIENCE_S, DriverGivenUpError)


@pytest.mark.parametrize(
    ("give_up_s", "due_s", "error"), [(None, 10, NewProcessNeededError), (60, 60, DriverGivenUpError)]
)
def test_a_mismatch_that_a_new_process_did_not_end_is_left_to_the_supervisor_if_there_is_one(
    driver: FakeDriver, give_up_s: int | None, due_s: int, error: type[Exception]
) -> None:
    """L2, L3: the library in a container is exchanged by a new container only, not by another process in it."""
    driver.unload(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    node = Node(driver, give_up_s)
    with pytest.raises(DriverGoneError):
        node.life.open()
    node.ends_after(due_s, error)
