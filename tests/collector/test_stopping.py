"""A collector that is told to stop does so, whatever the store does: what it does not take is on the disk."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from collector.delivery.queue import BatchQueue
from collector.process import collect
from collector.source import ScriptedSource
from domain.inventory import Device
from domain.samples import DeviceReading
from domain.series import GPU_UP
from tests.collector.doors import proxy
from tests.collector.patience import CLOCK, PATIENCE_S, wait_for_the_last_threads, wait_until
from tests.collector.stores import unchecked
from victoriametrics.connection import ANSWER_TIMEOUT_S
from victoriametrics.push import Pusher


@contextmanager
def _silent_server() -> Iterator[str]:
    """The URL of what takes every connection and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def _closed_last() -> Iterator[Callable[[str], Pusher]]:
    """Makes pushers that are closed when nobody waits on them: who waits on a closed one may not hear of it."""
    with ExitStack() as pushers:
        yield lambda url: pushers.enter_context(Pusher(url))
        wait_for_the_last_threads()


def _collect_and_stop(node: str, queue: BatchQueue, pusher: Pusher, is_time: threading.Event) -> None:
    """Let a collector run until it is time, and wait for its end: for less than one answer would be waited for."""
    device = Device(node, 0, "card", 2**35, 0)
    source = ScriptedSource((device,), lambda uuid, _second: [DeviceReading(uuid, None, {GPU_UP: 1}, {})])
    stop = threading.Event()
    arguments = (node, source, queue, pusher, CLOCK, stop)
    thread = threading.Thread(target=collect, args=arguments, kwargs={"check_store": unchecked}, daemon=True)
    thread.start()
    wait_until(lambda: is_time.is_set() and queue.sampled_until_s is not None)
    stop.set()
    thread.join(ANSWER_TIMEOUT_S / 2)
    assert not thread.is_alive()


def test_a_store_that_never_answers_does_not_keep_a_collector_from_stopping(
    queue: BatchQueue, unique_node: str
) -> None:
    is_time = threading.Event()
    is_time.set()
    with _closed_last() as open_pusher, _silent_server() as url:
        _collect_and_stop(unique_node, queue, open_pusher(url), is_time)
        assert len(queue) >= 1


@pytest.mark.parametrize("route", ["/api/v1/import", "/metrics"])
def test_a_store_that_falls_silent_while_the_rest_is_delivered_does_not_either(
    queue: BatchQueue, victoriametrics_url: str, unique_node: str, route: str
) -> None:
    """It took every second until the collector was told to stop."""
    is_silent, released = threading.Event(), threading.Event()

    def answers_late(path: str, _body: bytes) -> bool:
        is_silent.set()
        if path == route:
            released.wait(2 * PATIENCE_S)
        return False

    with _closed_last() as open_pusher, proxy(victoriametrics_url) as door:
        door.refuses = answers_late
        _collect_and_stop(unique_node, queue, open_pusher(door.url), is_silent)
        assert len(queue) >= 1
        released.set()
