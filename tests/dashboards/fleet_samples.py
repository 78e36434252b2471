"""A short while of the simulated fleet, in the form in which collectors, the allocator and the meter push it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from allocator.grant_series import GrantLabels, ended_runs, levels_of, open_runs
from collector.sample_runs import info_runs, one_sample
from collector.simulation.fleet import Fleet, SimulatedCard, demo_fleet
from collector.simulation.workloads import Workload
from collector.simulation.world import Incident, IncidentKind, Tenancy, World
from domain.clock import MICROSECONDS
from domain.grants import OPEN_END_US, Grant, GrantKind
from domain.samples import SampleRun
from domain.series import (
    COLLECTOR_CLOCK_SKEW,
    COLLECTOR_COMPLETE_UNTIL,
    COLLECTOR_HOLES,
    COLLECTOR_LATENESS,
    COLLECTOR_MISSED,
    COLLECTOR_QUEUED,
    COLLECTOR_REFUSED,
    METER_SPEND_RATE,
    Series,
)
from meter.ledger.ledger_store import Window
from meter.ledger.unclosed_store import Unclosed
from meter.windows.own_series import NodeProgress, own_series
from tests.collector.reading_runs import reading_runs

FLEET = demo_fleet(7)

_INFO_EVERY_S = 60
_PUBLISHED_EVERY_S = 5


@dataclass(frozen=True)
class Scene:
    """The `length_s` seconds that end with `end_s`, and what goes wrong in the second half of them.

    A silent card gives no answer, a lost one says so. Undescribed cards, by UUID, report without a description.
    """

    end_s: int
    length_s: int = 600
    fleet: Fleet = FLEET
    silent: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    undescribed: frozenset[str] = frozenset()

    @property
    def seconds(self) -> range:
        """Every second there is."""
        return range(self.end_s - self.length_s, self.end_s + 1)

    @property
    def half_s(self) -> int:
        """When the second half begins."""
        return self.end_s - self.length_s // 2


def card(node: str, index: int) -> SimulatedCard:
    """A card of the demo's fleet."""
    return FLEET.nodes[node][index]


def large_fleet(nodes: int) -> Fleet:
    """Nodes of eight cards each."""
    cards = FLEET.nodes["sim-4090-a"]
    return Fleet(
        FLEET.seed,
        {
            f"rack-{number:03}": tuple(
                replace(
                    each, node=f"rack-{number:03}", device=replace(each.device, uuid=f"{each.device.uuid}-{number}")
                )
                for each in cards
            )
            for number in range(nodes)
        },
    )


def samples(scene: Scene) -> list[SampleRun]:
    """Every sample of the scene, one run a series."""
    held = grants(scene) if scene.fleet is FLEET else []
    return _joined([*_collected(scene, held), *_published(scene, held), *_metered(scene)])


def grants(scene: Scene) -> list[Grant]:
    """Two tenants share the first card; three cards are whole, one until half; a tenant has each instance of one."""
    start_us = scene.seconds.start * MICROSECONDS
    first, second, third = FLEET.nodes["sim-4090-a"][:3]
    split = card("sim-h100", 2)
    return [
        _grant("a-1", "atelier", first, GrantKind.SHARE, start_us, milli=400),
        _grant("a-2", "northlab", first, GrantKind.SHARE, start_us, milli=500),
        _grant("a-3", "atelier", second, GrantKind.WHOLE, start_us),
        _grant("a-4", "quantfold", third, GrantKind.WHOLE, start_us, end_us=scene.half_s * MICROSECONDS),
        *(
            _grant(f"m-{instance.gi_id}", "vision-7", split, GrantKind.MIG, start_us, mig_uuid=instance.uuid)
            for instance in split.device.instances
        ),
    ]


def _grant(
    allocation: str,
    tenant: str,
    on: SimulatedCard,
    kind: GrantKind,
    start_us: int,
    *,
    milli: int = 1_000,
    mig_uuid: str | None = None,
    end_us: int | None = None,
) -> Grant:
    instance = next((each for each in on.device.instances if each.uuid == mig_uuid), None)
    return Grant(
        allocation=allocation,
        ordinal=0,
        tenant=tenant,
        project="main",
        node=on.node,
        gpu_uuid=on.device.uuid,
        mig_uuid=mig_uuid,
        kind=kind,
        model=on.model.name,
        sku="any",
        compute_units=milli if instance is None else instance.sm_count,
        compute_units_total=1_000 if instance is None else on.device.sm_count or 0,
        vram_bytes=on.usable_bytes * milli // 1_000 if instance is None else instance.vram_bytes,
        start_us=start_us,
        end_us=end_us,
    )


