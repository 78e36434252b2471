"""The kernel's log, in which the driver tells of XID errors even where its events do not.

Lines, as open-gpu-kernel-modules and its forebears write them (kernel_rc.c; before 340 without "PCI:"):

    NVRM: Xid (PCI:0000:ae:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
    NVRM: Xid (PCI:0000:29:00 GPU-I:05 GPU-CI:00): 31, pid=1213, name=python3, Ch 00000008, ...
    NVRM: Xid (0000:03:00): 59, 0077(1564) 00000000 00000000
"""

import errno
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import NamedTuple

import structlog

from collector.xid_events import Xid, XidEvents, XidSource

_LOOK_SECONDS = 0.25
# One read of the device is one record, of no more than this (CONSOLE_EXT_LOG_MAX).
_RECORD_BYTES = 8_192
_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<domain>[0-9a-f]{4,8}):(?P<bus>[0-9a-f]{2}):(?P<device>[0-9a-f]{2})(?:\.[0-9a-f])?"
    r"(?: GPU-I:(?P<gi_id>\d+))?(?: GPU-CI:(?P<ci_id>\d+))?[^)]*\): (?P<code>\d+),? ?(?P<text>.*)",
    re.IGNORECASE,
)

log = structlog.get_logger()


class PciAddress(NamedTuple):
    """Where a card is plugged in; the driver, the kernel and its tools write it in different lengths."""

    domain: int
    bus: int
    device: int


class XidLine(NamedTuple):
    """What a line of the log tells of an XID."""

    code: int
    card: PciAddress
    gi_id: int | None
    ci_id: int | None
    text: str


class KernelLog:
    """The log from here on; what was written before is no event of now."""

    def __init__(self, path: Path, events: XidEvents, cards: Callable[[], Mapping[PciAddress, str]]) -> None:
        """`path` is /dev/kmsg; `cards` are the UUIDs of all cards that were ever seen, by their addresses.

        Where it may not be read, this is said, and there is nothing to listen to.
        """
        self._events = events
        self._cards = cards
        self._rest = b""
        self._path = path
        self._descriptor: int | None = None
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._descriptor, 0, os.SEEK_END)
        except OSError as error:
            self._say_unreadable(error)

    def run(self, stop: Event) -> None:
        """Listen until `stop` is set, or until the log fails to be read, which is said."""
        if self._descriptor is None:
            return
        try:
            while not stop.wait(_LOOK_SECONDS):
                for line in self._lines(self._descriptor):
                    self._hear(line)
        except OSError as error:
            self._say_unreadable(error)
        finally:
            os.close(self._descriptor)

    def _say_unreadable(self, error: OSError) -> None:
        remedy = "run the collector as root, or with CAP_SYSLOG; in a container, give it /dev/kmsg"
        log.warning("kernel_log_unreadable", path=str(self._path), error=error.strerror, remedy=remedy)

    def _lines(self, descriptor: int) -> Iterator[str]:
        """What has been written since; a record of the device, or a line of a file, at a time."""
        while (record := _record(descriptor)) is not None:
            *lines, self._rest = (self._rest + record).split(b"\n")
            yield from (line.decode(errors="replace") for line in lines)

    def _hear(self, line: str) -> None:
        told = read_xid(line)
        if told is None:
            return
        gpu_uuid = self._cards().get(told.card)
        if gpu_uuid is None:
            address = f"{told.card.domain:04x}:{told.card.bus:02x}:{told.card.device:02x}"
            log.error("xid_of_unknown_card", pci_address=address, xid=told.code, text=told.text)
        else:
            self._events.hear(Xid(told.code, gpu_uuid, told.gi_id, told.ci_id), XidSource.KERNEL_LOG, told.text)


def read_xid(line: str) -> XidLine | None:
    """The XID that a line of the log tells of; None for any other line."""
    match = _XID.search(line)
    if match is None:
        return None
    card = PciAddress(int(match["domain"], 16), int(match["bus"], 16), int(match["device"], 16))
    gi_id, ci_id = (None if match[name] is None else int(match[name]) for name in ("gi_id", "ci_id"))
    return XidLine(int(match["code"]), card, gi_id, ci_id, match["text"].strip())


def pci_address(bus_id: str) -> PciAddress | None:
    """The address in a bus id such as `00000000:AE:00.0`; None where it is none."""
    match = re.fullmatch(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})(?:\.[0-9a-f])?", bus_id, re.IGNORECASE)
    return None if match is None else PciAddress(*(int(part, 16) for part in match.groups()))


def _record(descriptor: int) -> bytes | None:
    """The next record; None where there is none yet. Those that were overwritten before we came are passed over."""
    while True:
        try:
            return os.read(descriptor, _RECORD_BYTES) or None
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno != errno.EPIPE:
                raise
