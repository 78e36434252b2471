"""XID errors from the driver's events and from the kernel's log, each counted once, on the card that they are of."""

import threading
from collections.abc import Callable
from pathlib import Path

import pynvml
import pytest
from structlog.testing import capture_logs

from collector.call_times import CallTimes
from collector.node_state import NodeState
from collector.nvml.driver_life import DriverLife
from collector.nvml.events import XidWatch
from collector.nvml.known_cards import KnownCards
from collector.xid_events import XidEvents
from domain.samples import FieldState
from domain.series import GPU_UP, GPU_XID_EVENTS
from tests.collector.nvml.life_rig import LiveSource, New, living
from tests.collector.patience import CLOCK, wait_until
from tests.fakes.nvml.driver import FakeDriver

XID = 8


def _counts(live: LiveSource, uuid: str) -> dict[str, int | float]:
    return dict(live.card(uuid).parts.get(GPU_XID_EVENTS, {}))


def _wait_for_counts(live: LiveSource, uuid: str, counts: dict[str, int]) -> None:
    wait_until(lambda: _counts(live, uuid) == counts)


def _write(live: LiveSource, text: str) -> None:
    """A record as /dev/kmsg has it."""
    with live.kernel_log.open("a") as log:
        log.write(f"3,4711,98765432,-;{text}\n SUBSYSTEM=pci\n")


def _listening(driver: FakeDriver) -> None:
    """Wait until the source waits for events."""
    wait_until(lambda: driver.calls("nvmlEventSetWait_v2") > 0)


def test_the_same_xid_twice_is_two_events(driver: FakeDriver, new_source: New, tmp_path: Path) -> None:
    """R10: a gauge would stay at 31."""
    uuids = [driver.card(index) for index in range(2)]
    with living(tmp_path, new_source) as live:
        _listening(driver)
        driver.event(uuids[1], XID, 31)
        driver.event(uuids[1], XID, 31)
        driver.event(uuids[1], XID, 79)
        _wait_for_counts(live, uuids[1], {"31": 2, "79": 1})
        assert _counts(live, uuids[0]) == {}
        assert live.card(uuids[1]).parts[GPU_XID_EVENTS] is live.card(uuids[1]).parts[GPU_XID_EVENTS]


def test_counts_go_on_over_a_restart_and_count_nothing_again(
    driver: FakeDriver, new_source: New, tmp_path: Path
) -> None:
    """R10: what the driver or the log still show of before is no event of now."""
    uuid = driver.card(0)
    path = tmp_path / "node.json"
    with living(tmp_path, new_source, NodeState(path)) as live:
        _listening(driver)
        driver.event(uuid, XID, 31)
        _wait_for_counts(live, uuid, {"31": 1})
        _write(live, "NVRM: Xid (PCI:0000:65:00): 13, pid=1, name=a, Graphics Exception")
        _wait_for_counts(live, uuid, {"13": 1, "31": 1})
    waits = driver.calls("nvmlEventSetWait_v2")
    with living(tmp_path, new_source, NodeState(path)) as live:
        wait_until(lambda: driver.calls("nvmlEventSetWait_v2") > waits + 1)
        assert _counts(live, uuid) == {"13": 1, "31": 1}
        _write(live, "NVRM: Xid (PCI:0000:65:00): 13, pid=1, name=a, Graphics Exception")
        _wait_for_counts(live, uuid, {"13": 2, "31": 1})


def test_what_the_kernel_told_while_no_collector_ran_is_counted_by_the_next(
    driver: FakeDriver, new_source: New, tmp_path: Path
) -> None:
    """R10, R11: once, and where the machine was off meanwhile on the card that is in the slot now."""
    old, path = driver.card(0, uuid="GPU-f"), tmp_path / "node.json"
    with living(tmp_path, new_source, NodeState(path, "boot-1")) as live:
        live.wait_for(old, 1)
        _write(live, "NVRM: Xid (PCI:0000:65:00): 13, pid=1, name=a, Graphics Exception")
        _wait_for_counts(live, old, {"13": 1})
    _write(live, "NVRM: Xid (PCI:0000:65:00): 79, pid=1, name=a, GPU has fallen off the bus.")
    with living(tmp_path, new_source, NodeState(path, "boot-1")) as live:
        _wait_for_counts(live, old, {"13": 1, "79": 1})
    with living(tmp_path, new_source, NodeState(path, "boot-1")) as live:
        _write(live, "NVRM: Xid (PCI:0000:65:00): 45, pid=1, name=a, Ch 00000008")
        _wait_for_counts(live, old, {"13": 1, "45": 1, "79": 1})
    driver.remove(old)
    new = driver.card(1, uuid="GPU-0", bus_id="00000000:65:00.0")
    live.kernel_log.write_text("")
    _write(live, "NVRM: Xid (PCI:0000:65:00): 31, pid=7, MMU Fault")
    with living(tmp_path, new_source, NodeState(path, "boot-2")) as live:
        wait_until(lambda: new in {device.uuid for device in live.source.inventory()})
        _wait_for_counts(live, new, {"31": 1})
        assert _counts(live, old) == {"13": 1, "45": 1, "79": 1}


