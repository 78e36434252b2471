"""`gputab collect`: the collector of one node."""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import closing
from enum import StrEnum
from functools import partial
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Annotated, Any, NoReturn

import structlog
import typer
from pydantic import TypeAdapter, ValidationError

from collector.call_times import CallTimes
from collector.chosen_source import ChosenSource
from collector.dcgm.bindings import BoundHostEngine
from collector.dcgm.engine_address import engine_address
from collector.dcgm.engine_source import HostEngineSource
from collector.dcgm.exporter import DcgmExporterSource
from collector.delivery.node_service import NodeService
from collector.delivery.queue import BatchQueue
from collector.node_claim import NodeClaim
from collector.node_state import node_state_path
from collector.process import collect as run_collector
from collector.process import queue_path
from collector.quiesce import QuiesceDesk
from collector.simulation.source import SimulatedSource
from collector.source import DriverGivenUpError, NewProcessNeededError, Source
from collector.standby import stand_by
from domain.errors import InputError
from domain.period import HOUR_S
from domain.slugs import check_name
from domain.units import MIB
from gputab import composition
from gputab.node_cards import KERNEL_LOG, open_cards, open_node_state
from gputab.output import say
from settings.gputab import Settings
from settings.values import ServerUrl
from victoriametrics.launcher import check_flags
from victoriametrics.push import Pusher

log = structlog.get_logger()

# EX_TEMPFAIL of sysexits.h; no other end of any command has it.
DRIVER_GIVEN_UP = 75


class SourceKind(StrEnum):
    """Where readings come from."""

    NVML = "nvml"
    SIMULATOR = "simulator"


