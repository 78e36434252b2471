"""A container that has lost its devices: what the driver says then helps nobody, what the collector says does."""

from pathlib import Path

import pynvml
import pytest
from structlog.testing import capture_logs

from collector.nvml.driver_life import DriverState
from tests.collector.nvml.life_rig import New, living
from tests.collector.patience import wait_until
from tests.fakes.nvml.driver import FakeDriver


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_UNKNOWN, pynvml.NVML_ERROR_NO_PERMISSION])
def test_a_collector_that_cannot_open_the_driver_again_says_why_and_goes_on(
    driver: FakeDriver, new_source: New, tmp_path: Path, code: int
) -> None:
    """L3: after a daemon-reload every opening fails. The cards are down, which is said once with what to do."""
    uuid = driver.card(0)
    with living(tmp_path, new_source) as live:
        live.wait_for(uuid, 1)
        with capture_logs() as logs:
            driver.fault(code, "nvmlInitWithFlags")
            driver.unload()
            live.wait_for(uuid, 0)
            driver.load()
            failed = driver.calls("nvmlInitWithFlags")
            wait_until(lambda: driver.calls("nvmlInitWithFlags") >= failed + 2)
        assert live.driver_state == DriverState.GONE
        assert live.is_up(uuid) == 0
        said = [log["reason"] for log in logs if log["event"] == "driver_not_opened" and "container" in log["reason"]]
        assert len(said) == 1, logs
        assert "has to be started again" in said[0]
        driver.clear_faults()
        live.wait_for(uuid, 1)