def test_an_event_that_only_the_kernel_tells_of_is_its_cards_even_when_that_is_lost(
    driver: FakeDriver, new_source: New, tmp_path: Path
) -> None:
    """R11: by the bus id of the inventory that was last seen."""
    uuids = [driver.card(0), driver.card(1, bus_id="00000000:AE:00.0")]
    with living(tmp_path, new_source) as live, capture_logs() as logs:
        live.wait_for(uuids[1], 1)
        driver.lose(uuids[1])
        _write(live, "NVRM: Xid (PCI:0000:ae:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")
        _wait_for_counts(live, uuids[1], {"79": 1})
        assert live.card(uuids[1]).values == {GPU_UP: 0}
        (said,) = [log for log in logs if log["event"] == "xid"]
        assert (said["gpu_uuid"], said["xid"], said["told_by"]) == (uuids[1], 79, "kernel_log")
        assert said["text"].endswith("GPU has fallen off the bus.")


def test_a_slot_is_that_of_the_card_that_is_in_it(driver: FakeDriver, new_source: New, tmp_path: Path) -> None:
    """R11: one that was taken out is remembered there."""
    old = driver.card(0, uuid="GPU-f")
    with living(tmp_path, new_source) as live:
        live.wait_for(old, 1)
        driver.remove(old)
        new = driver.card(1, uuid="GPU-0", bus_id="00000000:65:00.0")
        live.look()
        wait_until(lambda: new in {device.uuid for device in live.source.inventory()})
        live.wait_for(new, 1)
        _write(live, "NVRM: Xid (PCI:0000:65:00): 31, pid=7, MMU Fault")
        wait_until(lambda: _counts(live, new) == {"31": 1} or _counts(live, old) == {"31": 1})
        assert _counts(live, old) == {}


def test_a_card_that_fails_to_be_listened_to_is_tried_again(driver: FakeDriver) -> None:
    uuid = driver.card(0)
    life, state = DriverLife(CallTimes(CLOCK), lambda: None), NodeState(None)
    life.open()
    known, stop, late_s = KnownCards(life, state), threading.Event(), [0.0]
    known.look()
    fault = driver.fault(pynvml.NVML_ERROR_UNKNOWN, "nvmlDeviceRegisterEvents", uuid)
    events = XidEvents(state, CLOCK.monotonic_s)
    watch = XidWatch(life, events, known.cards, lambda: CLOCK.monotonic_s() + late_s[0])
    listening = threading.Thread(target=watch.run, args=(stop,))
    with capture_logs() as logs:
        listening.start()
        wait_until(lambda: driver.calls("nvmlEventSetWait_v2") > 2)
        assert fault.hits == 1
        late_s[0] += 60
        wait_until(lambda: fault.hits == 2)
        fault.take_back()
        late_s[0] += 60
        wait_until(lambda: driver.calls("nvmlDeviceRegisterEvents") == 3)
        driver.event(uuid, XID, 31)
        wait_until(lambda: dict(events.counts(uuid)) == {"31": 1})
        stop.set()
        listening.join()
        known.close()
        life.close()
    assert [log["event"] for log in logs] == ["xid_events_untold", "xid"], "each once"


def test_an_event_that_both_tell_of_is_counted_once(driver: FakeDriver, new_source: New, tmp_path: Path) -> None:
    """R11: whichever comes first."""
    uuid = driver.card(0)
    with living(tmp_path, new_source) as live:
        _listening(driver)
        driver.event(uuid, XID, 48)
        _write(live, "NVRM: Xid (PCI:0000:65:00): 48, pid=7, DBE")
        _write(live, "NVRM: Xid (PCI:0000:65:00): 63, pid=7, Row Remapper")
        wait_until(lambda: "63" in _counts(live, uuid) and "48" in _counts(live, uuid))
        assert _counts(live, uuid) == {"48": 1, "63": 1}


