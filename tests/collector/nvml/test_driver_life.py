"""The driver goes, comes back, is exchanged, and is let go of, while a collector lives."""

from pathlib import Path

import pynvml
import pytest
from structlog.testing import capture_logs

from collector.nvml.driver_life import DriverState
from collector.source import NewProcessNeededError, SourceGoneError
from domain.errors import UnavailableError
from domain.samples import FieldState
from domain.series import COLLECTOR_DRIVER_OPENED, COLLECTOR_DRIVER_STATE, GPU_BUSY, GPU_UP
from tests.collector.nvml.life_rig import LiveSource, New, living, state_after_a_run
from tests.collector.patience import CLOCK, now_s, wait_until
from tests.fakes.nvml.driver import FakeDriver, Open

GONE = [
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
    pynvml.NVML_ERROR_UNINITIALIZED,
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
]


@pytest.mark.parametrize("code", GONE)
def test_a_driver_that_is_unloaded_is_survived(driver: FakeDriver, new_source: New, tmp_path: Path, code: int) -> None:
    """Cards are down, not idle, for as long as it takes; then they are read by new handles."""
    uuids = [driver.card(index, "NVIDIA H100 80GB HBM3") for index in range(2)]
    with living(tmp_path, new_source) as live:
        live.wait_for(uuids[0], 1)
        with capture_logs() as logs:
            driver.unload(code)
            for uuid in uuids:
                live.wait_for(uuid, 0)
            lost = live.card(uuids[0])
            assert lost.values == {GPU_UP: 0}, "no value is repeated"
            assert lost.missing[GPU_BUSY] is FieldState.LOST
            assert [device.uuid for device in live.source.inventory()] == uuids, "the expected count stays"
            assert live.driver_state == DriverState.GONE
            driver.load()
            for uuid in uuids:
                live.wait_for(uuid, 1)
        assert [log["event"] for log in logs].count("driver_gone") == 1
        own = {(value.series, value.labels.get("state")): value.value for value in live.source.values()}
        assert own[COLLECTOR_DRIVER_STATE, "open"] == 1
        assert own[COLLECTOR_DRIVER_STATE, "gone"] == 0
        assert own[COLLECTOR_DRIVER_OPENED, None] == 2


def test_the_driver_is_opened_once_however_long_it_is_read(driver: FakeDriver, new_source: New, tmp_path: Path) -> None:
    """L11: with persistence mode off each opening would start the card up; it is said once."""
    uuid = driver.card(0, persistence_mode=0)
    with capture_logs() as logs, living(tmp_path, new_source) as live:
        for _ in range(5):
            live.wait_for(uuid, 1)
            live.source.inventory()
    assert driver.calls("nvmlInitWithFlags") == 1
    assert [log["gpu_uuid"] for log in logs if log["event"] == "persistence_mode_off"] == [uuid]


def test_a_driver_of_another_version_asks_for_a_new_process_at_once(
    driver: FakeDriver, new_source: New, tmp_path: Path
) -> None:
    """L2: after an upgrade the library in this process answers with a mismatch for ever."""
    uuid = driver.card(0)
    with living(tmp_path, new_source) as live:
        live.wait_for(uuid, 1)
        driver.exchange("610.57.04")
        wait_until(lambda: live.driver_state == DriverState.MISMATCH)
        with pytest.raises(NewProcessNeededError, match="start the collector again"):
            live.source.read(uuid, now_s())


def test_a_process_that_starts_with_a_mismatch_waits_before_it_asks_for_another(
    driver: FakeDriver, new_source: New, tmp_path: Path
) -> None:
    """L2: the new one may fail too, as until a reboot; there is no busy loop, and it opens once it can."""
    uuid = driver.card(0)
    state = state_after_a_run(tmp_path, new_source)
    driver.unload(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)
    with living(tmp_path, new_source, state) as live:
        assert live.is_up(uuid) == 0
        assert live.driver_state == DriverState.MISMATCH
        driver.load()
        live.wait_for(uuid, 1)


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_UNKNOWN, pynvml.NVML_ERROR_NO_PERMISSION])
def test_a_container_that_lost_its_devices_is_told_so(driver: FakeDriver, new_source: New, code: int) -> None:
    """L3: "Failed to initialize NVML: Unknown Error" after a daemon-reload."""
    driver.card(0)
    driver.fault(code, "nvmlInitWithFlags")

    with pytest.raises(SourceGoneError, match="a container that has lost its devices"):
        new_source()


