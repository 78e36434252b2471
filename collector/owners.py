"""Whose a process on a card is, proved by the cgroup it runs in, and what each owner uses of a device.

A cgroup is believed as far as root has named it. systemd's slices are root's, so what lies directly in a chain of
them is; below a service, a scope or a user's own manager a tenant may call a group what it likes, and nothing
there is looked at, except the jobs that slurmstepd, which is root's, makes. An environment variable proves nothing.

owner         proved by
alloc:<id>    a unit `gputab-<id>.scope`, `.service` or `.slice` of the system's systemd. An allocation id is written
              into it with every sign but letters, digits, `.`, `_` and `:` as `\\xNN`, as systemd-escape does
slurm:<job>   the cgroup of a job, by slurmstepd or in the version 1 hierarchies
pod:<uid>     the cgroup of a pod, made by kubelet; the uid as Kubernetes writes it
unit:<name>   a service of the system's systemd that runs nobody else's processes

Innermost and most exact first: what runs in an allocation's slice is the allocation's. All else (containers whose
engine keeps no record for us, virtual machines, login sessions, a cgroup namespace not ours) is nobody's: unknown.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from domain.samples import UNATTRIBUTED, DeviceReading, OwnerUse, allocation_owner
from domain.series import GPU_MEMORY_USED, GPU_UP, Series

# The first PID namespace of a machine has this inode on every Linux (include/linux/proc_ns.h).
_HOST_PID_NAMESPACE = "pid:[4026531836]"
# Field 22 of proc_pid_stat(5), counted from the third: the second is a name that may hold any sign.
_START_TIME = 22 - 3

_IN_SLICES = r"(?:/[^/]+\.slice)*"
_QOS = r"(?:burstable|besteffort)"
_UID = r"(?P<uid>[0-9a-f]{8}(?:[_-][0-9a-f]{4}){3}[_-][0-9a-f]{12}|[0-9a-f]{32})"
_ALLOCATION = re.compile(rf"{_IN_SLICES}/gputab-(?P<id>[^/-]+)\.(?:scope|service|slice)(?:/|$)")
_JOBS = (
    re.compile(rf"{_IN_SLICES}/(?:[^/]+_)?slurmstepd\.scope/job_(?P<job>\d+)(?:/|$)"),
    re.compile(r"/slurm(?:_[^/]+)?/uid_\d+/job_(?P<job>\d+)(?:/|$)"),
)
_PODS = (
    re.compile(rf"{_IN_SLICES}(?:/containerd\.service)?/(?:[^/]+-)?kubepods(?:-{_QOS})?-pod{_UID}\.slice(?:[:/]|$)"),
    re.compile(rf"/kubepods(?:/{_QOS})?/pod{_UID}(?:/|$)"),
)
_UNIT_OR_ABOVE = re.compile(rf"/|{_IN_SLICES}(?:/(?P<unit>[^/]+\.service)(?:/.*)?)?")
# What these run is others', where they give it no cgroup of its own.
_RUNS_OTHERS = re.compile(
    r"(?:containerd|docker|podman|crio|cri-o|kubelet|slurmd|slurmstepd|libvirtd|user@\d+)\.service"
)


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


def cgroup_owner(text: str) -> str | None:
    """The owner that the contents of a `/proc/PID/cgroup` (cgroups(7)) prove; None where they prove none."""
    paths = [line.split(":", 2)[-1].removesuffix(" (deleted)") for line in text.splitlines()]
    if allocation := _first([_ALLOCATION], paths):
        return allocation_owner(_unescaped(allocation["id"]))
    if job := _first(_JOBS, paths):
        return f"slurm:{job['job']}"
    if pod := _first(_PODS, paths):
        return f"pod:{pod['uid'].replace('_', '-')}"
    unit = _unit(paths)
    return None if unit is None else f"unit:{unit}"


def split(used_bytes: int, claims: Mapping[int, int | None], owners: Mapping[int, str]) -> dict[str, OwnerUse]:
    """Bytes of a device by owner, the rest being `unattributed`; they sum to `used_bytes`.

    `claims` are the bytes of each process on it, None where the driver does not say: such a process adds nothing
    to its owner, whose bytes are then at least those told. `owners` are those proved. Where processes claim more
    than is used the sum is more, too, and no reading that can be believed.
    """
    told = {pid: claimed for pid, claimed in claims.items() if claimed is not None}
    by_owner: Counter[str] = Counter()
    for pid, claimed in told.items():
        by_owner[owners.get(pid, UNATTRIBUTED)] += claimed
    unclaimed = used_bytes - sum(told.values())
    by_owner[UNATTRIBUTED] += max(0, unclaimed)
    return {owner: OwnerUse(owner_bytes, None) for owner, owner_bytes in by_owner.items()}


def owned_reading(
    gpu_uuid: str,
    mig_uuid: str | None,
    values: Mapping[Series, int | float | None],
    claims: Mapping[int, int | None] | None,
    owners: Mapping[int, str],
) -> DeviceReading:
    """The reading of a device that is there, with what each owner uses of it; see `split`.

    `claims` is None where owners are not told of this device.
    """
    used_bytes = values[GPU_MEMORY_USED]
    uses = {} if used_bytes is None or claims is None else split(int(used_bytes), claims, owners)
    return DeviceReading(gpu_uuid, mig_uuid, {GPU_UP: 1, **values}, uses)


def _first(patterns: Iterable[re.Pattern[str]], paths: list[str]) -> re.Match[str] | None:
    return next((match for pattern in patterns for path in paths if (match := pattern.match(path))), None)


def _unit(paths: list[str]) -> str | None:
    """The service that every hierarchy places the process in, or above; None where one leads elsewhere."""
    places = [_UNIT_OR_ABOVE.fullmatch(path) for path in paths]
    units = {place["unit"] for place in places if place is not None} - {None}
    if None in places or len(units) != 1:
        return None
    (unit,) = units
    return None if _RUNS_OTHERS.fullmatch(unit) else str(unit)


def _unescaped(name: str) -> str:
    return re.sub(r"\\x([0-9a-f]{2})", lambda match: chr(int(match[1], 16)), name)
