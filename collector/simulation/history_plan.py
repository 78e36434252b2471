"""A plausible past of the simulated fleet: who held which card, and what went wrong, seeded and never over capacity."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from collector.simulation.fleet import Fleet, SimulatedCard
from collector.simulation.truth import Span
from collector.simulation.workloads import Workload
from collector.simulation.world import Incident, IncidentKind, Tenancy, World
from domain.grants import GrantKind
from domain.inventory import MigInstance
from domain.units import MIB, WHOLE_GPU_UNITS, milli_gpu

# Tenant -> its projects.
TENANTS: dict[str, tuple[str, ...]] = {
    "atelier": ("render", "preview"),
    "northlab": ("pretrain", "evals"),
    "quantfold": ("docking",),
    "vision-7": ("detector", "labelling"),
}

_STEP_S = 10
_MINUTE_S = 60
_SHARES_PER_CARD = 4
# The last cards of the first node are sold in shares.
_SHARED_CARDS = 3
_LOST_SECONDS = 420
_SHORTEST_JOB_S = 10 * _MINUTE_S
_WORK = (Workload.TRAINING, Workload.TRAINING, Workload.INFERENCE, Workload.NOTEBOOK_IDLE)


@dataclass(frozen=True, slots=True)
class PlannedGrant:
    """A tenancy with who pays for it; jobs of several cards are several grants of one allocation."""

    tenancy: Tenancy
    tenant: str
    project: str
    milli_gpu: int

    @property
    def kind(self) -> GrantKind:
        """How the device is divided."""
        if self.tenancy.mig_uuid is not None:
            return GrantKind.MIG
        return GrantKind.WHOLE if self.milli_gpu == WHOLE_GPU_UNITS else GrantKind.SHARE

    @property
    def span(self) -> Span:
        """The grant's seconds, for `collector.simulation.truth`; a tenancy of a plan has an end."""
        tenancy = self.tenancy
        allocation = tenancy.allocation if self.kind is GrantKind.SHARE else None
        return Span(tenancy.gpu_uuid, tenancy.mig_uuid, allocation, tenancy.start_s, tenancy.end_s or tenancy.start_s)


@dataclass(frozen=True, slots=True)
class HistoryPlan:
    """What happened in the whole seconds [start_s, end_s); every grant and incident lies inside."""

    start_s: int
    end_s: int
    grants: tuple[PlannedGrant, ...]
    incidents: tuple[Incident, ...]

    def world(self, fleet: Fleet) -> World:
        """The fleet with this past."""
        return World(fleet, self.start_s, [grant.tenancy for grant in self.grants], self.incidents)


def plan_history(fleet: Fleet, start_s: int, end_s: int) -> HistoryPlan:
    """A past for the fleet, made from its seed: jobs of 1 to 8 cards, shares, MIG instances, and gaps between them.

    One card is lost for seven minutes (or half the span, where it is shorter) and comes back while it is held; one
    job outgrows its card's memory. All borders lie on multiples of 10 s from `start_s`.
    """
    planner = _Planner(fleet, start_s, end_s)
    for number, cards in enumerate(fleet.nodes.values()):
        shared = cards[-_SHARED_CARDS:] if number == 0 else ()
        planner.plan_whole([card for card in cards if not card.device.mig_enabled and card not in shared])
        for card in shared:
            for _ in range(_SHARES_PER_CARD):
                planner.plan_share(card)
        for card in cards:
            for instance in card.device.instances:
                planner.plan_instance(card, instance)
    return HistoryPlan(start_s, end_s, tuple(planner.grants), planner.incidents())