def collect(
    source: Annotated[
        SourceKind | None, typer.Option(help="the cards of this machine (also beside DCGM), or simulated ones")
    ] = None,
    world: Annotated[Path | None, typer.Option(help="for the simulator: the file that says what happens")] = None,
    dcgm: Annotated[
        str | None, typer.Option(metavar="URL", help="in place of NVML: a dcgm-exporter, as http://127.0.0.1:9400")
    ] = None,
    dcgm_engine: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="in place of NVML: DCGM's host engine, as 127.0.0.1:5555")
    ] = None,
    node: Annotated[str | None, typer.Option(help="the node to collect as; default: the setting 'node'")] = None,
) -> None:
    """Sample the cards of this node every second.

    Delivers until it is stopped (Ctrl-C, SIGTERM), and then what it still has. SIGUSR1 lets go of the cards, as `gputab
    quiesce` does, SIGUSR2 takes them up again. A dcgm-exporter has to be started with --collect-interval 1000, or it
    says the same for 30 seconds. With --source nvml DCGM is read beside the driver, and not in its place.

    Where another collector of the node runs on this machine, this one stands by, and takes over when that has ended.

    The exit code is 75 where the driver has been gone for as long as the setting 'driver_gone_exit_seconds' says: the
    container is to be started again. Without that setting the driver is waited for.
    """
    composition.log_to_stderr()
    config = composition.settings()
    name = check_name("node", config.node if node is None else node)
    stop = Event()
    signals: list[int] = []

    def end(number: int, _: FrameType | None) -> None:
        signals.append(number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    _check_kind(source, world, dcgm, dcgm_engine)
    other = _open_other(config, name, world, dcgm, dcgm_engine)
    desk = _quiesce_desk(config, name) if other is None or source is SourceKind.NVML else None
    state = node_state_path(config.data_dir, name)
    with closing(NodeClaim(name, config.victoriametrics_url, state)) as claim:
        if not claim.take() and not _stand_by(config, name, stop, claim):
            return
        try:
            if desk is not None:
                _collect_nvml(config, name, stop, desk, other, claim.former_state)
            elif other is not None:
                with closing(other):
                    _collect(config, name, stop, other)
        except NewProcessNeededError as error:
            if not signals:
                log.warning("collector_restarts_itself", node=name, reason=str(error))
                claim.hand_on()
                _restart()
        except DriverGivenUpError as error:
            if not signals:
                say(f"gputab: {error}")
                raise typer.Exit(DRIVER_GIVEN_UP) from error


def _check_kind(kind: SourceKind | None, world: Path | None, dcgm: str | None, engine: str | None) -> None:
    if (kind is SourceKind.SIMULATOR) != (world is not None):
        raise InputError("cannot collect: --world FILE goes with --source simulator, and with no other")
    if world is not None and (dcgm is not None or engine is not None):
        raise InputError("cannot collect: --dcgm and --dcgm-engine go with real cards; leave out --source simulator")
    if dcgm is not None and engine is not None:
        raise InputError("cannot collect: an exporter asks the engine itself; give --dcgm or --dcgm-engine")


def _quiesce_desk(config: Settings, node: str) -> QuiesceDesk:
    """What is told by the signals that let go of the cards and take them up again."""
    desk = QuiesceDesk(config.data_dir, node)
    for number, quiesce in ((signal.SIGUSR1, True), (signal.SIGUSR2, False)):
        signal.signal(number, lambda *_, quiesce=quiesce: desk.signal(quiesce=quiesce))
    return desk


def _collect_nvml(
    config: Settings, node: str, stop: Event, desk: QuiesceDesk, beside: Source | None, former_state: Path | None
) -> None:
    """Collect by NVML, and by the other source where there is one; knowing what the collector before us knew."""
    clock = composition.clock()
    calls = CallTimes(clock)
    state = open_node_state(config.data_dir, node)
    if former_state is not None:
        state.take_over(former_state)
    cards = open_cards(config, clock, calls, state, quiesced=desk.is_wanted())
    with closing(cards if beside is None else ChosenSource(cards, beside)) as source:
        begin = partial(cards.start, desk, KERNEL_LOG)
        _collect(
            config,
            node,
            stop,
            source,
            begin,
            changed=cards.changed,
            calls=calls,
            source_facts=cards.facts,
        )


def _open_other(config: Settings, node: str, world: Path | None, dcgm: str | None, engine: str | None) -> Source | None:
    """The source that is not NVML, where one is asked for; of DCGM nothing is asked yet."""
    if world is not None:
        return SimulatedSource(world, node)
    if dcgm is not None:
        return DcgmExporterSource(_server_url(dcgm), composition.clock())
    if engine is not None:
        return HostEngineSource(
            partial(BoundHostEngine, engine_address(engine), config.dcgm_bindings), composition.clock()
        )
    return None


def _collect(
    config: Settings,
    node: str,
    stop: Event,
    cards: Source,
    begin: Callable[[], None] = lambda: None,
    **told: Any,
) -> None:
    """Run the collector over an open source. A message about unusable input has come by now: it leaves no queue."""
    store = composition.sample_store(config)
    with (
        closing(_open_queue(config, node)) as queue,
        Pusher(store) as pusher,
        composition.http_client(config.allocator_url) as client,
    ):
        begin()
        if config.token is None:
            log.warning("no_inventory_reported", node=node, remedy="set GPUTAB_TOKEN to the node's token")
            service = None
        else:
            service = NodeService(config.allocator_url, node, composition.token(config), client)
        run_collector(
            node,
            cards,
            queue,
            pusher,
            composition.clock(),
            stop,
            service,
            check_store=partial(check_flags, store),
            metrics_port=config.metrics_port,
            **told,
        )


def _stand_by(config: Settings, node: str, stop: Event, claim: NodeClaim) -> bool:
    """Wait for the end of the node's collector, which holds its cards alone; whether it is our turn then."""
    store = composition.sample_store(config)
    with closing(_open_queue(config, node)) as queue, Pusher(store) as pusher:
        return stand_by(node, claim, queue, pusher, composition.clock(), stop, check_store=partial(check_flags, store))


def _open_queue(config: Settings, node: str) -> BatchQueue:
    path = queue_path(config.data_dir, node)
    return BatchQueue(path, config.queue_max_mib * MIB, config.queue_max_hours * HOUR_S)


def _restart() -> NoReturn:
    """Become a new process of the same command, with the library of the driver that there is now."""
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        # One that comes before the new process listens must not end it.
        signal.signal(number, signal.SIG_IGN)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - it is this very command


def _server_url(url: str) -> str:
    """The URL as settings take one. Raises InputError, which never repeats it: it may hold a password."""
    try:
        return TypeAdapter(ServerUrl).validate_python(url)
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise InputError(
            f"cannot use the URL of --dcgm, which may hold a password and is not shown; {reason}"
        ) from None
