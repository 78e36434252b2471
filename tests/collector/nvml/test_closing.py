"""The end of a source, and of the driver in it, whatever hangs."""

import threading
from pathlib import Path

import pynvml

from collector.call_times import CallTimes
from collector.nvml.driver_life import DriverAwayError, DriverLife
from collector.source import SourceGoneError
from domain.clock import FrozenClock
from tests.collector.nvml.life_rig import New, living
from tests.collector.patience import CLOCK, wait_until
from tests.fakes.nvml.driver import FakeDriver


def test_a_driver_that_hangs_where_it_is_let_go_of_does_not_keep_the_process(
    driver: FakeDriver, new_source: New
) -> None:
    """L4: a supervisor would have to kill it."""
    driver.card(0)
    source = new_source()
    fault = driver.fault(0, "nvmlShutdown", hang=True)
    began_s = CLOCK.monotonic_s()
    source.close()
    assert CLOCK.monotonic_s() - began_s < 10
    assert fault.waiting == 1
    fault.take_back()
    wait_until(lambda: fault.waiting == 0)


def test_a_driver_is_held_until_it_has_answered_that_it_is_let_go_of(driver: FakeDriver) -> None:
    life = DriverLife(CallTimes(CLOCK), lambda: None)
    life.open()
    fault = driver.fault(0, "nvmlShutdown", hang=True)
    closing = threading.Thread(target=life.close)
    closing.start()
    try:
        wait_until(lambda: fault.waiting == 1)
        assert life.status().is_released is False
    finally:
        fault.take_back()
        closing.join()
    assert life.status().is_released is True


def test_a_driver_that_is_being_closed_is_not_closed_twice(driver: FakeDriver, new_source: New, tmp_path: Path) -> None:
    driver.card(0)
    with living(tmp_path, new_source) as live:
        fault = driver.fault(0, "nvmlShutdown", hang=True)
        live.desk.signal(quiesce=True)
        wait_until(lambda: fault.waiting == 1)
        live.source.close()
        assert fault.calls == 1
        fault.take_back()
        wait_until(lambda: fault.waiting == 0)
    assert driver.calls("nvmlShutdown") == 1
    assert driver.opened().inits == 0


def test_a_driver_that_opens_and_goes_at_once_is_opened_less_and_less_often(driver: FakeDriver) -> None:
    """Each opening makes all MIG instances new ones."""
    clock = FrozenClock(0)
    life = DriverLife(CallTimes(clock), lambda: None)
    driver.fault(pynvml.NVML_ERROR_UNINITIALIZED, "nvmlSystemGetDriverVersion")
    for _ in range(120 * 5):
        life.tend(quiesce=False)
        _ask(life)
        clock.sleep_s(0.2)
    assert life.status().opened <= 20
    opened = life.status().opened
    driver.clear_faults()
    clock.sleep_s(10)
    life.tend(quiesce=False)
    assert _ask(life)
    clock.sleep_s(10)
    driver.fault(pynvml.NVML_ERROR_UNINITIALIZED, "nvmlSystemGetDriverVersion", times=1)
    assert not _ask(life)
    life.tend(quiesce=False)
    clock.sleep_s(0.5)
    life.tend(quiesce=False)
    assert life.status().opened == opened + 2, "one that lasted is opened again soon"
    life.close()


def _ask(life: DriverLife) -> bool:
    try:
        with life.use("a test") as opened:
            opened.driver.ask("SystemGetDriverVersion")
    except (DriverAwayError, SourceGoneError):
        return False
    return True


def test_a_source_that_is_closed_looks_at_nothing_more(driver: FakeDriver, new_source: New, tmp_path: Path) -> None:
    driver.card(0)
    with living(tmp_path, new_source):
        looks = driver.calls("nvmlDeviceGetCount_v2")
    assert driver.calls("nvmlDeviceGetCount_v2") == looks
