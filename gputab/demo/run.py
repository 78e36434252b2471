"""The demo from the first step to the last: set the stage, write a past, let tenants work, bill, and prove the bill."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import httpx
from rich.console import Console
from rich.live import Live

from allocator.client import AllocatorClient
from domain.clock import MICROSECONDS, Clock
from domain.errors import UnavailableError
from gputab import composition, ledger
from gputab.demo import accounts, stage
from gputab.demo.cards import PAST_S, TENANT_PROJECTS, DemoCards, find_cards
from gputab.demo.customers import Customers
from gputab.demo.on_call import OnCall
from gputab.demo.processes import programs
from gputab.demo.stage import TOKENS_FILE, Stage
from gputab.demo.tab import draw
from gputab.demo.watch import Watch
from gputab.supervisor import Supervisor
from machine.lock import exclusive
from settings.gputab import Settings

_START_TIMEOUT_S = 30.0
_LINE_EVERY_S = 10


@dataclass(frozen=True, slots=True)
class Demo:
    """What the acts share."""

    scene: Stage
    cards: DemoCards
    clock: Clock
    console: Console
    client: httpx.Client
    on_call: OnCall

    def say(self, line: str) -> None:
        """One line, however long."""
        self.console.print(line, soft_wrap=True, highlight=False)


def run_demo(base: Settings, duration_s: int | None, clock: Clock, console: Console, *, past_s: int = PAST_S) -> int:
    """Run until `duration_s` live seconds have passed (None: until interrupted); the exit code of the process.

    0 only if every tenant's invoice has lines, no capacity is unaccounted for, and what was billed is what the
    simulator says was used. A simulated fleet gets `past_s` seconds of history. Whatever happens, no process of
    the demo outlives the call.
    """
    with ExitStack() as stack:
        stack.enter_context(exclusive(base.data_dir / "demo-lock", console.print))
        cards = find_cards(base, clock, past_s)
        scene = stage.prepare(base, TENANT_PROJECTS, cards.nodes, cards.start_us, console.print)
        client = stack.enter_context(composition.http_client(scene.settings.allocator_url))
        on_call = stack.enter_context(
            OnCall(scene.settings.victoriametrics_url, clock, console.print, partial(console.print, markup=False))
        )
        demo = Demo(scene, cards, clock, console, client, on_call)
        collect = {node: cards.collect_arguments(scene) for node in cards.nodes}
        supervisor = stack.enter_context(Supervisor(programs(scene, collect, on_call.url), scene.logs, clock))
        try:
            return _play(demo, supervisor, duration_s)
        except KeyboardInterrupt:
            demo.say("stopping every process")
            raise


def _play(demo: Demo, supervisor: Supervisor, duration_s: int | None) -> int:
    _start_servers(demo, supervisor)
    past_grants = demo.cards.write_past(demo.scene, demo.client, demo.console)
    world = demo.cards.open_world(demo.scene, demo.clock)
    for node in demo.cards.nodes:
        supervisor.start(f"collector-{node}")
    supervisor.start("meter")
    url = demo.scene.settings.allocator_url
    _wait_for_cards(demo, supervisor, AllocatorClient(url, demo.scene.operator_token, demo.client))
    clients = {tenant: AllocatorClient(url, token, demo.client) for tenant, token in demo.scene.tenant_tokens.items()}
    customers = Customers(clients, world, demo.clock, *demo.cards.jobs())
    customers.open()
    _live(demo, supervisor, customers, duration_s)
    ended_s = demo.clock.now_us() // MICROSECONDS
    customers.close()
    supervisor.stop_program("meter")
    code = accounts.settle(demo.scene, demo.cards, customers.done, past_grants, demo.clock, demo.console)
    missed_pages = demo.on_call.missed(demo.cards.live_world(demo.scene), ended_s)
    demo.say(demo.on_call.summary())
    for problem in missed_pages:
        demo.console.print(f"FAILED: {problem}", style="bold red", markup=False, soft_wrap=True)
    return 1 if missed_pages else code


def _start_servers(demo: Demo, supervisor: Supervisor) -> None:
    servers, folder = demo.scene.servers, os.path.relpath(demo.scene.folder)
    for name, server, health in (
        ("victoriametrics", servers.victoriametrics, "health"),
        ("alertmanager", servers.alertmanager, "-/ready"),
        ("vmalert", servers.vmalert, "health"),
        ("allocator", servers.allocator, "healthz"),
        ("explorer", servers.explorer, "_stcore/health"),
    ):
        supervisor.start(name, ready=partial(_answers, demo.client, f"{server.url}/{health}"))
    demo.say(f"VictoriaMetrics  {servers.victoriametrics.url}/vmui")
    demo.say(f"alerts           {servers.vmalert.url}/vmalert/alerts")
    demo.say(f"allocator        {servers.allocator.url}/docs")
    demo.say(f"cost explorer    {servers.explorer.url}; log in with a token of {folder}/{TOKENS_FILE}")
    demo.say(f"look around      cd {folder}, where every gputab command speaks of the demo")


def _answers(client: httpx.Client, url: str) -> bool:
    try:
        return client.get(url).is_success
    except httpx.TransportError:
        return False


def _wait_for_cards(demo: Demo, supervisor: Supervisor, operator: AllocatorClient) -> None:
    """Block until every card is reported and its node is heard from."""
    deadline_s = demo.clock.monotonic_s() + _START_TIMEOUT_S
    while True:
        supervisor.check()
        cards = operator.cards()
        if len(cards) == demo.cards.count and not any(card.is_silent for card in cards):
            return
        if demo.clock.monotonic_s() > deadline_s:
            raise UnavailableError(
                f"cannot begin: {len(cards)} of {demo.cards.count} cards were reported in {_START_TIMEOUT_S:g} s; "
                f"see the collectors' logs in {str(demo.scene.logs)!r}"
            )
        demo.clock.sleep_s(0.2)


def _live(demo: Demo, supervisor: Supervisor, customers: Customers, duration_s: int | None) -> None:
    """One tick a second: the tenants act, the tab is drawn."""
    began_s = demo.clock.now_us() // MICROSECONDS
    with (
        ledger.open_database(demo.scene.settings) as database,
        Live(console=demo.console, auto_refresh=False) as live,
    ):
        watch = Watch(demo.scene, database, demo.client)
        for age_s in _ticks(demo.clock, duration_s):
            customers.tick()
            supervisor.check()
            remark = f"live for {age_s} s; {customers.refusals} requests found no room; Ctrl-C stops everything"
            if demo.console.is_terminal:
                live.update(draw(watch.look(began_s + age_s, remark)), refresh=True)
            elif age_s % _LINE_EVERY_S == 0:
                demo.say(watch.line(began_s + age_s))


def _ticks(clock: Clock, duration_s: int | None) -> Iterator[int]:
    began_s = clock.now_us() // MICROSECONDS
    age_s = 0
    while duration_s is None or age_s < duration_s:
        yield age_s
        age_s = max(age_s + 1, clock.now_us() // MICROSECONDS - began_s)
        clock.sleep_s((began_s + age_s) - clock.now_us() / MICROSECONDS)
