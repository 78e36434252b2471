"""What can go wrong with a node, and a schedule of it that a seed decides."""

import os
import random
import resource
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

from tests.collector.faults.node import Node
from tests.collector.patience import CLOCK, PATIENCE_S, now_s, wait_until

# While it is there it gives the cards that are down by it.
Fault = Callable[[Node, random.Random], AbstractContextManager[Sequence[str]]]


class Struck(NamedTuple):
    """A fault, the seconds of the machine's clock in which it was there, and the cards that were down by it."""

    name: str
    seconds: range
    down: Sequence[str]


@contextmanager
def store_killed(node: Node, _: random.Random) -> Iterator[Sequence[str]]:
    """`kill -9`; it is back with what its disk has."""
    node.store.kill()
    yield ()
    node.store.start()


@contextmanager
def store_stopped(node: Node, _: random.Random) -> Iterator[Sequence[str]]:
    """It hangs: it takes connections and answers nothing."""
    os.kill(node.store.child.pid, signal.SIGSTOP)
    yield ()
    os.kill(node.store.child.pid, signal.SIGCONT)


@contextmanager
def door_refuses(node: Node, dice: random.Random) -> Iterator[Sequence[str]]:
    """Every push is answered with an error."""
    status = dice.choice([400, 429, 503])
    node.door.answers = lambda _path, _body: (status, {})
    yield ()
    node.door.answers = lambda _path, _body: None


@contextmanager
def door_resets(node: Node, dice: random.Random) -> Iterator[Sequence[str]]:
    """Connections end in the middle of a request, or when the store has taken it and nobody has heard."""
    node.door.resets_after = dice.choice([0.5, None])
    node.door.resets = lambda _path: True
    yield ()
    node.door.resets = lambda _path: False


@contextmanager
def collector_killed(node: Node, _: random.Random) -> Iterator[Sequence[str]]:
    """`kill -9`, and a new one after a while."""
    node.kill()
    yield ()
    node.begin()


@contextmanager
def collector_replaced(node: Node, dice: random.Random) -> Iterator[Sequence[str]]:
    """Another stands by and takes over when the first is killed, or ended; then the first does the same.

    Not while the first has sampled seconds yet to come by a clock that was ahead, which the other would sample again.
    """
    CLOCK.sleep_s(node.ahead_s())
    other = node.start(IN_PLACE, "standing_by")
    begun = node.log().count("collector_started")
    if dice.choice([True, False]):
        node.kill()
    else:
        node.stop()
    wait_until(lambda: node.log().count("collector_started") > begun)
    yield ()
    node.collector = node.start("data", "standing_by")
    other.send_signal(signal.SIGTERM)
    assert other.wait(PATIENCE_S) == 0, node.log()
    wait_until(lambda: node.log().count("collector_started") > begun + 1)


@contextmanager
def card_hangs(node: Node, dice: random.Random) -> Iterator[Sequence[str]]:
    """One card's memory is not told until it is over."""
    fault = node.driver.fault(0, "nvmlDeviceGetMemoryInfo_v2", dice.choice(node.uuids), hang=True)
    yield ()
    fault.take_back()


@contextmanager
def card_lost(node: Node, dice: random.Random) -> Iterator[Sequence[str]]:
    """One card falls off the bus."""
    uuid = dice.choice(node.uuids)
    node.driver.lose(uuid)
    yield [uuid]
    node.driver.find(uuid)


@contextmanager
def driver_unloaded(node: Node, _: random.Random) -> Iterator[Sequence[str]]:
    """The module is taken out, and loaded again."""
    node.driver.unload()
    yield node.uuids
    node.work.load_driver()


@contextmanager
def driver_exchanged(node: Node, dice: random.Random) -> Iterator[Sequence[str]]:
    """Library and module are another version's, which a process that had the former cannot use.

    It ends when a new process has taken its place.
    """
    begun = node.log().count("collector_started")
    node.driver.exchange(f"610.{dice.randrange(100)}.{dice.randrange(100):02}")
    yield node.uuids
    wait_until(lambda: node.log().count("collector_started") > begun)


@contextmanager
def disk_full(node: Node, _: random.Random) -> Iterator[Sequence[str]]:
    """The queue's journal cannot grow; when it can again, what memory held reaches the disk before anything else."""
    assert node.collector is not None
    written_again = node.log().count("queue_written_again")
    size = node.queue_path().with_name(f"{node.queue_path().name}-wal").stat().st_size
    resource.prlimit(node.collector.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    yield ()
    resource.prlimit(node.collector.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    # The log is shorter than the journal: it says all of it.
    if node.log().count("queue_not_written") > written_again:
        wait_until(lambda: node.log().count("queue_written_again") > written_again)


@contextmanager
def clock_set(node: Node, dice: random.Random) -> Iterator[Sequence[str]]:
    """Somebody sets the node's clock, and sets it back."""
    node.set_clock(dice.choice([-5, 30]))
    yield ()
    node.set_clock(0)


# The folder of the queue of one that tells of the node in its collector's place.
IN_PLACE = "other"
STORE = (store_killed, store_stopped, door_refuses, door_resets)
NODE = (
    collector_killed,
    collector_replaced,
    card_hangs,
    card_lost,
    driver_unloaded,
    driver_exchanged,
    clock_set,
    disk_full,
)
# Longer than 10 s, so that a clock that was set is believed now and then.
_LONGEST_SECONDS = 14
_REST_SECONDS = 6
# So long after a fault a card may be said to be down by it still: cards are looked at every 5 s, and a driver is opened
# again 10 s after it could not be at the latest, or by a new process.
_LOOK_SECONDS, _OPEN_SECONDS = 8, 15


def down_seconds(struck: Sequence[Struck], uuid: str) -> set[int]:
    """The seconds in which that card may be said to be down: those of a fault that took it down, and shortly after."""
    return {
        second_s
        for fault in struck
        if uuid in fault.down
        for second_s in range(
            fault.seconds.start, fault.seconds.stop + (_LOOK_SECONDS if len(fault.down) == 1 else _OPEN_SECONDS)
        )
    }


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
    due: list[Fault] = []
    while (left_s := until_s - CLOCK.monotonic_s()) > 1:
        # None comes again before each has been there.
        due = due or dice.sample(faults, len(faults))
        fault = due.pop()
        began_s = now_s()
        with fault(node, dice) as down:
            CLOCK.sleep_s(min(left_s, dice.uniform(0.5, _LONGEST_SECONDS)))
        struck.append(Struck(fault.__name__, range(began_s, now_s() + 1), down))
        CLOCK.sleep_s(dice.uniform(1, _REST_SECONDS))
