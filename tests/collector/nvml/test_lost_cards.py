"""Cards are lost, come back, are taken out and put in, or hang, and cost the others nothing."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pynvml
import pytest
from structlog.testing import capture_logs

from domain.errors import UnavailableError
from domain.samples import FieldState
from domain.series import GPU_BUSY, GPU_UP
from tests.collector.nvml.life_rig import LiveSource, New, living, state_after_a_run
from tests.collector.patience import wait_until
from tests.fakes.nvml.driver import FakeDriver

LOST = [pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED]


@pytest.mark.parametrize("code", LOST)
def test_a_card_that_is_lost_is_down_until_it_is_back(
    driver: FakeDriver, new_source: New, tmp_path: Path, code: int
) -> None:
    """L1: the others are read on, its values are not repeated, and it still counts."""
    uuids = [driver.card(index) for index in range(3)]
    with living(tmp_path, new_source) as live:
        for uuid in uuids:
            live.wait_for(uuid, 1)
        driver.lose(uuids[1], code)
        assert [live.is_up(uuid) for uuid in uuids] == [1, 0, 1]
        lost = live.card(uuids[1])
        assert (lost.values, lost.owners, lost.missing[GPU_BUSY]) == ({GPU_UP: 0}, {}, FieldState.LOST)
        assert live.card(uuids[1]).missing is lost.missing, "told anew only where it changes"
        assert [device.uuid for device in live.source.inventory()] == uuids
        driver.find(uuids[1])
        live.wait_for(uuids[1], 1)


def test_a_card_that_was_lost_while_no_collector_ran_is_expected(
    driver: FakeDriver, new_source: New, tmp_path: Path
) -> None:
    """L7: what is there is held against what the node has had, in every second."""
    uuids = [driver.card(index) for index in range(3)]
    state = state_after_a_run(tmp_path, new_source)
    driver.lose(uuids[2])
    with living(tmp_path, new_source, state) as live:
        assert [live.is_up(uuid) for uuid in uuids] == [1, 1, 0]
        assert len(live.source.inventory()) == 3
        driver.find(uuids[2])
        live.look()
        live.wait_for(uuids[2], 1)


def test_no_cards_where_there_were_some_are_lost_cards(driver: FakeDriver, new_source: New, tmp_path: Path) -> None:
    uuids = [driver.card(index) for index in range(2)]
    with living(tmp_path, new_source) as live:
        for uuid in uuids:
            live.wait_for(uuid, 1)
        for uuid in uuids:
            driver.remove(uuid)
        for uuid in uuids:
            live.wait_for(uuid, 0)
        assert len(live.source.inventory()) == 2


def test_a_card_that_is_taken_out_shifts_indexes_and_nothing_else(
    driver: FakeDriver, new_source: New, tmp_path: Path
) -> None:
    """L9: all that is known of a card goes by its UUID."""
    uuids = [driver.card(index, busy_percent=10 * index) for index in range(3)]
    with living(tmp_path, new_source) as live, capture_logs() as logs:
        for uuid in uuids:
            live.wait_for(uuid, 1)
        driver.remove(uuids[0])
        live.wait_for(uuids[0], 0)
        wait_until(lambda: {each.uuid: each.index for each in live.source.inventory()}[uuids[2]] == 1)
        assert [live.is_up(uuid) for uuid in uuids] == [0, 1, 1]
        assert live.card(uuids[2]).values[GPU_BUSY] == 0.2
        assert [log["gpu_uuid"] for log in logs if log["event"] == "card_lost"] == [uuids[0]]
        driver.plug(uuids[0])
        live.look()
        live.wait_for(uuids[0], 1)
        assert live.card(uuids[2]).values[GPU_BUSY] == 0.2


def test_a_card_that_is_put_in_is_found(driver: FakeDriver, new_source: New, tmp_path: Path) -> None:
    driver.card(0)
    with living(tmp_path, new_source) as live:
        new = driver.card(1)
        live.look()
        wait_until(lambda: new in {device.uuid for device in live.source.inventory()})
        live.wait_for(new, 1)
        assert live.source.changed.is_set(), "whoever reports the inventory need not wait for his time"


def test_a_card_that_hangs_where_it_is_looked_at_keeps_no_other_from_being_found(
    driver: FakeDriver, new_source: New, tmp_path: Path
) -> None:
    """L4: the look goes on without it, it is not asked again meanwhile, and no threads pile up."""
    uuids = [driver.card(index) for index in range(2)]
    with living(tmp_path, new_source) as live:
        live.wait_for(uuids[1], 1)
        fault = driver.fault(0, "nvmlDeviceGetName", uuids[0], hang=True)
        live.look()
        wait_until(lambda: fault.waiting == 1)
        new = driver.card(2)
        live.look()
        with capture_logs() as logs:
            wait_until(lambda: new in {device.uuid for device in live.source.inventory()})
        assert [(log["event"], log["index"]) for log in logs if "index" in log] == [("card_as_last_seen", 0)]
        assert fault.calls == 1
        live.wait_for(new, 1)
        assert live.is_up(uuids[0]) == 1, "what it answers is read on"
        fault.take_back()


def _assert_waited_for(live: LiveSource, uuid: str, logs: Sequence[Mapping[str, Any]]) -> None:
    """The look goes on still, for this card: it has no values yet, and is not taken for what it was."""
    assert "card_as_last_seen" not in [log["event"] for log in logs]
    assert live.is_up(uuid) is FieldState.NOT_READY


@pytest.mark.parametrize("call", ["nvmlDeviceGetUUID", "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPersistenceMode"])
def test_a_card_that_hangs_after_the_driver_was_loaded_again_keeps_no_other_waiting(
    driver: FakeDriver, new_source: New, tmp_path: Path, call: str
) -> None:
    """L4: the others have values while it is still waited for, which is for 2 s."""
    uuids = [driver.card(index) for index in range(8)]
    with living(tmp_path, new_source) as live, capture_logs() as logs:
        live.wait_for(uuids[0], 1)
        driver.unload()
        live.wait_for(uuids[0], 0)
        fault = driver.fault(0, call, uuids[5], hang=True)
        driver.load()
        for uuid in uuids[:5] + uuids[6:]:
            live.wait_for(uuid, 1)
        assert fault.waiting == 1
        _assert_waited_for(live, uuids[5], logs)
        fault.take_back()
        live.wait_for(uuids[5], 1)


def test_a_card_that_hangs_keeps_a_collector_that_knows_its_cards_from_nothing_at_its_start(
    driver: FakeDriver, new_source: New, tmp_path: Path
) -> None:
    """L4: as where it becomes a new process."""
    uuids = [driver.card(index) for index in range(8)]
    state = state_after_a_run(tmp_path, new_source)
    fault = driver.fault(0, "nvmlDeviceGetName", uuids[0], hang=True)
    with capture_logs() as logs, living(tmp_path, new_source, state) as live:
        for uuid in uuids[1:]:
            live.wait_for(uuid, 1)
        _assert_waited_for(live, uuids[0], logs)
        fault.take_back()
        live.wait_for(uuids[0], 1)


def test_a_card_that_answers_after_it_was_given_up_is_taken_up_then(
    driver: FakeDriver, new_source: New, tmp_path: Path
) -> None:
    """With persistence mode off the first question to a card starts it up, which takes seconds."""
    uuids = [driver.card(index, persistence_mode=0) for index in range(2)]
    fault = driver.fault(0, "nvmlDeviceGetHandleByIndex_v2", uuids[1], hang=True)
    with capture_logs() as logs, living(tmp_path, new_source) as live:
        assert [device.uuid for device in live.source.inventory()] == uuids[:1]
        assert "card_left_out" in [log["event"] for log in logs]
        looks = driver.calls("nvmlDeviceGetCount_v2")
        fault.take_back()
        wait_until(lambda: len(live.source.inventory()) == 2)
        assert driver.calls("nvmlDeviceGetCount_v2") == looks, "it need not be asked again, up to 5 s later"
        live.wait_for(uuids[1], 1)


def test_a_card_that_answers_no_question_is_mute_and_not_lost(
    driver: FakeDriver, new_source: New, tmp_path: Path
) -> None:
    uuid = driver.card(0)
    with living(tmp_path, new_source) as live:
        live.wait_for(uuid, 1)
        driver.fault(pynvml.NVML_ERROR_UNKNOWN, uuid=uuid)
        assert live.is_up(uuid) == "mute"
        with pytest.raises(UnavailableError, match="answers no question"):
            live.card(uuid)
        driver.clear_faults()
        live.wait_for(uuid, 1)
