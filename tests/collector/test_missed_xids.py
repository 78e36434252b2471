"""XID errors that the kernel's log tells of while no collector runs: each counted once by the next, however often it is
killed, and none of another boot's twice."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from collector.kernel_log import KernelLog, PciAddress
from collector.node_state import HeardLog, NodeState
from collector.xid_events import Xid, XidEvents, XidSource
from domain.clock import MICROSECONDS, FrozenClock
from tests.collector.patience import CLOCK, wait_until

CARD, UUID = PciAddress(0, 0xAE, 0), "GPU-1"
DRIVER = XidSource.DRIVER
# A collector as far as XIDs are concerned, until it is killed.
LISTEN = """
import sys, threading
from pathlib import Path
from collector.kernel_log import KernelLog, PciAddress
from collector.node_state import NodeState
from collector.xid_events import XidEvents
from domain.clock import SystemClock
folder, clock = Path(sys.argv[1]), SystemClock()
state = NodeState(folder / "node.json", "boot-1")
log = KernelLog(folder / "kmsg", XidEvents(state, clock.monotonic_s), lambda: {PciAddress(0, 0xAE, 0): "GPU-1"})
threading.Thread(target=log.run, args=(threading.Event(),), daemon=True).start()
while True:
    state.save()
    clock.sleep_s(0.02)
"""


class Node:
    """What a collector keeps in a folder, and the log that it listens to there."""

    def __init__(self, folder: Path, boot: str = "boot-1") -> None:
        self.state = NodeState(folder / "node.json", boot)
        self.events = XidEvents(self.state, CLOCK.monotonic_s)
        self.log = KernelLog(folder / "kmsg", self.events, lambda: {CARD: UUID})

    @property
    def counts(self) -> dict[str, int]:
        return dict(self.events.counts(UUID))

    def has_heard_all(self) -> bool:
        heard = self.state.remembered.log
        return heard is not None and heard.until == self.log._path.stat().st_size


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kmsg").touch()
    return tmp_path


def _write(folder: Path, *codes: int) -> None:
    with (folder / "kmsg").open("a") as log:
        for code in codes:
            log.write(f"4,1,1,-;NVRM: Xid (PCI:0000:ae:00): {code}, pid=1, name=a\n6,2,2,-;usb 1-1: new device\n")


@contextmanager
def _running(folder: Path, boot: str = "boot-1") -> Iterator[Node]:
    """A collector that is told to stop at the end, and has heard all at first."""
    node, stop = Node(folder, boot), threading.Event()
    thread = threading.Thread(target=node.log.run, args=(stop,))
    thread.start()
    try:
        wait_until(node.has_heard_all)
        yield node
    finally:
        stop.set()
        thread.join()
        node.state.save()


def _run(folder: Path, boot: str = "boot-1") -> dict[str, int]:
    """What is counted once a collector has run until it has heard all."""
    with _running(folder, boot) as node:
        return node.counts


def test_what_happened_between_two_runs_is_counted_and_said(folder: Path) -> None:
    """R10: once, also by those that come later; what was there before the first is no event of this node's."""
    _write(folder, 13)
    assert _run(folder) == {}
    _write(folder, 31, 79, 31)
    with capture_logs() as logs:
        assert _run(folder) == {"31": 2, "79": 1}
    assert [log["event"] for log in logs] == ["xid", "xid", "xid", "xids_while_away"]
    assert logs[-1]["counted"] == 3
    with capture_logs() as logs:
        assert [_run(folder) for _ in range(2)] == [{"31": 2, "79": 1}] * 2
    assert logs == []


def test_what_happened_in_a_boot_before_its_first_collector_is_counted(folder: Path) -> None:
    """Nobody has counted in it yet, and the log begins with it; where a boot has no name, nobody knows."""
    _write(folder, 13)
    _run(folder)
    (folder / "kmsg").write_text("")
    _write(folder, 79)
    assert _run(folder, "boot-2") == _run(folder, "boot-2") == {"79": 1}
    assert _run(folder, "") == {"79": 1}


