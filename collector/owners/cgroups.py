"""What the cgroup of a process proves, as far as root has named it.

systemd's slices are root's, so what lies directly in a chain of them is; below a service, a scope, a container or a
user's own manager a tenant may call a group what it likes, and nothing there is looked at, except the jobs that
slurmstepd, which is root's, makes. Of containers in containers only the outermost is named by this machine's root.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from domain.samples import UNATTRIBUTED, allocation_owner

_IN_SLICES = r"(?:/[^/]+\.slice)*"
_QOS = r"(?:burstable|besteffort)"
_UID = r"(?P<uid>[0-9a-f]{8}(?:[_-][0-9a-f]{4}){3}[_-][0-9a-f]{12}|[0-9a-f]{32})"
_CONTAINER = r"(?P<container>[0-9a-f]{64})"
# Podman and CRI-O may put a container's processes one level down.
_BELOW = r"(?:/container)?(?P<below>/.*)?"
_ALLOCATION = re.compile(rf"{_IN_SLICES}/gputab-(?P<id>[^/-]+)\.(?:scope|service|slice)(?:/|$)")
_JOBS = (
    re.compile(rf"{_IN_SLICES}/(?:[^/]+_)?slurmstepd\.scope/job_(?P<job>\d+)(?:/|$)"),
    re.compile(r"/slurm(?:_[^/]+)?/uid_\d+/job_(?P<job>\d+)(?:/|$)"),
)
# kubelet's driver is systemd or the file system of cgroups; the one is sometimes told to write the other's names (":").
_PODS = (
    re.compile(rf"{_IN_SLICES}(?:/containerd\.service)?/(?:[^/]+-)?kubepods(?:-{_QOS})?-pod{_UID}\.slice(?:[:/]|$)"),
    re.compile(rf"(?:/kubelet)?/kubepods(?:/{_QOS})?/pod{_UID}(?:/|$)"),
)
# Below other groups than these a container's name may be a tenant's invention.
_CONTAINERS = (
    re.compile(rf"{_IN_SLICES}/(?:docker|nerdctl|cri-containerd|crio|libpod)-{_CONTAINER}\.scope{_BELOW}"),
    re.compile(rf"{_IN_SLICES}(?:/containerd\.service)?/[^/:]+\.slice:[^/:]+:{_CONTAINER}{_BELOW}"),
    re.compile(rf"(?:/kubelet)?/kubepods(?:/{_QOS})?/pod{_UID}/(?:crio-)?{_CONTAINER}{_BELOW}"),
    re.compile(rf"/(?:docker|default|k8s\.io|libpod_parent)/(?:libpod-)?{_CONTAINER}{_BELOW}"),
)
_UNIT_OR_ABOVE = re.compile(rf"/|{_IN_SLICES}(?:/(?P<unit>[^/]+\.service)(?:/.*)?)?")
# What these run is others', where they give it no cgroup of its own.
_RUNS_OTHERS = re.compile(
    r"(?:containerd|docker|podman|crio|cri-o|kubelet|k3s(?:-agent)?|rke2-(?:server|agent)|slurmd|slurmstepd|libvirtd|"
    r"user@\d+)\.service"
)
# Nothing runs in it but the daemon and servers of MPS, whoever's user a server runs as: they work for their clients.
_MPS = re.compile(r"nvidia-(?:cuda-)?mps[^/]*\.service")
_KEPT_TEXTS = 512


class Cgroup(NamedTuple):
    """What one `/proc/PID/cgroup` proves.

    `owner` is the allocation, job or pod that its names prove, `unit` the service of the system's systemd;
    `unattributed` is a service's that is proved to be nobody's. `container` is the full id of the outermost container,
    whose names `below` it are its own: that is the same text as it would be read in the container. None where nothing
    is proved.
    """

    owner: str | None
    unit: str | None
    container: str | None
    below: str


# Each second the same processes have the same text.
@lru_cache(_KEPT_TEXTS)
def read_cgroup(text: str) -> Cgroup:
    """The contents of a `/proc/PID/cgroup` (cgroups(7)), each line one hierarchy.

    Where hierarchies contradict each other they prove nothing.
    """
    paths = cgroup_paths(text)
    containers = [match for path in paths if (match := _first(_CONTAINERS, path, whole=True))]
    container = _only(match["container"] for match in containers)
    below = "\n".join(f"0::{match['below'] or '/'}" for match in containers) if container else ""
    return Cgroup(_owner(paths), _unit(paths), container, below)


def cgroup_paths(text: str) -> list[str]:
    """The path in each hierarchy of a `/proc/PID/cgroup`.

    A line ends at a newline, which is the one sign beside "/" that no group's name can have. At all else that ends a
    line for `splitlines` a tenant's name would become two lines, the second of which it could write.
    """
    lines = text.removesuffix("\n").split("\n") if text else []
    return [line.split(":", 2)[-1].removesuffix(" (deleted)") for line in lines]


def _owner(paths: list[str]) -> str | None:
    """The most exact first: what runs in an allocation's slice is the allocation's, whatever it runs there."""
    if allocation := _only(match["id"] for path in paths if (match := _ALLOCATION.match(path))):
        return allocation_owner(_unescaped(allocation))
    if job := _only(match["job"] for path in paths if (match := _first(_JOBS, path))):
        return f"slurm:{job}"
    if pod := _only(match["uid"] for path in paths if (match := _first(_PODS, path))):
        return f"pod:{pod.replace('_', '-')}"
    return None


def _unit(paths: list[str]) -> str | None:
    """The service that every hierarchy places the process in, or above; None where one leads elsewhere."""
    places = [_UNIT_OR_ABOVE.fullmatch(path) for path in paths]
    if None in places:
        return None
    unit = _only(place["unit"] for place in places if place is not None and place["unit"])
    if unit is None or _RUNS_OTHERS.fullmatch(unit):
        return None
    return UNATTRIBUTED if _MPS.fullmatch(unit) else f"unit:{unit}"


def _first(patterns: Iterable[re.Pattern[str]], path: str, *, whole: bool = False) -> re.Match[str] | None:
    tries = (pattern.fullmatch(path) if whole else pattern.match(path) for pattern in patterns)
    return next((match for match in tries if match is not None), None)


def _only(found: Iterable[str]) -> str | None:
    distinct = set(found)
    return distinct.pop() if len(distinct) == 1 else None


def _unescaped(name: str) -> str:
    """A name as it was before systemd-escape, which writes `\\xNN` for a sign."""
    return re.sub(r"\\x([0-9a-f]{2})", lambda match: chr(int(match[1], 16)), name)
