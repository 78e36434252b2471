"""Processes from second to second: a process is its PID and its start time, and its owner is looked up once."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from collector.owners.cgroups import cgroup_owner

# The first PID namespace of a machine has this inode on every Linux (include/linux/proc_ns.h).
_HOST_PID_NAMESPACE = "pid:[4026531836]"
# Field 22 of proc_pid_stat(5), counted from the third: the second is a name that may hold any sign.
_START_TIME = 22 - 3


class Processes:
    """The processes of one card, from second to second."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        """`proc` is where the process file system is mounted."""
        self._proc = proc
        self._known: dict[int, _Known] = {}

    def owners(self, pids: Iterable[int]) -> dict[int, str]:
        """The owner of each of these processes that one can be proved of.

        To be called once a second with every process on the card. What was proved of a process is kept while it is
        named in every call, and stands for one that has ended since the driver named it; what was not proved is
        looked at again, since a process can be moved into its unit.
        """
        found = {pid: known for pid in pids if (known := self._look(pid)) is not None}
        self._known = found
        return {pid: known.owner for pid, known in found.items()}

    def _look(self, pid: int) -> "_Known | None":
        known = self._known.get(pid)
        started = self._start_time(pid)
        if known is not None and started in (known.started, None):
            return known
        owner = self._owner(pid)
        # Another start time than before: meanwhile the PID has become another process's.
        if started is None or owner is None or self._start_time(pid) != started:
            return None
        return _Known(started, owner)

    def _start_time(self, pid: int) -> int | None:
        """Clock ticks from boot to its start; None where there is no such process, or none that we may see."""
        try:
            stat = (self._proc / str(pid) / "stat").read_bytes()
        except OSError:
            return None
        fields = stat.rpartition(b")")[2].split()
        return int(fields[_START_TIME]) if len(fields) > _START_TIME else None

    def _owner(self, pid: int) -> str | None:
        try:
            text = (self._proc / str(pid) / "cgroup").read_bytes()
        except OSError:
            return None
        return cgroup_owner(text.decode(errors="replace"))


class _Known(NamedTuple):
    """A process, as against its PID, and whose it is."""

    started: int
    owner: str


def sees_host_processes(proc: Path = Path("/proc")) -> bool:
    """Whether PIDs here are the host's, which are those that a driver names."""
    try:
        return str((proc / "self" / "ns" / "pid").readlink()) == _HOST_PID_NAMESPACE
    except OSError:
        return False