def test_a_state_of_before_counts_from_here_on(folder: Path) -> None:
    """An older gputab has counted of this log, and has not said how far."""
    _write(folder, 31)
    (folder / "node.json").write_text('{"boot": "boot-1", "xids": {"GPU-1": {"31": 1}}, "format": 1}')
    assert _run(folder) == {"31": 1}
    _write(folder, 31)
    assert _run(folder) == {"31": 2}


def _be_killed_when_told(folder: Path, *, waits: bool = False) -> None:
    """Leave what a collector leaves that is killed as soon as the driver has told of an XID 31, or 2 s later."""
    with _running(folder) as node:
        node.events.hear(Xid(31, UUID), DRIVER)
        assert node.state.remembered.log == HeardLog(0, ((UUID, 31),))
        if waits:
            wait_until(lambda: node.state.remembered.log == HeardLog(0))
        node.state.save()
        left = (folder / "node.json").read_bytes()
    (folder / "node.json").write_bytes(left)


def test_an_event_that_only_the_driver_had_told_of_is_not_counted_again(folder: Path) -> None:
    """R11: the collector is killed before it comes to the log's record; a second record is a second event."""
    _be_killed_when_told(folder)
    _write(folder, 31, 31)
    assert _run(folder) == {"31": 2}


def test_a_run_that_ended_before_it_had_listened_leaves_all_to_the_next(folder: Path) -> None:
    _be_killed_when_told(folder)
    _write(folder, 31, 79)
    stopped, short = threading.Event(), Node(folder)
    stopped.set()
    short.log.run(stopped)
    assert short.counts == {"31": 1}
    short.state.save()
    assert _run(folder) == {"31": 1, "79": 1}


def test_an_event_of_long_ago_that_only_the_driver_told_of_is_not_waited_for(folder: Path) -> None:
    """R11: after 2 s another of the same code is another event."""
    _be_killed_when_told(folder, waits=True)
    _write(folder, 31)
    assert _run(folder) == {"31": 2}


def test_what_was_counted_while_the_log_could_not_be_read_is_not_counted_from_it_later(folder: Path) -> None:
    """Of what the driver told of then nobody knows which records are the same."""
    _run(folder)
    _write(folder, 31, 79)
    (folder / "kmsg").rename(folder / "aside")
    deaf, clock = Node(folder).state, FrozenClock(0)
    events = XidEvents(deaf, clock.monotonic_s)
    events.hear(Xid(31, UUID), DRIVER)
    clock.advance_us(3 * MICROSECONDS)
    events.hear(Xid(79, UUID), DRIVER)
    deaf.save()
    (folder / "aside").rename(folder / "kmsg")
    assert _run(folder) == {"31": 1, "79": 1}
    _write(folder, 31)
    assert _run(folder) == {"31": 2, "79": 1}


def test_a_log_that_was_truncated_is_heard_from_here_on(folder: Path) -> None:
    """Whether what it holds now was counted before is not known."""
    _write(folder, 31, 31)
    _run(folder)
    _write(folder, 79)
    _run(folder)
    (folder / "kmsg").write_text("")
    _write(folder, 79)
    with capture_logs() as logs:
        assert _run(folder) == {"79": 1}
    assert [log["event"] for log in logs] == ["kernel_log_begun_anew"]
    _write(folder, 79)
    assert _run(folder) == {"79": 2}


def _wait_for_a_write(path: Path, before_ns: int) -> None:
    wait_until(lambda: path.stat().st_mtime_ns != before_ns)


def test_however_often_it_is_killed_each_is_counted_once(folder: Path) -> None:
    """By SIGKILL, at any moment: the counts and the place are on the disk together."""
    _run(folder)
    state, written = folder / "node.json", 0
    for pause_s in (None, 0.05, 0.1, 0.4, 0.8):
        _write(folder, 31)
        command, before_ns = [sys.executable, "-c", LISTEN, str(folder)], state.stat().st_mtime_ns
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        if pause_s is not None:
            # It has begun to listen.
            _wait_for_a_write(state, before_ns)
            _write(folder, 31, 31)
            CLOCK.sleep_s(pause_s)
            written += 2
        process.send_signal(signal.SIGKILL)
        process.wait()
        written += 1
    assert _run(folder) == {"31": written}
