"""Where a process runs, as its cgroup's names tell it: for people who look for an owner, and no proof of one.

Unlike a proof it takes the innermost name, whoever has written it.
"""

import re
from pathlib import Path
from typing import NamedTuple

from collector.owners.cgroups import cgroup_paths

_RUNTIMES = {
    "docker": "docker",
    "cri-containerd": "containerd",
    "nerdctl": "containerd",
    "crio": "cri-o",
    "crio-conmon": "cri-o",
    "libpod": "podman",
    "libpod-conmon": "podman",
}
_JOB = re.compile(r"/job_(?P<name>\d+)(?:/step_(?P<step>[^/]+))?(?=/|$)")
_POD = re.compile(r"pod(?P<name>[0-9a-f]{8}(?:[_-][0-9a-f]{4}){3}[_-][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?(?=[:/]|$)")
_CONTAINER = re.compile(r"[/:](?:(?P<runtime>[a-z-]+)[-/:])?(?P<name>[0-9a-f]{64})(?:\.scope)?(?=/|$)")
_MACHINE = re.compile(r"/machine-qemu\\x2d\d+\\x2d(?P<name>[^/]+)\.scope(?=/|$)")
_PBS = re.compile(r"/(?:torque|pbs|pbspro)(?:[^/]*)/(?P<name>[^/]+)")
_USER = re.compile(r"/user@(?P<name>\d+)\.service(?:/.*?(?P<unit>[^/]+\.service))?(?=/|$)")
_SESSION = re.compile(r"/user-(?P<name>\d+)\.slice/(?P<unit>[^/]+\.scope)(?=/|$)")
_RUNTIME_UNIT = re.compile(r"/(?:containerd|docker|podman|crio|cri-o|kubelet|libvirtd)\.service$")
_UNIT = re.compile(r"/(?P<name>[^/]+\.service)(?=/|$)")


class Place(NamedTuple):
    """Such as `container:<id>:docker`: what kind of place, which, and what else the names tell.

    As text it has a `?` for each sign that cannot be printed: names are a tenant's own.
    """

    kind: str
    name: str
    detail: str = ""

    def __str__(self) -> str:
        text = ":".join(filter(None, self))
        return "".join(sign if sign.isprintable() else "?" for sign in text)


def place(pid: int, proc: Path = Path("/proc")) -> Place:
    """Where the process runs; `unknown:gone` where there is none, or none that we may see."""
    try:
        return place_of((proc / str(pid) / "cgroup").read_text(errors="replace"))
    except OSError:
        return place_of("")


def place_of(text: str) -> Place:
    """Where the process of that `/proc/PID/cgroup` (cgroups(7)) runs; of the kind `unknown`, with why, at worst."""
    paths = cgroup_paths(text)
    if not paths:
        return Place("unknown", "gone")
    if job := _innermost(_JOB, paths):
        return Place("slurm", job["name"], f"step={job['step']}" if job["step"] else "")
    container = _innermost(_CONTAINER, paths)
    runtime = _RUNTIMES.get(container["runtime"] or "", "") if container else ""
    if pod := _innermost(_POD, paths):
        return Place("pod", pod["name"].replace("_", "-"), runtime or "cgroupfs")
    if container:
        return Place("container", container["name"], runtime)
    if machine := _innermost(_MACHINE, paths):
        return Place("vm", machine["name"].replace(r"\x2d", "-"))
    if batch := _innermost(_PBS, paths):
        return Place("pbs", batch["name"])
    if user := _innermost(_USER, paths) or _innermost(_SESSION, paths):
        return Place("user", user["name"], f"unit={user['unit']}" if user["unit"] else "")
    if any(_RUNTIME_UNIT.search(path) for path in paths):
        return Place("unknown", "runtime-unit")
    if unit := _innermost(_UNIT, paths):
        return Place("unit", unit["name"])
    if not "".join(paths).strip("/"):
        return Place("unknown", "cgroupns (needs the host's /proc and hostPID)")
    return Place("unknown", max(paths, key=len))


def _innermost(pattern: re.Pattern[str], paths: list[str]) -> re.Match[str] | None:
    matches = [match for path in paths for match in pattern.finditer(path)]
    return max(matches, key=lambda match: match.start(), default=None)