def test_a_node_that_has_had_cards_starts_without_a_driver(driver: FakeDriver, new_source: New, tmp_path: Path) -> None:
    """What is expected is down, not absent; without a memory of it there is nothing to go on with."""
    uuid = driver.card(0)
    state = state_after_a_run(tmp_path, new_source)
    driver.unload()

    with pytest.raises(SourceGoneError, match="by `gputab demo`"):
        new_source()
    with living(tmp_path, new_source, state) as live:
        assert [device.uuid for device in live.source.inventory()] == [uuid]
        assert live.is_up(uuid) == 0
        driver.load()
        live.wait_for(uuid, 1)


def test_everything_is_let_go_of_within_a_second_and_taken_up_again(
    driver: FakeDriver, new_source: New, tmp_path: Path
) -> None:
    """M4: no initialisation, event set or metric buffer is left, and the state is said meanwhile."""
    uuids = [driver.card(index, "NVIDIA H100 80GB HBM3") for index in range(2)]
    with living(tmp_path, new_source) as live:
        for uuid in uuids:
            live.wait_for(uuid, 1)
        wait_until(lambda: driver.opened().event_sets == 1)
        assert driver.opened().gpm_samples > 0

        began_s = CLOCK.monotonic_s()
        live.quiesce()
        assert CLOCK.monotonic_s() - began_s < 5, "far more than the second it has on a machine at peace"
        assert driver.opened() == Open(inits=0, event_sets=0, system_event_sets=0, gpm_samples=0)
        calls = driver.calls("nvmlDeviceGetMemoryInfo_v2")
        for uuid in uuids:
            reading = live.card(uuid)
            assert (reading.values, reading.missing[GPU_UP]) == ({}, FieldState.QUIESCED)
            assert reading.missing[GPU_BUSY] is FieldState.QUIESCED
        assert [device.uuid for device in live.source.inventory()] == uuids
        assert driver.calls("nvmlDeviceGetMemoryInfo_v2") == calls, "nobody is asked"

        live.resume()
        for uuid in uuids:
            live.wait_for(uuid, 1)
        assert driver.opened().inits == 1
    assert driver.opened() == Open(inits=0, event_sets=0, system_event_sets=0, gpm_samples=0)


def test_a_source_that_starts_quiesced_does_not_open_the_driver(
    driver: FakeDriver, new_source: New, tmp_path: Path
) -> None:
    """M4: a supervisor that starts the collector again must not take the cards up."""
    uuid = driver.card(0)
    state = state_after_a_run(tmp_path, new_source)
    inits = driver.calls("nvmlInitWithFlags")
    (tmp_path / "quiesce-node-1").touch()

    with capture_logs() as logs, living(tmp_path, new_source, state, quiesced=True) as live:
        assert live.is_up(uuid) is FieldState.QUIESCED
        assert [log["event"] for log in logs if "--resume" in log.get("remedy", "")] == ["driver_quiesced"]
        CLOCK.sleep_s(0.5)
        assert driver.calls("nvmlInitWithFlags") == inits
        live.desk.signal(quiesce=False)
        live.wait_for(uuid, 1)


def test_a_card_that_hangs_is_named_as_what_keeps_the_driver(
    driver: FakeDriver, new_source: New, tmp_path: Path
) -> None:
    """M4, L4: it cannot be let go of then, and closing the driver under a call would be worse."""
    uuids = [driver.card(index) for index in range(2)]
    with living(tmp_path, new_source) as live:
        live.wait_for(uuids[0], 1)
        fault = driver.fault(0, "nvmlDeviceGetUUID", uuids[1], hang=True)
        live.look()
        wait_until(lambda: fault.waiting > 0)
        wait_until(lambda: _is_held_by(live, "the inventory of card 1"))
        assert live.is_up(uuids[0]) is FieldState.QUIESCED
        fault.take_back()
        live.quiesce()
    assert driver.opened().inits == 0


def _is_held_by(live: LiveSource, user: str) -> bool:
    """Whether an operator who asks for the cards is told that this call, and no other, keeps them."""
    try:
        live.quiesce(patience_s=0)
    except UnavailableError as error:
        return f"a call still hangs ({user})" in str(error)
    return False
