"""What can go wrong with a node, and a schedule of it that a seed decides."""

import os
import random
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

from tests.collector.faults.node import Node
from tests.collector.patience import CLOCK, now_s

Fault = Callable[[Node, random.Random], AbstractContextManager[None]]


class Struck(NamedTuple):
    """A fault, and the seconds of the machine's clock in which it was there."""

    name: str
    seconds: range


@contextmanager
def store_killed(node: Node, _: random.Random) -> Iterator[None]:
    """`kill -9`; it is back with what its disk has."""
    node.store.kill()
    yield
    node.store.start()


@contextmanager
def store_stopped(node: Node, _: random.Random) -> Iterator[None]:
    """It hangs: it takes connections and answers nothing."""
    os.kill(node.store.child.pid, signal.SIGSTOP)
    yield
    os.kill(node.store.child.pid, signal.SIGCONT)


@contextmanager
def door_refuses(node: Node, dice: random.Random) -> Iterator[None]:
    """Every push is answered with an error."""
    status = dice.choice([400, 429, 503])
    node.door.answers = lambda _path, _body: (status, {})
    yield
    node.door.answers = lambda _path, _body: None


@contextmanager
def door_resets(node: Node, dice: random.Random) -> Iterator[None]:
    """Connections end in the middle of a request, or when the store has taken it and nobody has heard."""
    node.door.resets_after = dice.choice([0.5, None])
    node.door.resets = lambda _path: True
    yield
    node.door.resets = lambda _path: False


@contextmanager
def collector_killed(node: Node, _: random.Random) -> Iterator[None]:
    """`kill -9`, and a new one after a while."""
    node.kill()
    yield
    node.begin()


@contextmanager
def card_hangs(node: Node, dice: random.Random) -> Iterator[None]:
    """One card's memory is not told until it is over."""
    fault = node.driver.fault(0, "nvmlDeviceGetMemoryInfo_v2", dice.choice(node.uuids), hang=True)
    yield
    fault.take_back()


@contextmanager
def card_lost(node: Node, dice: random.Random) -> Iterator[None]:
    """One card falls off the bus."""
    uuid = dice.choice(node.uuids)
    node.driver.lose(uuid)
    yield
    node.driver.find(uuid)


@contextmanager
def driver_unloaded(node: Node, _: random.Random) -> Iterator[None]:
    """The module is taken out, and loaded again."""
    node.driver.unload()
    yield
    node.driver.load()


@contextmanager
def clock_set(node: Node, dice: random.Random) -> Iterator[None]:
    """Somebody sets the node's clock, and sets it back."""
    node.clock.set(dice.choice([-5, 30]))
    yield
    node.clock.set(0)


STORE = (store_killed, store_stopped, door_refuses, door_resets)
NODE = (collector_killed, card_hangs, card_lost, driver_unloaded, clock_set)
# Longer than 10 s, so that a clock that was set is believed now and then.
_LONGEST_SECONDS = 14
_REST_SECONDS = 6


def strike(node: Node, seed: int, seconds: float) -> list[Struck]:
    """Let faults of the store and of the node come and go beside each other for so long; what struck when."""
    struck: list[Struck] = []
    with ThreadPoolExecutor() as beside:
        lane = beside.submit(_strike, node, random.Random(f"{seed} node"), NODE, seconds, struck)
        # In this thread: a server ends with the thread that started it.
        _strike(node, random.Random(f"{seed} store"), STORE, seconds, struck)
        lane.result()
    return struck


def _strike(node: Node, dice: random.Random, faults: Sequence[Fault], seconds: float, struck: list[Struck]) -> None:
    until_s = CLOCK.monotonic_s() + seconds
    while (left_s := until_s - CLOCK.monotonic_s()) > 1:
        fault = dice.choice(faults)
        began_s = now_s()
        with fault(node, dice):
            CLOCK.sleep_s(min(left_s, dice.uniform(0.5, _LONGEST_SECONDS)))
        struck.append(Struck(fault.__name__, range(began_s, now_s() + 1)))
        CLOCK.sleep_s(dice.uniform(1, _REST_SECONDS))