def test_an_event_says_its_instance_and_comes_while_nothing_is_read(
    driver: FakeDriver, new_source: New, tmp_path: Path
) -> None:
    uuid = driver.card(0, "NVIDIA H100 80GB HBM3", mig_mode=1, full_card_sms=132)
    with living(tmp_path, new_source) as live, capture_logs() as logs:
        _listening(driver)
        driver.event(uuid, XID, 43, gi_id=3, ci_id=0)
        _write(live, "NVRM: Xid (PCI:0000:65:00 GPU-I:05 GPU-CI:01): 45, pid=7, Ch 00000008")
        _wait_for_counts(live, uuid, {"43": 1, "45": 1})
        where = {log["xid"]: (log["gi_id"], log["ci_id"]) for log in logs if log["event"] == "xid"}
        assert where == {43: (3, 0), 45: (5, 1)}
        live.desk.signal(quiesce=True)
        live.wait_for(uuid, FieldState.QUIESCED)
        _write(live, "NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus.")
        _wait_for_counts(live, uuid, {"43": 1, "45": 1, "79": 1})


def test_an_event_of_a_card_that_nobody_knows_is_said_and_not_counted(
    driver: FakeDriver, new_source: New, tmp_path: Path
) -> None:
    uuid = driver.card(0)
    with living(tmp_path, new_source) as live, capture_logs() as logs:
        live.wait_for(uuid, 1)
        _write(live, "NVRM: Xid (PCI:0000:ff:00): 79, GPU has fallen off the bus.")
        wait_until(lambda: any(log["event"] == "xid_of_unknown_card" for log in logs))
        assert _counts(live, uuid) == {}


@pytest.mark.parametrize("without", [["nvmlEventSetWait_v2", "nvmlEventSetWait"], ["nvmlEventSetCreate"]])
def test_a_driver_without_events_leaves_them_to_the_kernel_and_it_is_said_once(
    use_driver: Callable[[Path], FakeDriver],
    build_nvml: Callable[..., Path],
    new_source: New,
    tmp_path: Path,
    without: list[str],
) -> None:
    driver = use_driver(build_nvml(tmp_path, without=without))
    uuid = driver.card(0)
    with capture_logs() as logs, living(tmp_path, new_source) as live:
        wait_until(lambda: any(log["event"] == "xid_events_untold" for log in logs))
        _write(live, "NVRM: Xid (PCI:0000:65:00): 31, pid=7, MMU Fault")
        _wait_for_counts(live, uuid, {"31": 1})
        CLOCK.sleep_s(1.5)
    assert [log["event"] for log in logs].count("xid_events_untold") == 1


def test_a_library_that_does_not_wait_keeps_nobody_busy(driver: FakeDriver, new_source: New, tmp_path: Path) -> None:
    """It answers at once, and says nothing."""
    driver.card(0)
    driver.fault(pynvml.NVML_ERROR_TIMEOUT, "nvmlEventSetWait_v2")
    with living(tmp_path, new_source):
        _listening(driver)
        before, began_s = driver.calls("nvmlEventSetWait_v2"), CLOCK.monotonic_s()
        CLOCK.sleep_s(1.0)
        calls = driver.calls("nvmlEventSetWait_v2") - before
        assert calls <= (CLOCK.monotonic_s() - began_s) / 0.25 + 2


def test_a_card_that_is_lost_does_not_make_the_others_deaf(driver: FakeDriver, new_source: New, tmp_path: Path) -> None:
    uuids = [driver.card(index) for index in range(2)]
    with living(tmp_path, new_source) as live:
        _listening(driver)
        driver.lose(uuids[0])
        driver.fault(pynvml.NVML_ERROR_GPU_IS_LOST, "nvmlEventSetWait_v2", times=1)
        sets = driver.calls("nvmlEventSetCreate")
        wait_until(lambda: driver.calls("nvmlEventSetCreate") > sets)
        wait_until(lambda: driver.calls("nvmlDeviceRegisterEvents") >= 3)
        driver.event(uuids[1], XID, 31)
        _wait_for_counts(live, uuids[1], {"31": 1})
        assert driver.opened().event_sets == 1
