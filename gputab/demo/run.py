"""The demo from the first step to the last: set the stage, write a past, let tenants work, bill, and prove the bill."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import httpx
from rich.console import Console
from rich.live import Live

from allocator.client import AllocatorClient
from collector.history_plan import TENANTS, HistoryPlan, plan_history
from collector.simulated_fleet import Fleet, demo_fleet
from collector.world_file import WorldFile
from domain.clock import MICROSECONDS, Clock
from gputab import composition
from gputab.demo import accounts, past, stage
from gputab.demo.customers import Customers
from gputab.demo.stage import Stage
from gputab.demo.tab import draw
from gputab.demo.watch import Watch
from gputab.supervisor import Supervisor
from machine.lock import exclusive
from settings.gputab import Settings
from victoriametrics.launcher import wait_healthy

SEED = 20_260_101
PAST_S = 86_400
_STEP_S = 10
_START_TIMEOUT_S = 30.0
_LINE_EVERY_S = 10


@dataclass(frozen=True, slots=True)
class Demo:
    """What the acts share."""

    scene: Stage
    fleet: Fleet
    plan: HistoryPlan
    clock: Clock
    console: Console
    client: httpx.Client


def run_demo(base: Settings, duration_s: int | None, clock: Clock, console: Console) -> int:
    """Run until `duration_s` live seconds have passed (None: until interrupted); the exit code of the process.

    0 only if every tenant's invoice has lines, no capacity is unaccounted for, and what was billed is what the
    simulator says was used. Whatever happens, no process of the demo outlives the call.
    """
    lock = base.data_dir / "demo-lock"
    with ExitStack() as stack:
        stack.enter_context(exclusive(lock, console.print))
        fleet = demo_fleet(SEED)
        end_s = clock.now_us() // MICROSECONDS // _STEP_S * _STEP_S
        plan = plan_history(fleet, end_s - PAST_S, end_s)
        scene = stage.prepare(base, TENANTS, fleet.nodes, plan.start_s * MICROSECONDS, console.print)
        client = stack.enter_context(composition.http_client())
        demo = Demo(scene, fleet, plan, clock, console, client)
        collect = {node: ["--source", "simulator", "--world", str(scene.world_file)] for node in fleet.nodes}
        supervisor = stack.enter_context(Supervisor(stage.programs(scene, collect), scene.logs, clock))
        _start_servers(demo, supervisor)
        past.write(scene, fleet, plan, client, console)
        world = WorldFile.create(scene.world_file, SEED, clock)
        for node in fleet.nodes:
            supervisor.start(f"collector-{node}")
        supervisor.start("meter")
        customers = _open(demo, world)
        _live(demo, supervisor, customers, duration_s)
        customers.close()
        supervisor.stop_program("meter")
        return accounts.settle(demo.scene, fleet, plan, customers, clock, console)


def _start_servers(demo: Demo, supervisor: Supervisor) -> None:
    scene = demo.scene
    supervisor.start("victoriametrics")
    wait_healthy(scene.settings.victoriametrics_url, timeout_s=_START_TIMEOUT_S, clock=demo.clock)
    supervisor.start("allocator", ready=lambda: _answers(demo.client, f"{scene.settings.allocator_url}/healthz"))
    demo.console.print(f"VictoriaMetrics  {scene.settings.victoriametrics_url}/vmui")
    demo.console.print(f"allocator        {scene.settings.allocator_url}/docs")
    demo.console.print(f"logs             {scene.logs}")


def _answers(client: httpx.Client, url: str) -> bool:
    try:
        return client.get(url).is_success
    except httpx.TransportError:
        return False


def _open(demo: Demo, world: WorldFile) -> Customers:
    """Wait until every card has reported, then let the tenants in."""
    url = demo.scene.settings.allocator_url
    operator = AllocatorClient(url, demo.scene.operator_token, demo.client)
    deadline_s = demo.clock.monotonic_s() + _START_TIMEOUT_S
    while demo.clock.monotonic_s() < deadline_s and not _all_heard(operator, demo.fleet):
        demo.clock.sleep_s(0.2)
    clients = {tenant: AllocatorClient(url, token, demo.client) for tenant, token in demo.scene.tenant_tokens.items()}
    customers = Customers(clients, world, demo.clock, SEED)
    customers.open()
    return customers


def _all_heard(operator: AllocatorClient, fleet: Fleet) -> bool:
    cards = operator.cards()
    return len(cards) == len(fleet.cards) and not any(card.is_silent for card in cards)


def _live(demo: Demo, supervisor: Supervisor, customers: Customers, duration_s: int | None) -> None:
    """One tick a second: the tenants act, the tab is drawn."""
    watch = Watch(demo.scene, demo.client)
    began_s = demo.clock.now_us() // MICROSECONDS
    with Live(console=demo.console, auto_refresh=False, transient=False) as live:
        for age_s in _ticks(demo.clock, duration_s):
            customers.tick()
            supervisor.check()
            remark = f"live for {age_s} s; {customers.refusals} requests found no room; Ctrl-C stops everything"
            if demo.console.is_terminal:
                live.update(draw(watch.look(began_s + age_s, remark)), refresh=True)
            elif age_s % _LINE_EVERY_S == 0:
                demo.console.print(watch.line(began_s + age_s))


def _ticks(clock: Clock, duration_s: int | None) -> Iterator[int]:
    began_s = clock.now_us() // MICROSECONDS
    age_s = 0
    while duration_s is None or age_s < duration_s:
        yield age_s
        age_s = max(age_s + 1, clock.now_us() // MICROSECONDS - began_s)
        clock.sleep_s((began_s + age_s) - clock.now_us() / MICROSECONDS)
