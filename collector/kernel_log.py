"""The kernel's log, in which the driver tells of XID errors even where its events do not.

Lines, as open-gpu-kernel-modules and its forebears write them (kernel_rc.c; before 340 without "PCI:"):

    NVRM: Xid (PCI:0000:ae:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
    NVRM: Xid (PCI:0000:29:00 GPU-I:05 GPU-CI:00): 31, pid=1213, name=python3, Ch 00000008, ...
    NVRM: Xid (0000:03:00): 59, 0077(1564) 00000000 00000000
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event
from typing import NamedTuple

import structlog

from collector.kernel_records import KernelRecords
from collector.xid_events import Xid, XidEvents, XidSource

_LOOK_SECONDS = 0.25
# By then it has been looked which card is in which slot, unless the driver hangs; after a boot it can be another.
_FIRST_LOOK_SECONDS = 0.5
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
    """The log of this boot from where it was heard to before; where nobody has counted from it yet, from here on."""

    def __init__(self, path: Path, events: XidEvents, cards: Callable[[], Mapping[PciAddress, str]]) -> None:
        """`path` is /dev/kmsg; `cards` are the UUIDs of all cards that were ever seen, by their addresses.

        Where it may not be read, this is said, and there is nothing to listen to.
        """
        self._events = events
        self._cards = cards
        self._path = path
        self._lost = 0
        self._records: KernelRecords | None = None
        try:
            self._records = KernelRecords(path, events.log_heard_until)
        except OSError as error:
            self._give_up(error)

    def run(self, stop: Event) -> None:
        """Listen until `stop` is set, or until the log fails to be read, which is said."""
        if self._records is None:
            return
        try:
            if stop.wait(_FIRST_LOOK_SECONDS):
                return
            counted = self._hear(self._records)
            if counted:
                log.warning("xids_while_away", counted=counted, remedy="none: they are among the counts from now on")
            while not stop.wait(_LOOK_SECONDS):
                self._hear(self._records)
            self._events.heard_log(self._records.heard_until, is_end=True)
        except OSError as error:
            self._give_up(error)
        finally:
            self._records.close()

    def _hear(self, records: KernelRecords) -> int:
        """Hear what is new, and say of how many XIDs nobody had told before."""
        counted = sum(self._hear_line(line, records.heard_until) for line in records.unheard())
        if records.is_another:
            reason = "it ends before what was heard of it"
            remedy = "none: it is heard from here on; what was written before is not counted"
            log.warning("kernel_log_begun_anew", path=str(self._path), reason=reason, remedy=remedy)
            records.skip()
        self._events.heard_log(records.heard_until)
        if records.lost > self._lost:
            remedy = "let the kernel keep more, by log_buf_len; an XID in them is counted if the driver told of it, too"
            log.warning("kernel_log_overwritten", unheard_records=records.lost - self._lost, remedy=remedy)
            self._lost = records.lost
        return counted

    def _hear_line(self, line: str, until: int) -> bool:
        """`until` is the place behind it. Whether it is of an XID of which nobody had told before."""
        told = read_xid(line)
        if told is None:
            return False
        gpu_uuid = self._cards().get(told.card)
        if gpu_uuid is None:
            address = f"{told.card.domain:04x}:{told.card.bus:02x}:{told.card.device:02x}"
            log.error("xid_of_unknown_card", pci_address=address, xid=told.code, text=told.text)
            return False
        xid = Xid(told.code, gpu_uuid, told.gi_id, told.ci_id)
        return self._events.hear(xid, XidSource.KERNEL_LOG, told.text, log_until=until)

    def _give_up(self, error: OSError) -> None:
        self._events.lose_log()
        remedy = "run the collector as root, or with CAP_SYSLOG; in a container, give it /dev/kmsg"
        log.warning("kernel_log_unreadable", path=str(self._path), error=error.strerror, remedy=remedy)


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
