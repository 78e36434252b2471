"""Whose a process is: what its cgroup proves together with what is recorded of its container.

owner         proved by
alloc:<id>    a unit `gputab-<id>.scope`, `.service` or `.slice` of the system's systemd, with every sign of the id but
              letters, digits, `.`, `_` and `:` as `\\xNN`, as systemd-escape writes it; or the container's record
slurm:<job>   the cgroup of a job, by slurmstepd or in the version 1 hierarchies
pod:<uid>     the cgroup of a pod, made by kubelet; the uid as Kubernetes writes it
unit:<name>   a service of the system's systemd that runs nobody else's processes
unattributed  nobody's, for certain: a service of the system's systemd that runs the servers of MPS; or the container's
              record

The most exact first: the container's record, the allocation's unit, the job, the pod, the service. An environment
variable proves nothing. All else (containers that are not recorded, virtual machines, login sessions, a cgroup
namespace not ours) is nobody's: unknown.
"""

from collector.owners.cgroups import Cgroup, read_cgroup
from collector.owners.records import MPS_SERVER, NESTED, OwnerRecords
from domain.samples import UNATTRIBUTED


def owner_of(text: str, records: OwnerRecords) -> str | None:
    """The owner that the contents of a `/proc/PID/cgroup` prove; None where they prove none.

    `unattributed` is a proof, too: that the process is the operator's own server of MPS, who uses nothing itself.
    """
    cgroup = read_cgroup(text)
    return _recorded(cgroup, records) or cgroup.owner or cgroup.unit


def _recorded(cgroup: Cgroup, records: OwnerRecords) -> str | None:
    """By the outermost container, which alone is named by root; further in only as far as records say so.

    Services are not believed there: two nodes of a cluster may each have one of that name.
    """
    record = None if cgroup.container is None else records.of(cgroup.container)
    if record == MPS_SERVER:
        return UNATTRIBUTED
    if record != NESTED:
        return record
    inner = read_cgroup(cgroup.below)
    return _recorded(inner, records) or inner.owner
