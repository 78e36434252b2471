"""Events are waited for, and each is told once to each set that asked for it."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pynvml
import pytest

from tests.fakes.nvml.driver import Can, FakeDriver
from tests.fakes_nvml.answers import code_of

XID = pynvml.nvmlEventTypeXidCriticalError
LONG_MS = 60_000


@pytest.fixture
def event_set(driver: FakeDriver, handle: Any) -> Iterator[Any]:
    made = pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(handle, XID, made)
    yield made
    code_of(pynvml.nvmlEventSetFree, made)


def test_a_wait_lasts_until_something_happens(driver: FakeDriver, handle: Any, event_set: Any) -> None:
    uuid = pynvml.nvmlDeviceGetUUID(handle)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(pynvml.nvmlEventSetWait_v2, event_set, LONG_MS)
        assert not waiting.done()
        driver.event(uuid, XID, 79, gi_id=2, ci_id=0)
        event = waiting.result()
    assert (event.eventType, event.eventData, event.gpuInstanceId, event.computeInstanceId) == (XID, 79, 2, 0)
    assert pynvml.nvmlDeviceGetUUID(event.device) == uuid


def test_each_event_is_told_once_and_in_order(driver: FakeDriver, handle: Any, event_set: Any) -> None:
    """R10: the same number twice is two events."""
    uuid = pynvml.nvmlDeviceGetUUID(handle)
    for number in (31, 31, 79):
        driver.event(uuid, XID, number)
    assert [pynvml.nvmlEventSetWait_v2(event_set, 0).eventData for _ in range(3)] == [31, 31, 79]
    assert code_of(pynvml.nvmlEventSetWait_v2, event_set, 0) == pynvml.NVML_ERROR_TIMEOUT
    assert code_of(pynvml.nvmlEventSetWait_v2, event_set, 20) == pynvml.NVML_ERROR_TIMEOUT


def test_what_was_not_asked_for_is_not_told(driver: FakeDriver, handle: Any, event_set: Any) -> None:
    other = driver.card(1)
    driver.event(other, XID, 79)
    driver.event(pynvml.nvmlDeviceGetUUID(handle), pynvml.nvmlEventTypeClock)
    driver.system_event(other, pynvml.nvmlSystemEventTypeGpuDriverBind)
    assert code_of(pynvml.nvmlEventSetWait_v2, event_set, 0) == pynvml.NVML_ERROR_TIMEOUT


def test_what_happened_before_a_set_was_made_is_not_told_to_it(driver: FakeDriver, handle: Any) -> None:
    driver.event(pynvml.nvmlDeviceGetUUID(handle), XID, 79)
    late = pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(handle, XID, late)
    assert code_of(pynvml.nvmlEventSetWait_v2, late, 0) == pynvml.NVML_ERROR_TIMEOUT
    pynvml.nvmlEventSetFree(late)


def test_a_card_offers_some_types_and_no_others(driver: FakeDriver, handle: Any, event_set: Any) -> None:
    uuid = pynvml.nvmlDeviceGetUUID(handle)
    offered = pynvml.nvmlDeviceGetSupportedEventTypes(handle)
    assert offered & XID
    driver.set(uuid, supported_events=XID)
    both = XID | pynvml.nvmlEventTypeGpuRecoveryAction
    assert code_of(pynvml.nvmlDeviceRegisterEvents, handle, both, event_set) == pynvml.NVML_ERROR_NOT_SUPPORTED
    driver.deny(uuid, Can.EVENTS)
    assert code_of(pynvml.nvmlDeviceRegisterEvents, handle, XID, event_set) == pynvml.NVML_ERROR_NOT_SUPPORTED


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_DRIVER_NOT_LOADED, pynvml.NVML_ERROR_GPU_IS_LOST])
def test_a_wait_ends_when_the_driver_goes(driver: FakeDriver, event_set: Any, code: int) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(code_of, pynvml.nvmlEventSetWait_v2, event_set, LONG_MS)
        driver.unload(code)
        assert waiting.result() == code


def test_a_wait_ends_when_its_set_is_freed(driver: FakeDriver, event_set: Any) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(code_of, pynvml.nvmlEventSetWait_v2, event_set, LONG_MS)
        assert driver.opened().event_sets == 1
        pynvml.nvmlEventSetFree(event_set)
        assert waiting.result() == pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert driver.opened().event_sets == 0
    assert code_of(pynvml.nvmlEventSetFree, event_set) == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_more_events_than_are_kept_lose_the_oldest(driver: FakeDriver, handle: Any, event_set: Any) -> None:
    for number in range(300):
        driver.event(pynvml.nvmlDeviceGetUUID(handle), XID, number)
    assert pynvml.nvmlEventSetWait_v2(event_set, 0).eventData == 300 - 256


def test_the_driver_says_that_it_let_go_of_a_card(driver: FakeDriver) -> None:
    uuid = driver.card(0)
    version = pynvml.nvmlSystemEventSetCreateRequest_v1
    made = pynvml.nvmlSystemEventSetCreate(version)
    both = pynvml.nvmlSystemEventTypeGpuDriverUnbind | pynvml.nvmlSystemEventTypeGpuDriverBind
    pynvml.nvmlSystemRegisterEvents(pynvml.nvmlSystemRegisterEventRequest_v1, both, made)
    room = (pynvml.c_nvmlSystemEventData_v1_t * 4)()

    def wait(timeout_ms: int) -> list[dict[str, int]]:
        request = pynvml.nvmlSystemEventSetWaitRequest_v1
        told: list[dict[str, int]] = pynvml.nvmlSystemEventSetWait(request, made, timeout_ms, room, 4)
        return told

    assert driver.opened().system_event_sets == 1
    assert wait(0) == []
    pulled = threading.Timer(0.01, driver.remove, [uuid])
    pulled.start()
    assert wait(LONG_MS) == [{"eventType": pynvml.nvmlSystemEventTypeGpuDriverUnbind, "gpuId": 0x6500}]
    pulled.join()
    driver.plug(uuid)
    assert [event["eventType"] for event in wait(0)] == [pynvml.nvmlSystemEventTypeGpuDriverBind]
    pynvml.nvmlSystemEventSetFree(pynvml.nvmlSystemEventSetFreeRequest_v1, made)
    assert driver.opened().system_event_sets == 0
