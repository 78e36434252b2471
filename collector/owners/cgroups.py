"""Whose a process on a card is, proved by the cgroup it runs in.

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
from collections.abc import Iterable

from domain.samples import allocation_owner

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
