"""The demo's tenants at work: they ask the allocator for cards, run workloads on them, and give them back."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

from allocator.bodies import AllocationBody, AllocationOrder
from allocator.client import AllocatorClient
from collector.simulator import Incident, IncidentKind, Tenancy
from collector.workloads import Workload
from collector.world_file import WorldFile
from domain.clock import MICROSECONDS, Clock
from domain.errors import CapacityError
from domain.grants import GrantKind
from domain.period import ceil_second

# After the first second: time for the first jobs to begin, so that a granted card is there to be lost.
_LOSS_AFTER_S = 16
_LOSS_SECONDS = 8
_ASK_EVERY_S = 4


@dataclass(frozen=True, slots=True)
class Job:
    """What a tenant wants to do, and for how long."""

    tenant: str
    order: AllocationOrder
    workload: Workload
    life_s: int


@dataclass(slots=True)
class Held:
    """A job that was granted; `stops_s` is the first second without its workload, once that is known."""

    job: Job
    allocation: AllocationBody
    due_s: int
    stops_s: int | None = None


@dataclass(slots=True)
class Customers:
    """All tenants; `tick` once a second. `done` are the allocations that were released, as the service last told."""

    clients: Mapping[str, AllocatorClient]
    world: WorldFile
    clock: Clock
    seed: int
    held: list[Held] = field(default_factory=list)
    done: list[AllocationBody] = field(default_factory=list)
    refusals: int = 0
    lost: Incident | None = None
    _began_s: int = 0
    _jobs: Iterator[Job] | None = None

    def open(self) -> None:
        """The first jobs, one of each kind."""
        self._began_s = self.clock.now_us() // MICROSECONDS
        self._jobs = later_jobs(self.seed)
        for job in first_jobs():
            self._ask(job)

    def tick(self) -> None:
        """Stop what is due, release what has stopped, ask for more; at its time, lose a card."""
        now_s = self.clock.now_us() // MICROSECONDS
        for each in self.held:
            if each.stops_s is None and now_s >= each.due_s:
                self._stop(each)
        self._release(now_s)
        age_s = now_s - self._began_s
        if self.lost is None and age_s >= _LOSS_AFTER_S:
            self._lose_a_card()
        if self._jobs is not None and age_s % _ASK_EVERY_S == 0:
            self._ask(next(self._jobs))

    def close(self) -> None:
        """Stop every job and give everything back; returns when nothing is held any more."""
        for each in self.held:
            if each.stops_s is None:
                self._stop(each)
        while self.held:
            self._release(self.clock.now_us() // MICROSECONDS)
            self.clock.sleep_s(0.2)

    def _ask(self, job: Job) -> None:
        try:
            allocation = self.clients[job.tenant].create(job.order)
        except CapacityError:
            self.refusals += 1
            return
        start_s = self.world.earliest_s + 1
        for grant in allocation.grants:
            if grant.gpu_uuid is None:
                continue
            start_s = max(start_s, ceil_second(grant.start_us))
            self.world.add_tenancy(
                Tenancy(
                    allocation=allocation.allocation,
                    gpu_uuid=grant.gpu_uuid,
                    mig_uuid=grant.mig_uuid,
                    workload=job.workload,
                    start_s=start_s,
                    end_s=None,
                    vram_limit_bytes=grant.vram_bytes,
                )
            )
        self.held.append(Held(job, allocation, due_s=start_s + job.life_s))

    def _stop(self, each: Held) -> None:
        each.stops_s = self.world.earliest_s + 1
        self.world.end_tenancies(each.allocation.allocation, each.stops_s)

    def _release(self, now_s: int) -> None:
        stopped = [each for each in self.held if each.stops_s is not None and now_s > each.stops_s]
        for each in stopped:
            self.done.append(self.clients[each.job.tenant].release(each.allocation.allocation))
            self.held.remove(each)

    def _lose_a_card(self) -> None:
        for each in self.held:
            grant = each.allocation.grants[0]
            if each.stops_s is None and grant.kind is GrantKind.WHOLE and grant.gpu_uuid is not None:
                start_s = self.world.earliest_s + 1
                self.lost = Incident(IncidentKind.LOST, grant.gpu_uuid, start_s, start_s + _LOSS_SECONDS)
                self.world.add_incident(self.lost)
                return


def first_jobs() -> list[Job]:
    """One of each kind of grant and workload, small enough to fit together; the memory hog among them."""
    rtx, h100 = "rtx4090-24g", "h100-80g"
    return [
        _whole("northlab", "pretrain", 4, rtx, Workload.TRAINING, 45),
        _whole("atelier", "render", 2, rtx, Workload.INFERENCE, 35),
        _whole("quantfold", "docking", 1, h100, Workload.TRAINING, 60),
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
