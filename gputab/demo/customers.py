"""The demo's tenants at work: they ask the allocator for cards, run workloads on them, and give them back."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from allocator.bodies import AllocationBody
from allocator.client import AllocatorClient
from collector.simulation.world import Incident, IncidentKind, Tenancy
from collector.simulation.world_file import WorldFile
from domain.clock import MICROSECONDS, Clock
from domain.errors import CapacityError
from domain.grants import GrantKind
from domain.period import ceil_second
from gputab.demo.jobs import Job

# After the first second: time for the first jobs to begin, so that a granted card is there to be lost.
_LOSS_AFTER_S = 26
_LOSS_SECONDS = 8
_ASK_EVERY_S = 4


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
    world: WorldFile | None
    clock: Clock
    first: Sequence[Job]
    later: Iterator[Job]
    held: list[Held] = field(default_factory=list)
    done: list[AllocationBody] = field(default_factory=list)
    refusals: int = 0
    lost: Incident | None = None
    _began_s: int = 0

    def open(self) -> None:
        """The first jobs, one of each kind."""
        self._began_s = self.clock.now_us() // MICROSECONDS
        for job in self.first:
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
        if age_s % _ASK_EVERY_S == 0:
            self._ask(next(self.later))

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
        start_s = max(self._soon_s(), *(ceil_second(grant.start_us) for grant in allocation.grants))
        for grant in allocation.grants:
            if self.world is not None and grant.gpu_uuid is not None:
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

    def _soon_s(self) -> int:
        """The first second that the world may still be told of, and one to spare."""
        return 1 + (self.world.earliest_s if self.world is not None else self.clock.now_us() // MICROSECONDS)

    def _stop(self, each: Held) -> None:
        each.stops_s = self._soon_s()
        if self.world is not None:
            self.world.end_tenancies(each.allocation.allocation, each.stops_s)

    def _release(self, now_s: int) -> None:
        stopped = [each for each in self.held if each.stops_s is not None and now_s > each.stops_s]
        for each in stopped:
            self.done.append(self.clients[each.job.tenant].release(each.allocation.allocation))
            self.held.remove(each)

    def _lose_a_card(self) -> None:
        if self.world is None:
            return
        for each in self.held:
            grant = each.allocation.grants[0]
            if each.stops_s is None and grant.kind is GrantKind.WHOLE and grant.gpu_uuid is not None:
                start_s = self._soon_s()
                self.lost = Incident(IncidentKind.LOST, grant.gpu_uuid, start_s, start_s + _LOSS_SECONDS)
                self.world.add_incident(self.lost)
                return