def _collected(scene: Scene, held: Iterable[Grant]) -> Iterator[SampleRun]:
    tenancies = [
        Tenancy(
            grant.allocation,
            grant.gpu_uuid or "",
            grant.mig_uuid,
            Workload.TRAINING,
            scene.seconds.start,
            None if grant.end_us is None else grant.end_us // MICROSECONDS,
            grant.vram_bytes,
        )
        for grant in held
    ]
    incidents = [Incident(IncidentKind.LOST, uuid, scene.half_s, scene.end_s + 1) for uuid in sorted(scene.lost)]
    world = World(scene.fleet, scene.seconds.start, tenancies, incidents)
    for node, cards in scene.fleet.nodes.items():
        devices = [each.device for each in cards]
        described = [device for device in devices if device.uuid not in scene.undescribed]
        for second_s in scene.seconds:
            mute = scene.silent if second_s >= scene.half_s else frozenset()
            for device in devices:
                if device.uuid not in mute:
                    yield from reading_runs(node, second_s, world.readings(device.uuid, second_s))
            if second_s == scene.seconds.start or second_s % _INFO_EVERY_S == 0:
                yield from info_runs(node, second_s, described)
            yield from _said_by_collector(scene, node, [device.uuid for device in devices], second_s)


def _said_by_collector(scene: Scene, node: str, uuids: Iterable[str], second_s: int) -> Iterator[SampleRun]:
    labels = {"node": node}
    values: Mapping[Series, float] = {
        COLLECTOR_LATENESS: 0.002,
        COLLECTOR_QUEUED: 1,
        COLLECTOR_REFUSED: 0,
        COLLECTOR_CLOCK_SKEW: -0.01,
        COLLECTOR_COMPLETE_UNTIL: second_s + 1,
    }
    for series, value in values.items():
        yield one_sample(series, labels, second_s, value)
    late = 3 if second_s >= scene.half_s else 0
    yield one_sample(COLLECTOR_HOLES, {**labels, "reason": "late"}, second_s, late)
    if second_s >= scene.half_s:
        for uuid in scene.silent.intersection(uuids):
            yield one_sample(COLLECTOR_MISSED, {**labels, "gpu_uuid": uuid}, second_s, second_s - scene.half_s + 1)


def _published(scene: Scene, held: list[Grant]) -> Iterator[SampleRun]:
    before: set[GrantLabels] = set()
    for second_s in scene.seconds[::_PUBLISHED_EVERY_S]:
        at_us = second_s * MICROSECONDS
        now = levels_of(
            grant for grant in held if grant.start_us <= at_us < (OPEN_END_US if grant.end_us is None else grant.end_us)
        )
        for labels, level in now.items():
            yield from open_runs(labels, level, second_s)
        for labels in sorted(before - now.keys()):
            yield from ended_runs(labels, second_s)
        before = set(now)


def _metered(scene: Scene) -> Iterator[SampleRun]:
    hour_us = scene.seconds.start // 3_600 * 3_600 * MICROSECONDS
    for second_s in scene.seconds[::_PUBLISHED_EVERY_S]:
        now_us = second_s * MICROSECONDS
        progress = [
            NodeProgress(
                node,
                Window(node, hour_us, "open", now_us - 4_500_000, 1, None, 0, 0, 0, now_us),
                hour_us,
                Unclosed(0, 0, 0, 0),
                0,
            )
            for node in scene.fleet.nodes
        ]
        yield from own_series(progress, [], 0, now_us)
        for tenant, rate in (("atelier", 4.4), ("northlab", 1.1), ("vision-7", 9.75)):
            yield one_sample(METER_SPEND_RATE, {"tenant": tenant, "currency": "CNY"}, second_s, rate)


def _joined(runs: Iterable[SampleRun]) -> list[SampleRun]:
    points: dict[tuple[Series, tuple[tuple[str, str], ...]], dict[int, int | float]] = {}
    for run in runs:
        points.setdefault((run.series, tuple(run.labels.items())), {}).update(zip(run.seconds, run.values, strict=True))
    return [SampleRun(series, dict(labels), [*found], [*found.values()]) for (series, labels), found in points.items()]