class _Planner:
    def __init__(self, fleet: Fleet, start_s: int, end_s: int) -> None:
        self._noise = Random(f"history {fleet.seed}")  # noqa: S311 - a made-up past is no secret
        self._start_s = start_s
        self._end_s = end_s
        self._jobs = 0
        self.grants: list[PlannedGrant] = []

    def plan_whole(self, cards: Sequence[SimulatedCard]) -> None:
        """Jobs of whole cards of one node; the very first outgrows its memory."""
        free_s = {card.device.uuid: self._start_s for card in cards}
        sizes = [size for size in (1, 1, 1, 2, 2, 4, 8) if size <= len(cards)]
        while True:
            is_first = not self._jobs
            size = 1 if is_first else self._noise.choice(sizes)
            # The cards that are free first; a big job waits for its last card, which leaves gaps on the others.
            chosen = sorted(cards, key=lambda card: free_s[card.device.uuid])[:size]
            span = self._span(max(free_s[card.device.uuid] for card in chosen), 150 * _MINUTE_S)
            if span is None:
                return
            workload = Workload.MEMORY_HOG if is_first else self._noise.choice(_WORK)
            job = self._job(cards[0].node)
            for card in chosen:
                free_s[card.device.uuid] = span[1]
                self._add(job, card, None, workload, span, card.usable_bytes, WHOLE_GPU_UNITS)

    def plan_share(self, card: SimulatedCard) -> None:
        """One tenant after another in one share of a card."""
        limit_bytes = card.usable_bytes // _SHARES_PER_CARD // MIB * MIB
        works = (*_WORK, Workload.MEMORY_HOG)
        for span in self._spans(80 * _MINUTE_S):
            work = self._noise.choice(works)
            self._add(self._job(card.node), card, None, work, span, limit_bytes, WHOLE_GPU_UNITS // _SHARES_PER_CARD)

    def plan_instance(self, card: SimulatedCard, instance: MigInstance) -> None:
        """One tenant after another on a MIG instance."""
        milli = milli_gpu(instance.sm_count, card.device.sm_count or instance.sm_count)
        for span in self._spans(120 * _MINUTE_S):
            work = self._noise.choice(_WORK)
            self._add(self._job(card.node), card, instance, work, span, instance.vram_bytes, milli)

    def incidents(self) -> tuple[Incident, ...]:
        """The loss of one card, in the middle of the longest grant of a whole card."""
        spans = [grant.span for grant in self.grants if grant.kind is GrantKind.WHOLE]
        if not spans:
            return ()
        longest = max(spans, key=lambda span: (span.end_s - span.start_s, span))
        seconds = longest.end_s - longest.start_s
        lost_s = min(_LOST_SECONDS, seconds // 2 // _STEP_S * _STEP_S)
        start_s = longest.start_s + seconds // 4 // _STEP_S * _STEP_S
        return (Incident(IncidentKind.LOST, longest.gpu_uuid, start_s, start_s + lost_s),)

    def _spans(self, mean_s: int) -> Iterator[tuple[int, int]]:
        free_s = self._start_s
        while (span := self._span(free_s, mean_s)) is not None:
            yield span
            free_s = span[1]

    def _span(self, free_s: int, mean_s: int) -> tuple[int, int] | None:
        """When the next job on what is free from `free_s` runs; None where no time is left for one."""
        longest_s = self._end_s - free_s
        shortest_s = min(_SHORTEST_JOB_S, (self._end_s - self._start_s) // 2 // _STEP_S * _STEP_S)
        gap_s = self._noise.choice((0, 1, 2, 5, 15, 45)) * _MINUTE_S + self._noise.randrange(6) * _STEP_S
        if gap_s + shortest_s > longest_s or shortest_s == 0:
            return None
        wanted_s = round(self._noise.triangular(shortest_s, 3 * mean_s, mean_s))
        seconds = min(wanted_s, longest_s - gap_s) // _STEP_S * _STEP_S
        return free_s + gap_s, free_s + gap_s + max(shortest_s, seconds)

    def _job(self, node: str) -> str:
        self._jobs += 1
        return f"hist-{node}-{self._jobs:04d}"

    def _add(
        self,
        job: str,
        card: SimulatedCard,
        instance: MigInstance | None,
        workload: Workload,
        span: tuple[int, int],
        limit_bytes: int,
        milli: int,
    ) -> None:
        who = Random(f"{self._start_s} {job}")  # noqa: S311 - all grants of a job have one owner
        tenant = who.choice(sorted(TENANTS))
        mig_uuid = instance.uuid if instance else None
        tenancy = Tenancy(job, card.device.uuid, mig_uuid, workload, *span, limit_bytes)
        self.grants.append(PlannedGrant(tenancy, tenant, who.choice(TENANTS[tenant]), milli))
