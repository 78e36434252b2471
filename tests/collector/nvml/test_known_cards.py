"""What looks at the cards find, whatever reads of them find meanwhile."""

import threading
from collections.abc import Callable

import pynvml
import pytest
from structlog.testing import capture_logs

from collector.nvml.source import NvmlSource
from domain.series import GPU_SM_ACTIVE, GPU_UP
from tests.collector.nvml.mig_rig import mig_card, wait_until_measured
from tests.collector.patience import now_s, wait_until
from tests.fakes.nvml.driver import FakeDriver

Open = Callable[[], NvmlSource]


def _measured(driver: FakeDriver, open_source: Open) -> tuple[NvmlSource, str, str]:
    """A source that has measured the one MIG instance of a card; the UUIDs of card and instance."""
    card = mig_card(driver)
    uuid = driver.create_instance(card, "1g.10gb")
    driver.gpm(uuid, {2: 900})
    source = open_source()
    wait_until_measured(source, card)
    return source, card, uuid


def _generations(source: NvmlSource) -> list[int]:
    return [instance.generation for device in source.inventory() for instance in device.instances]


def test_an_instance_that_a_look_finds_changed_before_a_read_does_is_another(
    driver: FakeDriver, open_source: Open
) -> None:
    """M2: the look of every 5 s may fall between the change and the next second, and all that it sees is alike."""
    source, card, uuid = _measured(driver, open_source)

    driver.destroy_instance(uuid)
    assert driver.create_instance(card, "1g.10gb") == uuid
    assert _generations(source) == [2]
    reading = source.read(card, now_s())[1]
    assert reading.values[GPU_UP] == 1
    assert reading.values[GPU_SM_ACTIVE] is None, "its first window begins now"


def test_an_instance_of_a_card_that_was_away_is_another_whoever_saw_it_first(
    driver: FakeDriver, open_source: Open
) -> None:
    """M2: a look may find before any read that the card is gone, and that it is back."""
    source, card, _ = _measured(driver, open_source)

    driver.remove(card)
    assert _generations(source) == [1], "the card is as last seen"
    assert source.read(card, now_s())[1].values == {GPU_UP: 0}
    driver.plug(card)
    assert _generations(source) == [2]
    assert source.read(card, now_s())[1].values[GPU_SM_ACTIVE] is None, "its first window begins now"


def test_what_a_look_has_counted_a_read_that_began_before_does_not_count_again(
    driver: FakeDriver, open_source: Open
) -> None:
    card = mig_card(driver)
    uuid = driver.create_instance(card, "1g.10gb")
    source = open_source()
    source.read(card, now_s())
    fault = driver.fault(0, "nvmlDeviceGetMigMode", card, hang=True, times=1)
    reading = threading.Thread(target=source.read, args=(card, now_s()))
    reading.start()
    wait_until(lambda: fault.waiting == 1)
    driver.destroy_instance(uuid)
    driver.create_instance(card, "1g.10gb")
    assert _generations(source) == [2]
    fault.take_back()
    reading.join()

    assert _generations(source) == [2]


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_UNKNOWN, pynvml.NVML_ERROR_TIMEOUT])
def test_a_card_that_is_lost_is_so_although_another_fails_to_answer(
    driver: FakeDriver, open_source: Open, code: int
) -> None:
    """L7: and it is said once."""
    uuids = [driver.card(index) for index in range(3)]
    source = open_source()
    with capture_logs() as logs:
        driver.remove(uuids[2])
        source.inventory()
        assert source.read(uuids[2], now_s())[0].values == {GPU_UP: 0}
        driver.fault(code, "nvmlDeviceGetUUID", uuids[0])
        source.inventory()
        assert source.read(uuids[2], now_s())[0].values == {GPU_UP: 0}
        driver.clear_faults()
        source.inventory()
    assert [log["gpu_uuid"] for log in logs if log["event"] == "card_lost"] == [uuids[2]]
    driver.plug(uuids[2])
    source.inventory()
    assert source.read(uuids[2], now_s())[0].values[GPU_UP] == 1


def test_cards_that_are_there_no_more_are_not_counted_as_unseen(driver: FakeDriver, open_source: Open) -> None:
    uuids = [driver.card(index) for index in range(3)]
    source = open_source()
    driver.fault(pynvml.NVML_ERROR_UNKNOWN, "nvmlDeviceGetUUID", uuids[2])
    source.inventory()
    driver.remove(uuids[2])
    source.inventory()
    driver.fault(pynvml.NVML_ERROR_UNKNOWN, "nvmlDeviceGetUUID", uuids[0])
    with capture_logs() as logs:
        source.inventory()

    assert [(log["index"], log["unseen_cards"]) for log in logs if "unseen_cards" in log] == [(0, 1)]


@pytest.mark.parametrize("call", ["nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetAttributes_v2"])
def test_a_card_of_which_garbage_is_told_is_as_it_was_or_is_left_out(
    driver: FakeDriver, open_source: Open, call: str
) -> None:
    """What an inventory says goes to the allocator, which would grant a card of 2^64 - 1 bytes."""
    known = mig_card(driver)
    instances = [driver.create_instance(known, "1g.10gb")]
    source = open_source()
    (device,) = source.inventory()
    unknown = mig_card(driver, 1)
    instances.append(driver.create_instance(unknown, "1g.10gb"))
    for uuid in (known, unknown, *instances):
        driver.fault(0, call, uuid, garbage=2**64 - 1)
    with capture_logs() as logs:
        assert source.inventory() == (device,)
    assert {(log["index"], log["unseen_cards"]) for log in logs if "unseen_cards" in log} == {(0, 1), (1, 2)}
    driver.clear_faults()
    assert [each.uuid for each in source.inventory()] == [known, unknown]
