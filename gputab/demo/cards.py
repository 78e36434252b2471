"""Which cards the demo runs on: those of this machine where it has any, else a simulated fleet with a past."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import httpx
from rich.console import Console

from collector.call_times import CallTimes
from collector.simulation.fleet import demo_fleet
from collector.simulation.history_plan import TENANTS, plan_history
from collector.simulation.world import World
from collector.simulation.world_file import WorldFile, load_world
from domain.clock import MICROSECONDS, Clock
from domain.errors import UnavailableError
from domain.inventory import Device
from gputab.demo import jobs, past
from gputab.demo.jobs import Job
from gputab.demo.proof import HeldGrant, held_in_plan
from gputab.demo.stage import Stage
from gputab.node_cards import open_cards
from settings.gputab import Settings

SEED = 20_260_101
TENANT_PROJECTS: Mapping[str, tuple[str, ...]] = TENANTS
PAST_S = 86_400


class DemoCards(Protocol):
    """The cards, and what is known of the truth about them."""

    @property
    def nodes(self) -> Sequence[str]:
        """Their nodes; each has a collector of its own."""
        ...

    @property
    def count(self) -> int:
        """How many there are."""
        ...

    @property
    def start_us(self) -> int:
        """When the demo's time begins; before now where the cards have a past."""
        ...

    def collect_arguments(self, stage: Stage) -> list[str]:
        """What `gputab collect` is told beside the node."""
        ...

    def write_past(self, stage: Stage, client: httpx.Client, console: Console) -> list[HeldGrant]:
        """Put the past into the stores; what was held in it."""
        ...

    def open_world(self, stage: Stage, clock: Clock) -> WorldFile | None:
        """Where workloads are started; None where the demo starts none."""
        ...

    def jobs(self) -> tuple[list[Job], Iterator[Job]]:
        """The first jobs, and those after them without end."""
        ...

    def live_world(self, stage: Stage) -> World | None:
        """The world as it was while tenants worked in it; None where the cards are real."""
        ...

    def worlds(self, stage: Stage) -> Mapping[str, tuple[World, int]]:
        """By allocation: the world that knows what it used, and the step of its samples in seconds."""
        ...


def find_cards(settings: Settings, clock: Clock, past_s: int) -> DemoCards:
    """The machine's cards if a driver answers and has some, else the simulated fleet with `past_s` of history."""
    try:
        source = open_cards(settings, clock, CallTimes(clock))
    except UnavailableError:
        return SimulatedCards(clock.now_us() // MICROSECONDS, past_s)
    try:
        devices = source.inventory()
    finally:
        source.close()
    if not devices:
        return SimulatedCards(clock.now_us() // MICROSECONDS, past_s)
    return RealCards(settings.node, devices, clock.now_us())


class SimulatedCards:
    """The simulated fleet: all of the truth is known."""

    def __init__(self, now_s: int, past_s: int) -> None:
        self._fleet = demo_fleet(SEED)
        end_s = now_s // past.STEP_S * past.STEP_S
        self._plan = plan_history(self._fleet, end_s - past_s, end_s)

    @property
    def nodes(self) -> Sequence[str]:
        return tuple(self._fleet.nodes)

    @property
    def count(self) -> int:
        return len(self._fleet.cards)

    @property
    def start_us(self) -> int:
        return self._plan.start_s * MICROSECONDS

    def collect_arguments(self, stage: Stage) -> list[str]:
        return ["--source", "simulator", "--world", str(_world_path(stage))]

    def write_past(self, stage: Stage, client: httpx.Client, console: Console) -> list[HeldGrant]:
        past.write(stage, self._fleet, self._plan, client, console)
        return [held_in_plan(planned, self._fleet) for planned in self._plan.grants]

    def open_world(self, stage: Stage, clock: Clock) -> WorldFile | None:
        return WorldFile.create(_world_path(stage), SEED, clock)

    def jobs(self) -> tuple[list[Job], Iterator[Job]]:
        return jobs.first_jobs(), jobs.later_jobs(SEED)

    def live_world(self, stage: Stage) -> World | None:
        return load_world(_world_path(stage))

    def worlds(self, stage: Stage) -> Mapping[str, tuple[World, int]]:
        live, before = load_world(_world_path(stage)), self._plan.world(self._fleet)
        known = {each.allocation: (live, 1) for each in live.tenancies}
        return known | {each.allocation: (before, past.STEP_S) for each in before.tenancies}


class RealCards:
    """The machine's own cards: tenants hold them and nothing runs, so only what was held is known for sure."""

    def __init__(self, node: str, devices: Sequence[Device], start_us: int) -> None:
        self._node = node
        self._devices = devices
        self._start_us = start_us

    @property
    def nodes(self) -> Sequence[str]:
        return (self._node,)

    @property
    def count(self) -> int:
        return len(self._devices)

    @property
    def start_us(self) -> int:
        return self._start_us

    def collect_arguments(self, stage: Stage) -> list[str]:  # noqa: ARG002 - the interface's form
        return ["--source", "nvml"]

    def write_past(self, stage: Stage, client: httpx.Client, console: Console) -> list[HeldGrant]:  # noqa: ARG002
        return []

    def open_world(self, stage: Stage, clock: Clock) -> WorldFile | None:  # noqa: ARG002
        return None

    def jobs(self) -> tuple[list[Job], Iterator[Job]]:
        return jobs.real_jobs(self._devices), jobs.later_real_jobs(self._devices, SEED)

    def live_world(self, stage: Stage) -> World | None:  # noqa: ARG002
        return None

    def worlds(self, stage: Stage) -> Mapping[str, tuple[World, int]]:  # noqa: ARG002
        return {}


def _world_path(stage: Stage) -> Path:
    return stage.folder / "world.jsonl"
