"""One collector process: its threads, started in order and stopped so that nothing sampled is lost."""

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from urllib.parse import quote

import structlog

from collector.call_times import CallTimes
from collector.card_readers import CardReaders
from collector.delivery.node_service import NodeService
from collector.delivery.queue import BatchQueue
from collector.delivery.reporter import Heartbeat, InventoryReporter
from collector.delivery.sender import Sender
from collector.loop import SamplingLoop
from collector.own_metrics import OwnMetrics, OwnValue, Teller, source_values
from collector.own_page import OwnPage, served
from collector.own_values import call_values, clock_values, queue_facts, queue_values
from collector.past_seconds import remembered
from collector.sampling_record import SamplingRecord
from collector.source import Source
from collector.steady_clock import SteadyClock
from collector.tasks import Tasks
from domain.clock import MICROSECONDS, Clock
from victoriametrics.push import Pusher

# What is not delivered by then stays in the queue. All in all a stop is to take less than the 15 s after which a
# supervisor kills.
_DRAIN_SECONDS = 3.0
_THREADS_END_SECONDS = 2.0
# The first may take seconds, of which the next asks; what is missed in that is told in a moment.
_CATCH_UP_ROUNDS = 3

log = structlog.get_logger()


def queue_path(data_dir: Path, node: str) -> Path:
    """Where the queue of that node lies; several nodes can share one machine, as in the demo."""
    return data_dir / f"queue-{quote(node, safe='')}.db"


def collect(
    node: str,
    source: Source,
    queue: BatchQueue,
    pusher: Pusher,
    clock: Clock,
    stop: Event,
    service: NodeService | None = None,
    *,
    check_store: Callable[[], None],
    changed: Event | None = None,
    calls: CallTimes | None = None,
    source_facts: Teller = tuple,
    metrics_port: int = 0,
) -> None:
    """Sample, deliver and report until `stop` is set; then deliver what waits, for up to 3 s and one delivery more.

    A store or an allocator that hangs delays the end by some 10 s at most.

    Without a `service` nothing is reported. `check_store` raises UnavailableError where the store would bend samples;
    until it does not, they stay in the queue. `calls` are those of the source's driver, `source_facts` tells what it
    knows of the node that seldom changes. All that the collector says of itself is pushed, and shown on a page at
    `metrics_port` of loopback, if that is not 0.

    Raises UnavailableError where the driver gives no inventory at the start, SourceGoneError where it goes later
    (whoever supervises the process starts it again), and whatever broke one of its threads. `source`, `queue` and
    `pusher` stay open.
    """
    steady = SteadyClock(clock)
    reporter = InventoryReporter(source, node, queue, steady, service, changed)
    heartbeat = Heartbeat(node, steady, service) if service is not None else None
    sender = Sender(node, queue, pusher, steady, check_store)
    readers = CardReaders(source)
    record = SamplingRecord()

    def values() -> Iterator[OwnValue]:
        yield from record.values()
        yield from queue_values(queue, steady, sender.delivery_s)
        yield from clock_values(steady, heartbeat.skew_us if heartbeat is not None else None, sender.store_skew_s)
        yield from source_values(source)

    def rare_values() -> Iterator[OwnValue]:
        yield from queue_facts(queue)
        yield from source_facts()
        if calls is not None:
            yield from call_values(calls)

    own = OwnMetrics(node, values, rare_values)
    loop = SamplingLoop(
        node, readers, queue, steady, devices=lambda: reporter.devices, record=record, own=own, wake_sender=sender.wake
    )
    reporting = [heartbeat.run, reporter.send] if heartbeat is not None else []
    tasks = Tasks(node, [sender.run, reporter.run, *reporting], stop)
    cards = len(reporter.devices)
    log.info("collector_started", node=node, source=source.name, cards=cards, waiting_seconds=len(queue))
    try:
        _catch_up(loop, queue, source, steady)
        with served(OwnPage(own.values), metrics_port):
            loop.run(stop)
    finally:
        # A signal handler that sets it must never find us inside `set`, which takes a lock.
        if not stop.is_set():
            stop.set()
        _wind_up(sender, readers, tasks, clock)
        log.info("collector_stopped", node=node, waiting_seconds=len(queue))
    if tasks.failure is not None:
        raise tasks.failure


def _wind_up(sender: Sender, readers: CardReaders, tasks: Tasks, clock: Clock) -> None:
    """Let the tasks end, of which the sender's is the first, and deliver what still waits."""
    sender.wake()
    readers.close()
    tasks.join(_THREADS_END_SECONDS, clock)
    # A sender that is still at work waits for a store that hangs, as this thread would.
    if tasks.failure is None and not tasks.is_at_work(0) and not sender.is_failing:
        sender.drain(_DRAIN_SECONDS)


def _catch_up(loop: SamplingLoop, queue: BatchQueue, source: Source, clock: SteadyClock) -> None:
    """Queue what the source remembers of the seconds since the last that was sampled, with the one that it is now."""
    for _ in range(_CATCH_UP_ROUNDS):
        from_s, until_s = queue.sampled_until_s, clock.now_us() // MICROSECONDS + 1
        if from_s is None or from_s >= until_s:
            return
        past = remembered(source, from_s, until_s)
        if not past:
            return
        loop.catch_up(past)
