"""Lines of the kernel's log in which drivers of several ages tell of an XID, and a log that may not be read."""

import os
import threading
from contextlib import closing, suppress
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from collector.kernel_log import KernelLog, PciAddress, XidLine, pci_address, read_xid
from collector.node_state import HeardLog, NodeState
from collector.xid_events import XidEvents
from tests.collector.disks import descriptors_of
from tests.collector.packet_log import PacketLog
from tests.collector.patience import CLOCK, wait_until

CARD = PciAddress(0, 0xAE, 0)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "4,12,56,-;NVRM: Xid (PCI:0000:ae:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            XidLine(79, CARD, None, None, "pid='<unknown>', name=<unknown>, GPU has fallen off the bus."),
        ),
        (
            "NVRM: Xid (PCI:0000:ae:00): 79, GPU has fallen off the bus.",
            XidLine(79, CARD, None, None, "GPU has fallen off the bus."),
        ),
        (
            "[  123.4] NVRM: Xid (PCI:0000:AE:00): 31, pid=1213, Ch 00000000, engmask 00000101",
            XidLine(31, CARD, None, None, "pid=1213, Ch 00000000, engmask 00000101"),
        ),
        (
            "NVRM: Xid (PCI:0000:ae:00 GPU-I:05): 45, pid=7, name=python3, Ch 00000008",
            XidLine(45, CARD, 5, None, "pid=7, name=python3, Ch 00000008"),
        ),
        (
            "NVRM: Xid (PCI:0000:ae:00 GPU-I:13 GPU-CI:02): 94, Contained: SM (0x1). RST: No, D-RST: No",
            XidLine(94, CARD, 13, 2, "Contained: SM (0x1). RST: No, D-RST: No"),
        ),
        # A GB200 has its cards in several domains.
        ("NVRM: Xid (PCI:0019:01:00): 149, NETIR", XidLine(149, PciAddress(0x19, 1, 0), None, None, "NETIR")),
        # Before 340.
        (
            "NVRM: Xid (0000:03:00): 59, 0077(1564) 00000000",
            XidLine(59, PciAddress(0, 3, 0), None, None, "0077(1564) 00000000"),
        ),
        ("NVRM: GPU at PCI:0000:ae:00: GPU-c24840ec-8de1-83d5-b126-08000173ae32", None),
        ("NVRM: The NVIDIA GPU 0000:b3:00.0", None),
        ("nvidia-nvswitch3: SXid (PCI:0000:c5:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", None),
        ("usb 1-1: new device", None),
    ],
)
def test_a_line_tells_code_card_and_instance(line: str, told: XidLine | None) -> None:
    """R11: as drivers from before 340 to 610 have written it."""
    assert read_xid(line) == told


@pytest.mark.parametrize(
    ("bus_id", "address"),
    [
        ("00000000:AE:00.0", CARD),
        ("0000:ae:00.0", CARD),
        ("00000019:01:00.0", PciAddress(0x19, 1, 0)),
        ("", None),
        ("N/A", None),
    ],
)
def test_bus_ids_are_the_same_in_every_length(bus_id: str, address: PciAddress | None) -> None:
    assert pci_address(bus_id) == address


def _events() -> XidEvents:
    return XidEvents(NodeState(None), CLOCK.monotonic_s)


def test_a_log_that_may_not_be_read_is_said_once(tmp_path: Path) -> None:
    with capture_logs() as logs:
        KernelLog(tmp_path / "none", _events(), lambda: {CARD: "GPU-1"}).run(threading.Event())
    (said,) = logs
    assert (said["event"], said["log_level"]) == ("kernel_log_unreadable", "warning")
    assert "CAP_SYSLOG" in said["remedy"]


def test_a_log_that_fails_to_be_read_is_said_and_ends_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    log = KernelLog(tmp_path / "log", _events(), lambda: {CARD: "GPU-1"})
    folder = os.open(tmp_path, os.O_RDONLY)
    (descriptor,) = descriptors_of(tmp_path / "log")
    os.dup2(folder, descriptor)
    os.close(folder)
    with capture_logs() as logs:
        log.run(threading.Event())
    assert [(log["event"], log["error"]) for log in logs] == [("kernel_log_unreadable", "Is a directory")]


def test_a_line_that_comes_in_pieces_is_one_line(tmp_path: Path) -> None:
    path, events, stop = tmp_path / "log", _events(), threading.Event()
    path.write_text("NVRM: Xid (PCI:0000:ae:00): 31, of before\n")
    log = KernelLog(path, events, lambda: {CARD: "GPU-1"})
    thread = threading.Thread(target=log.run, args=(stop,))
    thread.start()
    for piece in ("NVRM: Xid (PCI:0000:ae:00", "): 79, GPU has", " fallen off the bus.\nNVRM: X"):
        with path.open("a") as file:
            file.write(piece)
        CLOCK.sleep_s(0.3)
    wait_until(lambda: dict(events.counts("GPU-1")) == {"79": 1})
    stop.set()
    thread.join()


def test_records_that_the_kernel_overwrote_are_said(tmp_path: Path) -> None:
    """Nobody knows whether they told of an XID; what is left is counted."""
    state, stop = NodeState(tmp_path / "node.json"), threading.Event()
    state.keep(log=HeardLog(8))
    events = XidEvents(state, CLOCK.monotonic_s)
    with closing(PacketLog()) as device, capture_logs() as logs:
        device.write(20, "NVRM: Xid (PCI:0000:ae:00): 79, GPU has fallen off the bus.")
        thread = threading.Thread(target=KernelLog(device.path, events, lambda: {CARD: "GPU-1"}).run, args=(stop,))
        thread.start()
        wait_until(lambda: dict(events.counts("GPU-1")) == {"79": 1})
        device.write(21, "NVRM: Xid (PCI:0000:ae:00): 31, MMU Fault")
        wait_until(lambda: dict(events.counts("GPU-1")) == {"31": 1, "79": 1})
        stop.set()
        thread.join()
    assert state.remembered.log == HeardLog(22)
    overwritten = [log["unheard_records"] for log in logs if log["event"] == "kernel_log_overwritten"]
    assert overwritten == [12]


def _reads_kernel_log() -> bool:
    """By the attempt: the kernel may refuse (dmesg_restrict) who may read the file."""
    with suppress(OSError):
        os.close(os.open("/dev/kmsg", os.O_RDONLY))
        return True
    return False


@pytest.mark.skipif(not _reads_kernel_log(), reason="needs to read the kernel's log")
def test_the_machines_own_log_is_listened_to_without_an_error() -> None:
    """The device has no end, and answers in records."""
    stop = threading.Event()
    log = KernelLog(Path("/dev/kmsg"), _events(), dict)
    thread = threading.Thread(target=log.run, args=(stop,))
    with capture_logs() as logs:
        thread.start()
        CLOCK.sleep_s(0.6)
        assert thread.is_alive()
        stop.set()
        thread.join()
    assert logs == []
