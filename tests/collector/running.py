"""A collector at work on a thread, and what the store then has of its card."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from collector.delivery.queue import BatchQueue
from collector.process import collect
from collector.source import ScriptedSource
from domain.clock import Clock
from domain.inventory import Device
from domain.samples import DeviceReading
from domain.series import GPU_MEMORY_USED, GPU_UP
from domain.units import GIB
from tests.collector.patience import CLOCK, PATIENCE_S
from tests.collector.stores import unchecked
from victoriametrics.push import Pusher
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector


def one_card(uuid: str) -> ScriptedSource:
    """A card that is up, and says nothing else."""
    device = Device(uuid, 0, "card", 32 * GIB, 0)
    return ScriptedSource((device,), lambda uuid, _second: [DeviceReading(uuid, None, {GPU_UP: 1}, {})])


def counting_card(uuid: str) -> ScriptedSource:
    """A card that uses as many bytes as the second is called: whatever is stored elsewhere than it was read shows."""

    def answer(gpu_uuid: str, second_s: int) -> list[DeviceReading]:
        return [DeviceReading(gpu_uuid, None, {GPU_UP: 1, GPU_MEMORY_USED: second_s}, {})]

    return ScriptedSource((Device(uuid, 0, "card", 32 * GIB, 0),), answer)


@contextmanager
def collecting_from(
    source: ScriptedSource,
    node: str,
    queue: BatchQueue,
    pusher: Pusher,
    clock: Clock = CLOCK,
    check_store: Callable[[], None] = unchecked,
    **options: Any,
) -> Iterator[None]:
    """Collects until the block ends; then it ends because it is told to, or it is a failure."""
    stop = threading.Event()
    arguments = (node, source, queue, pusher, clock, stop)
    thread = threading.Thread(target=collect, args=arguments, kwargs={"check_store": check_store, **options})
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE_S)
    assert not thread.is_alive()


@contextmanager
def collecting(node: str, queue: BatchQueue, url: str) -> Iterator[None]:
    """Collects from a counting card of the node's name, until the block ends."""
    with Pusher(url) as pusher, collecting_from(counting_card(node), node, queue, pusher):
        yield


def seconds_of_card(url: str, uuid: str, start_s: int, end_s: int) -> list[int]:
    """The seconds in [start_s, end_s) that the store has of such a card: once each, as it was read, and up."""
    with Pusher(url) as pusher, Reader(url) as reader:
        pusher.flush()
        selector = Selector((GPU_MEMORY_USED, GPU_UP), {"gpu_uuid": uuid})
        export = reader.export(selector, start_s, end_s)
    rows = export.frame.select("series", "second_s", "value").rows()
    used = {second_s: value for series, second_s, value in rows if series == GPU_MEMORY_USED.name}
    up = {second_s: value for series, second_s, value in rows if series == GPU_UP.name}
    assert export.duplicates == export.off_second == export.not_finite == 0
    assert used == {second_s: second_s for second_s in used}
    assert up == dict.fromkeys(used, 1)
    return sorted(used)
