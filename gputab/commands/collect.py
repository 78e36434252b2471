"""`gputab collect`: the collector of one node."""

import signal
from enum import StrEnum
from functools import partial
from pathlib import Path
from threading import Event
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from collector.call_times import CallTimes
from collector.dcgm.exporter import DcgmExporterSource
from collector.delivery.node_service import NodeService
from collector.delivery.queue import BatchQueue
from collector.nvml.source import NvmlSource
from collector.process import collect as run_collector
from collector.process import queue_path
from collector.simulation.source import SimulatedSource
from collector.source import Source
from domain.errors import InputError
from domain.slugs import check_name
from domain.units import MIB
from gputab import composition
from gputab.output import say
from settings.values import ServerUrl
from victoriametrics.launcher import check_flags
from victoriametrics.push import Pusher


class SourceKind(StrEnum):
    """Where readings come from."""

    NVML = "nvml"
    SIMULATOR = "simulator"


def collect(
    source: Annotated[SourceKind, typer.Option(help="the cards of this machine, or simulated ones")] = SourceKind.NVML,
    world: Annotated[Path | None, typer.Option(help="for the simulator: the file that says what happens")] = None,
    dcgm: Annotated[
        str | None, typer.Option(metavar="URL", help="in place of NVML: a dcgm-exporter, as http://127.0.0.1:9400")
    ] = None,
    node: Annotated[str | None, typer.Option(help="the node to collect as; default: the setting 'node'")] = None,
) -> None:
    """Sample the cards of this node every second.

    Delivers until it is stopped (Ctrl-C, SIGTERM), and then what it still has. A dcgm-exporter has to be started with
    --collect-interval 1000, or it says the same for 30 seconds.
    """
    composition.log_to_stderr()
    config = composition.settings()
    name = check_name("node", node or config.node)
    cards = _open_source(source, world, dcgm, name)
    # Not before: a message about unusable input must not wait for a queue.
    queue = BatchQueue(queue_path(config.data_dir, name), config.queue_max_mib * MIB)
    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        with Pusher(config.victoriametrics_url) as pusher, composition.http_client() as client:
            if config.token is None:
                say("no inventory is reported: set GPUTAB_TOKEN to the node's token")
                service = None
            else:
                service = NodeService(config.allocator_url, name, composition.token(config), client)
            check_store = partial(check_flags, config.victoriametrics_url)
            run_collector(name, cards, queue, pusher, composition.clock(), stop, service, check_store=check_store)
    finally:
        queue.close()
        cards.close()


def _open_source(kind: SourceKind, world: Path | None, dcgm: str | None, node: str) -> Source:
    if (kind is SourceKind.SIMULATOR) != (world is not None):
        raise InputError("cannot collect: --world FILE goes with --source simulator, and with no other")
    if dcgm is None:
        return NvmlSource(CallTimes(composition.clock())) if world is None else SimulatedSource(world, node)
    if world is not None:
        raise InputError("cannot collect: --dcgm URL goes with real cards; leave out --source simulator")
    return DcgmExporterSource(_server_url(dcgm), composition.clock())


def _server_url(url: str) -> str:
    """The URL as settings take one. Raises InputError, which never repeats it: it may hold a password."""
    try:
        return TypeAdapter(ServerUrl).validate_python(url)
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise InputError(
            f"cannot use the URL of --dcgm, which may hold a password and is not shown; {reason}"
        ) from None
