"""Sampling and sending beside each other: neither a card, a store, a clock nor a fault of one stops the other."""

import threading

import polars as pl
import pytest

from collector.delivery.queue import BatchQueue
from collector.process import collect
from collector.source import ScriptedSource
from domain.clock import MICROSECONDS, SystemClock
from domain.errors import UnavailableError
from domain.inventory import Device
from domain.samples import DeviceReading
from domain.series import COLLECTOR_COMPLETE_UNTIL, GPU_UP
from tests.collector.patience import CLOCK, PATIENCE_S, now_s, wait_until
from tests.collector.running import collecting_from, one_card
from tests.collector.sent import samples_of_card, stored_samples
from tests.collector.stores import unchecked
from victoriametrics.push import Pusher


def test_a_hanging_card_does_not_keep_a_collector_from_stopping(
    queue: BatchQueue, victoriametrics_url: str, unique_node: str
) -> None:
    """Its thread stays in the driver; the process ends without it, and the other cards were sampled."""
    released = threading.Event()
    devices = tuple(Device(f"{unique_node}-{index}", index, "card", 2**35, 0) for index in range(2))

    def answers(gpu_uuid: str, second_s: int) -> list[DeviceReading]:
        if gpu_uuid == devices[0].uuid:
            released.wait(2 * PATIENCE_S)
        return [DeviceReading(gpu_uuid, None, {GPU_UP: 1}, {})]

    source = ScriptedSource(devices, answers)
    with Pusher(victoriametrics_url) as pusher:
        began_s = now_s()
        with collecting_from(source, unique_node, queue, pusher):
            wait_until(lambda: samples_of_card(victoriametrics_url, devices[1].uuid, began_s).height >= 2)
    released.set()
    up = stored_samples(victoriametrics_url, (GPU_UP,), {"node": unique_node}, began_s, now_s() + 1)
    assert set(up["gpu_uuid"]) == {devices[1].uuid}
    assert up.height >= 2


def test_a_store_that_is_refused_gets_nothing_and_the_queue_holds(
    queue: BatchQueue, victoriametrics_url: str, unique_node: str
) -> None:
    def refuse() -> None:
        raise UnavailableError("cannot use this store")

    source = one_card(unique_node)
    began_s = now_s()
    with Pusher(victoriametrics_url) as pusher, collecting_from(source, unique_node, queue, pusher, check_store=refuse):
        wait_until(lambda: len(queue) >= 2)
    assert len(queue) >= 2
    assert samples_of_card(victoriametrics_url, unique_node, began_s).is_empty()


def test_a_collector_whose_sender_breaks_ends_and_says_why(
    queue: BatchQueue, victoriametrics_url: str, unique_node: str
) -> None:
    """One that samples on without delivering would look alive."""

    class Broken(Pusher):
        def push(self, body: bytes, packed: bytes | None = None) -> None:
            raise RuntimeError("a fault of ours")

    source = one_card(unique_node)
    with Broken(victoriametrics_url) as pusher, pytest.raises(RuntimeError, match="a fault of ours"):
        collect(unique_node, source, queue, pusher, CLOCK, threading.Event(), check_store=unchecked)
    assert len(queue) >= 1, "what was sampled stays"


class JumpingClock(SystemClock):
    """The machine's clocks, of which a test sets the wall clock `ahead_us`."""

    ahead_us = 0

    def now_us(self) -> int:
        return super().now_us() + self.ahead_us


def test_a_wall_clock_that_jumps_for_a_moment_leaves_no_trace_in_a_time_to_come(
    queue: BatchQueue, victoriametrics_url: str, unique_node: str
) -> None:
    """A day ahead, which the store would keep, then back: sampling, delivery and its mark go on in the present."""
    source = one_card(unique_node)
    clock = JumpingClock()
    day_s = 86_400
    began_s = now_s()
    with Pusher(victoriametrics_url) as pusher, collecting_from(source, unique_node, queue, pusher, clock):
        wait_until(lambda: (queue.complete_until_s or 0) > began_s)
        clock.ahead_us = day_s * MICROSECONDS
        CLOCK.sleep_s(1.5)
        clock.ahead_us = 0
        back_s = now_s()
        wait_until(lambda: (queue.complete_until_s or 0) > back_s + 1)
    own, labels = (GPU_UP, COLLECTOR_COMPLETE_UNTIL), {"node": unique_node}
    frame = stored_samples(victoriametrics_url, own, labels, began_s, began_s + 2 * day_s)
    ended_s = now_s()
    assert max(frame["second_s"]) <= ended_s
    marks = frame.filter(pl.col("series") == COLLECTOR_COMPLETE_UNTIL.name)
    assert marks.height >= 1
    assert (marks["value"] <= marks["second_s"] + 1).all()
    assert began_s < (queue.sampled_until_s or 0) <= ended_s + 1
