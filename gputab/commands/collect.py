"""`gputab collect`: the collector of one node."""

import signal
from enum import StrEnum
from functools import partial
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from collector.node_service import NodeService
from collector.nvml import NvmlSource
from collector.process import collect as run_collector
from collector.process import queue_path
from collector.queue import BatchQueue
from collector.simulated_source import SimulatedSource
from collector.source import Source
from domain.errors import InputError
from domain.slugs import check_name
from domain.units import MIB
from gputab import composition
from gputab.output import say
from victoriametrics.launcher import check_flags
from victoriametrics.push import Pusher


class SourceKind(StrEnum):
    """Where readings come from."""

    NVML = "nvml"
    SIMULATOR = "simulator"


def collect(
    source: Annotated[SourceKind, typer.Option(help="the cards of this machine, or simulated ones")] = SourceKind.NVML,
    world: Annotated[Path | None, typer.Option(help="for the simulator: the file that says what happens")] = None,
    node: Annotated[str | None, typer.Option(help="the node to collect as; default: the setting 'node'")] = None,
) -> None:
    """Sample the cards of this node every second.

    Delivers until it is stopped (Ctrl-C, SIGTERM), and then what it still has.
    """
    composition.log_to_stderr()
    config = composition.settings()
    name = check_name("node", node or config.node)
    cards = _open_source(source, world, name)
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


def _open_source(kind: SourceKind, world: Path | None, node: str) -> Source:
    if (kind is SourceKind.SIMULATOR) != (world is not None):
        raise InputError("cannot collect: --world FILE goes with --source simulator, and with no other")
    return NvmlSource() if world is None else SimulatedSource(world, node)
