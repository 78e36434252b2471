"""The past of the simulated fleet as the two CSV files a user could have had: allocations, and a sample log."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from collector.simulation.fleet import Fleet
from collector.simulation.history_plan import HistoryPlan
from collector.simulation.world import World
from domain.allocation_csv import COLUMNS
from domain.clock import MICROSECONDS
from domain.grants import GrantKind
from domain.period import format_instant
from domain.samples import DeviceReading
from domain.series import (
    GPU_BUSY,
    GPU_ENERGY,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_SM_ACTIVE,
    GPU_TEMPERATURE,
    GPU_UP,
    OWNER_COMPUTE,
    OWNER_MEMORY,
)
from domain.units import MIB

_DEVICE_VALUES = (
    GPU_UP,
    GPU_BUSY,
    GPU_SM_ACTIVE,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_ENERGY,
    GPU_TEMPERATURE,
)
_LABELS = ("node", "gpu_uuid", "mig_uuid", "owner")
SAMPLE_COLUMNS = ("time", *_LABELS, *(series.name for series in (*_DEVICE_VALUES, OWNER_MEMORY, OWNER_COMPUTE)))


def write_history(fleet: Fleet, plan: HistoryPlan, allocation_csv: Path, samples_csv: Path, step_s: int = 10) -> None:
    """Write both files; a row of the sample log stands for `step_s` seconds from its own on."""
    with allocation_csv.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(_allocation_rows(fleet, plan))
    with samples_csv.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(SAMPLE_COLUMNS)
        world = plan.world(fleet)
        # Elsewhere the one tenant's use is the device's, so a row for each owner would say nothing new.
        shared = {grant.tenancy.gpu_uuid for grant in plan.grants if grant.kind is GrantKind.SHARE}
        for second_s in range(plan.start_s, plan.end_s, step_s):
            rows.writerows(_sample_rows(world, second_s, shared))


def _allocation_rows(fleet: Fleet, plan: HistoryPlan) -> Iterator[dict[str, Any]]:
    for grant in plan.grants:
        tenancy = grant.tenancy
        card = fleet.cards[tenancy.gpu_uuid]
        instance = next((each for each in card.device.instances if each.uuid == tenancy.mig_uuid), None)
        yield {
            "allocation": tenancy.allocation,
            "tenant": grant.tenant,
            "project": grant.project,
            "node": card.node,
            "gpu_uuid": tenancy.gpu_uuid,
            "model": card.model.name,
            "kind": grant.kind.value,
            "milli_gpu": grant.milli_gpu,
            "vram_mib": tenancy.vram_limit_bytes // MIB,
            "mig_profile": instance.profile if instance else "",
            "start": format_instant(tenancy.start_s * MICROSECONDS),
            "end": format_instant(tenancy.end_s * MICROSECONDS) if tenancy.end_s is not None else "",
            "mig_uuid": tenancy.mig_uuid or "",
        }


def _sample_rows(world: World, second_s: int, shared: set[str]) -> Iterator[list[Any]]:
    """A row for each card and MIG instance, and on shared cards one for each owner."""
    time = format_instant(second_s * MICROSECONDS)
    for node, cards in world.fleet.nodes.items():
        for card in cards:
            uuid = card.device.uuid
            for reading in world.readings(uuid, second_s):
                values = [reading.values.get(series) for series in _DEVICE_VALUES]
                yield [time, node, uuid, reading.mig_uuid, None, *values, None, None]
                if uuid in shared:
                    yield from _owner_rows(time, node, reading)


def _owner_rows(time: str, node: str, reading: DeviceReading) -> Iterator[list[Any]]:
    empty = [None] * len(_DEVICE_VALUES)
    for owner, use in reading.owners.items():
        yield [time, node, reading.gpu_uuid, reading.mig_uuid, owner, *empty, use.memory_bytes, use.compute_ratio]
