"""The driver of this machine, and what of Linux the collector needs beside it."""

import errno
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from collector.call_times import CallTimes
from collector.node_state import NodeState
from collector.nvml.driver import Driver, DriverError, DriverGoneError
from collector.owners.processes import sees_host_cgroups, sees_host_processes
from domain.clock import Clock
from domain.errors import UnavailableError
from gputab.doctor.findings import Finding, Verdict, failure
from gputab.node_cards import KERNEL_LOG

_MAPS = Path("/proc/self/maps")
_LIBRARY = "libnvidia-ml.so"
_DRIVER_FOLDER = Path("/proc/driver/nvidia")


def driver_findings(clock: Clock, state: NodeState) -> Iterator[Finding]:
    """What the driver is, by which library, and how it holds the cards that the node has had by `state`."""
    try:
        driver = Driver(CallTimes(clock))
    except DriverGoneError as error:
        yield failure("driver", error)
        return
    with closing(driver):
        try:
            version, library = driver.ask("SystemGetDriverVersion"), driver.ask("SystemGetNVMLVersion")
            count = driver.ask("DeviceGetCount")
        except (DriverError, DriverGoneError) as error:
            yield failure("driver", error)
            return
        yield Finding("driver", Verdict.GOOD, f"{version}, NVML {library}, {_library_path() or 'library unknown'}")
        expected = len(state.remembered.devices)
        if count < expected:
            remedy = "look for the others by `lspci` and in dmesg; see docs/collecting.md for one that was taken out"
            yield Finding("cards", Verdict.MEND, f"{count}, and the node has had {expected}", remedy)
        else:
            yield Finding("cards", Verdict.GOOD if count else Verdict.MEND, str(count), "" if count else "see dmesg")
        yield from _persistence(driver, count)


def machine_findings(proc: Path = Path("/proc"), kernel_log: Path = KERNEL_LOG) -> Iterator[Finding]:
    """Whether owners of processes can be proved, and XID errors be heard of."""
    others, cut = "the PIDs that the driver names are others", "the part of their names that is proof is cut off"
    yield _namespace("PID", others, "--pid=host", is_hosts=sees_host_processes(proc))
    yield _namespace("cgroup", cut, "--cgroupns=host", is_hosts=sees_host_cgroups(proc))
    reason = _unreadable(kernel_log)
    if reason is None:
        yield Finding("kernel log", Verdict.GOOD, f"{kernel_log} is heard: XID errors are counted from it, too")
    else:
        said = f"{kernel_log} is not heard ({reason}): XID errors count as far as the driver's events tell of them"
        yield Finding("kernel log", Verdict.NOTE, said, "run the collector as root, or with CAP_SYSLOG and the device")


def _namespace(kind: str, otherwise: str, option: str, *, is_hosts: bool) -> Finding:
    """On one of the two; `otherwise` is what another than the host's costs, `option` how a container gets that."""
    what = f"{kind} namespace"
    if is_hosts:
        return Finding(what, Verdict.GOOD, "the host's, without which no owner is proved")
    said = f"not the host's: {otherwise}, and no owner can be proved"
    return Finding(what, Verdict.MEND, said, f"run the collector in the host's, as by {option}")


def _persistence(driver: Driver, count: int) -> Iterator[Finding]:
    """Whether cards are held when nobody uses them."""
    off = []
    for index in range(count):
        try:
            if driver.fact("DeviceGetPersistenceMode", driver.ask("DeviceGetHandleByIndex", index)) == 0:
                off.append(str(index))
        except UnavailableError:
            pass  # what is wrong with the card is said where it is read
    if off:
        said = f"off for card {', '.join(off)}: without a client the driver forgets it, and its counters"
        yield Finding("persistence mode", Verdict.NOTE, said, "run nvidia-persistenced, or `nvidia-smi -pm 1`")
    elif count:
        yield Finding("persistence mode", Verdict.GOOD, "on")


def _library_path() -> str | None:
    """The file that NVML was loaded from, which need not be that of the driver."""
    lines = _MAPS.read_text("utf-8", errors="replace").splitlines()
    return next((line.split(maxsplit=5)[5] for line in lines if _LIBRARY in line), None)


def _unreadable(kernel_log: Path) -> str | None:
    """Why the kernel's log cannot be read; None where it can be."""
    try:
        descriptor = os.open(kernel_log, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return error.strerror
    try:
        os.read(descriptor, 8_192)
    except OSError as error:
        # Nothing there, or overwritten meanwhile: it can be read.
        return None if error.errno in (errno.EAGAIN, errno.EPIPE) else error.strerror
    finally:
        os.close(descriptor)
    return None
