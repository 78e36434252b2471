"""Processes from second to second: a process is its PID and its start time, and its owner is looked up once."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import structlog

from collector.owners.proofs import owner_of
from collector.owners.records import OwnerRecords

log = structlog.get_logger()

# A machine's first namespaces have these inodes on every Linux (include/linux/proc_ns.h).
_HOST_PID_NAMESPACE = "pid:[4026531836]"
_HOST_CGROUP_NAMESPACE = "cgroup:[4026531835]"
# Field 22 of proc_pid_stat(5), counted from the third: the second is a name that may hold any sign.
_START_TIME = 22 - 3
# Whatever hierarchies there are, a `/proc` file of one process is told whole in one read.
_READ_BYTES = 65_536


class ProcessTable:
    """The processes of this machine, and whose each is; safe to use from several threads."""

    def __init__(self, proc: Path, records: OwnerRecords) -> None:
        """`proc` is where the process file system is mounted."""
        self._proc = proc
        self._records = records
        self.can_tell_owners = sees_host_processes(proc) and sees_host_cgroups(proc)
        self._has_seen_listed = False
        if not self.can_tell_owners:
            reason = "the PIDs that the driver names, or the names of their cgroups, are not those seen here"
            remedy = "run the collector in the host's PID and cgroup namespaces"
            log.warning("owners_unknown", reason=reason, remedy=remedy)

    def started(self, pid: int) -> int | None:
        """Clock ticks from boot to its start; None where there is no such process, or none that we may see."""
        stat = self._read(pid, "stat")
        fields = [] if stat is None else stat.rpartition(b")")[2].split()
        return int(fields[_START_TIME]) if len(fields) > _START_TIME else None

    def has(self, pid: int) -> bool:
        """Whether there is such a process."""
        return self.started(pid) is not None

    def owner(self, pid: int) -> str | None:
        """The owner that can be proved of it."""
        text = self._read(pid, "cgroup")
        return None if text is None else owner_of(text.decode(errors="replace"), self._records)

    def judge(self, *, lists_any: bool, sees_any: bool) -> bool:
        """Whether PIDs that a driver lists are those seen here, as far as this second's and those before show it.

        A namespace can be the host's and its `/proc` another's, or one that hides processes.
        """
        if sees_any:
            self._has_seen_listed = True
        elif lists_any and self.can_tell_owners and not self._has_seen_listed:
            return False
        return self.can_tell_owners

    def _read(self, pid: int, name: str) -> bytes | None:
        # A fifth of what pathlib takes, for every process in every second.
        try:
            descriptor = os.open(f"{self._proc}/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return os.read(descriptor, _READ_BYTES)
        except OSError:  # it ended meanwhile
            return None
        finally:
            os.close(descriptor)


class Looked(NamedTuple):
    """What one look at some PIDs found.

    `owners` are those proved, `seen` the PIDs of processes that are there, `replaced` those that have become another
    process's since the look before.
    """

    owners: dict[int, str]
    seen: set[int]
    replaced: set[int]


class Processes:
    """The processes of one card, from second to second."""

    def __init__(self, table: ProcessTable) -> None:
        self._table = table
        self._known: dict[int, _Known] = {}

    def look(self, pids: Iterable[int]) -> Looked:
        """Look at these processes; to be called once a second with every process on the card.

        What was proved of a process is kept while it is named in every call, and stands for one that has ended since
        the driver named it; what was not proved is looked at again, since a process can be moved into its unit and
        its container recorded late.
        """
        known: dict[int, _Known] = {}
        looked = Looked({}, set(), set())
        for pid in pids:
            before = self._known.get(pid)
            started = self._table.started(pid)
            if started is not None:
                looked.seen.add(pid)
                if before is not None and before.started != started:
                    looked.replaced.add(pid)
                    before = None
            found = before if started is None else self._prove(pid, started, before)
            if found is not None:
                known[pid] = found
                if found.owner is not None:
                    looked.owners[pid] = found.owner
        self._known = known
        return looked

    def _prove(self, pid: int, started: int, before: "_Known | None") -> "_Known | None":
        if before is not None and before.owner is not None:
            return before
        owner = self._table.owner(pid)
        # Another start time than before: meanwhile the PID has become another process's.
        return _Known(started, owner) if self._table.started(pid) == started else None


class _Known(NamedTuple):
    """A process, as against its PID, and whose it is."""

    started: int
    owner: str | None


def sees_host_processes(proc: Path = Path("/proc")) -> bool:
    """Whether PIDs here are the host's, which are those that a driver names."""
    return _namespace(proc, "pid") == _HOST_PID_NAMESPACE


def sees_host_cgroups(proc: Path = Path("/proc")) -> bool:
    """Whether the names of cgroups here begin where the host's do; elsewhere the part that is proof is cut off."""
    # Before Linux 4.6 there is but one.
    return _namespace(proc, "cgroup") in (None, _HOST_CGROUP_NAMESPACE)


def _namespace(proc: Path, kind: str) -> str | None:
    try:
        return str((proc / "self" / "ns" / kind).readlink())
    except OSError:
        return None
