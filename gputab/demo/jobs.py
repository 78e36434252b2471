"""What the demo's tenants want to do."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from allocator.bodies import AllocationOrder
from collector.simulation.workloads import Workload
from domain.grants import GrantKind
from domain.inventory import Device

_IDLE = Workload.NOTEBOOK_IDLE


@dataclass(frozen=True, slots=True)
class Job:
    """What a tenant wants to do, and for how long."""

    tenant: str
    order: AllocationOrder
    workload: Workload
    life_s: int


def first_jobs() -> list[Job]:
    """One of each kind of grant and workload, small enough to fit together; the memory hog among them."""
    rtx, h100 = "rtx4090-24g", "h100-80g"
    return [
        _whole("northlab", "pretrain", 4, rtx, Workload.TRAINING, 45),
        _whole("atelier", "render", 2, rtx, Workload.INFERENCE, 35),
        _whole("quantfold", "docking", 1, h100, Workload.TRAINING, 60),
        _whole("vision-7", "detector", 1, rtx, Workload.MEMORY_HOG, 50),
        _share("vision-7", "detector", 500, 12 * 1024, Workload.MEMORY_HOG, 300),
        _share("vision-7", "labelling", 250, 6 * 1024, Workload.NOTEBOOK_IDLE, 300),
        _mig("atelier", "preview", "1g.10gb", Workload.INFERENCE, 40),
        _mig("northlab", "evals", "3g.40gb", Workload.TRAINING, 50),
        _whole("northlab", "evals", 8, rtx, Workload.INFERENCE, 25),
    ]


def later_jobs(seed: int) -> Iterator[Job]:
    """Jobs without end, drawn from the seed."""
    choose = Random(f"customers {seed}")  # noqa: S311 - a made-up customer is no secret
    kinds = (Workload.TRAINING, Workload.INFERENCE, Workload.NOTEBOOK_IDLE)
    while True:
        workload, life_s = choose.choice(kinds), choose.randint(8, 40)
        yield choose.choice(
            [
                _whole("northlab", "pretrain", choose.choice((1, 2, 4)), "rtx4090-24g", workload, life_s),
                _whole("atelier", "render", 1, "rtx4090-24g", workload, life_s),
                _whole("quantfold", "docking", 1, "h100-80g", workload, life_s),
                _share("vision-7", "labelling", 250, 5 * 1024, workload, life_s),
                _mig("quantfold", "docking", "1g.10gb", workload, life_s),
            ]
        )


def _whole(tenant: str, project: str, count: int, sku: str, workload: Workload, life_s: int) -> Job:
    return Job(tenant, AllocationOrder(project=project, kind=GrantKind.WHOLE, count=count, sku=sku), workload, life_s)


def _share(tenant: str, project: str, milli: int, vram_mib: int, workload: Workload, life_s: int) -> Job:
    order = AllocationOrder(project=project, kind=GrantKind.SHARE, milli_gpu=milli, vram_mib=vram_mib)
    return Job(tenant, order, workload, life_s)


def _mig(tenant: str, project: str, profile: str, workload: Workload, life_s: int) -> Job:
    return Job(tenant, AllocationOrder(project=project, kind=GrantKind.MIG, mig_profile=profile), workload, life_s)


def real_jobs(devices: Sequence[Device]) -> list[Job]:
    """What fits on the machine's own cards: one card whole, and shares of the next."""
    plain = [each for each in devices if not each.mig_enabled]
    first = [_mig("northlab", "evals", each.profile, _IDLE, 20) for card in devices for each in card.instances[:1]]
    if plain:
        first.append(Job("northlab", AllocationOrder(project="pretrain", kind=GrantKind.WHOLE), _IDLE, 20))
    if len(plain) > 1:
        first.append(_share("vision-7", "detector", 500, 4 * 1024, _IDLE, 30))
        first.append(_share("atelier", "preview", 250, 2 * 1024, _IDLE, 25))
    return first


def later_real_jobs(devices: Sequence[Device], seed: int) -> Iterator[Job]:
    """Jobs of one card, one share or one MIG instance at a time, tenant after tenant, without end."""
    choose = Random(f"real customers {seed}")  # noqa: S311 - a made-up customer is no secret
    profiles = [each.profile for card in devices for each in card.instances]
    while True:
        life_s = choose.randint(4, 12)
        kinds = [
            Job("quantfold", AllocationOrder(project="docking", kind=GrantKind.WHOLE), _IDLE, life_s),
            _share("atelier", "render", 500, 4 * 1024, _IDLE, life_s),
            _share("vision-7", "labelling", 250, 2 * 1024, _IDLE, life_s),
            *(_mig("quantfold", "docking", profile, _IDLE, life_s) for profile in profiles[:1]),
        ]
        yield from kinds
