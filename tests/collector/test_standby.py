"""A collector that stands by: it says nothing of the node, delivers what it had, and takes over in time."""

import os
import socket
from contextlib import closing
from pathlib import Path
from threading import Event, Thread

from collector.delivery.holes import HoleReason
from collector.delivery.queue import BatchQueue
from collector.delivery.queue_file import QueueDamagedError
from collector.node_claim import NodeClaim
from collector.standby import stand_by
from machine.process import free_port
from tests.collector.claims import STATE, STORE, Hold
from tests.collector.patience import CLOCK, PATIENCE_S, now_s, wait_until
from tests.collector.running import collecting, seconds_of_card
from tests.collector.seconds import SIZE, noise, put_all
from tests.collector.stores import unchecked
from victoriametrics.push import Pusher


class Standby:
    """One at work on a thread."""

    def __init__(self, node: str, queue: BatchQueue, url: str) -> None:
        self.is_ours: bool | None = None
        self.failure: Exception | None = None
        self.stop = Event()
        self._node, self._queue, self._url = node, queue, url
        self._thread = Thread(target=self._run)

    def __enter__(self) -> "Standby":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.wait()

    def wait(self) -> None:
        """Until it has ended."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with closing(NodeClaim(self._node, STORE, STATE)) as claim, Pusher(self._url) as pusher:
            try:
                self.is_ours = stand_by(self._node, claim, self._queue, pusher, CLOCK, self.stop, check_store=unchecked)
            except QueueDamagedError as error:
                self.failure = error


def test_what_was_sampled_before_is_delivered_and_what_the_other_samples_are_holes_of_another_kind(
    tmp_path: Path, unique_node: str, hold: Hold, victoriametrics_url: str
) -> None:
    other = hold()
    queue = BatchQueue(tmp_path / "queue.db", SIZE)
    began_s = now_s()
    with closing(queue):
        with collecting(unique_node, queue, f"http://127.0.0.1:{free_port()}"):
            wait_until(lambda: len(queue) > 2)
        sampled = [batch.second_s for batch in queue.pending(SIZE)]
        stopped_s = queue.sampled_until_s
        assert stopped_s is not None
        wait_until(lambda: now_s() > stopped_s)
        before_s = now_s()
        with Standby(unique_node, queue, victoriametrics_url) as standby:
            wait_until(lambda: not queue)
            stood_by_s = now_s()
            assert queue.sampled_until_s == stopped_s, "it samples nothing"
            wait_until(lambda: now_s() > stood_by_s + 1)
            assert standby.is_ours is None
            assert queue.marked_until_s <= stopped_s, "it vouches for nothing that the other has sampled"
            other.process.kill()
            standby.wait()
            assert standby.is_ours
        taken_over_s = queue.sampled_until_s
        assert taken_over_s is not None
        assert stood_by_s < taken_over_s <= now_s() + 1
        holes = queue.holes_by_reason
        assert before_s <= taken_over_s - holes[HoleReason.STOOD_BY] <= stood_by_s
        assert holes[HoleReason.NOT_RUNNING] + holes[HoleReason.STOOD_BY] == taken_over_s - stopped_s
    assert seconds_of_card(victoriametrics_url, unique_node, began_s, now_s() + 10) == sampled


def test_a_new_queue_counts_the_wait_too_since_the_other_may_not_have_delivered_it(
    tmp_path: Path, unique_node: str, hold: Hold, victoriametrics_url: str
) -> None:
    """So that the mark, which goes on from the take-over, vouches for nothing that was neither sent nor counted."""
    other = hold()
    before_s = now_s()
    with closing(BatchQueue(tmp_path / "queue.db", SIZE)) as queue:
        with Standby(unique_node, queue, victoriametrics_url) as standby:
            wait_until(lambda: now_s() > before_s + 5)
            other.process.kill()
            standby.wait()
        taken_over_s = queue.sampled_until_s
        assert taken_over_s is not None
        assert queue.holes == queue.holes_by_reason[HoleReason.STOOD_BY] > 2
        assert before_s <= taken_over_s - queue.holes <= before_s + 2


def test_one_that_is_to_end_ends_and_has_taken_over_nothing(
    tmp_path: Path, unique_node: str, hold: Hold, victoriametrics_url: str
) -> None:
    assert hold().answer == "True"
    queue = BatchQueue(tmp_path / "queue.db", SIZE)
    with closing(queue):
        with Standby(unique_node, queue, victoriametrics_url) as standby:
            pass
        assert standby.is_ours is False
        assert (queue.holes, queue.sampled_until_s) == (0, None)


def test_a_store_that_hangs_keeps_no_node_from_being_sampled(tmp_path: Path, unique_node: str, hold: Hold) -> None:
    """The request is given up, and what it was to deliver waits on."""
    other = hold()
    queue = BatchQueue(tmp_path / "queue.db", SIZE)
    put_all(queue, range(now_s() - 20, now_s() - 10))
    with closing(queue), socket.create_server(("127.0.0.1", 0)) as silent:
        with Standby(unique_node, queue, f"http://127.0.0.1:{silent.getsockname()[1]}") as standby:
            with silent.accept()[0]:
                other.process.kill()
                standby.wait()
            assert standby.is_ours
        assert len(queue) == 10


def test_a_queue_that_cannot_be_read_ends_it(
    tmp_path: Path, unique_node: str, hold: Hold, victoriametrics_url: str
) -> None:
    """As it ends a collector that samples."""
    assert hold().answer == "True"
    path = tmp_path / "queue.db"
    with closing(BatchQueue(path, SIZE)) as queue:
        for second_s in range(now_s() - 300, now_s() - 100):
            queue.put(second_s, noise(3_000))
    with closing(BatchQueue(path, SIZE)) as queue:
        with path.open("r+b") as file:
            file.seek(100_000)
            file.write(os.urandom(300_000))
        with Standby(unique_node, queue, victoriametrics_url) as standby:
            standby.wait()
        assert isinstance(standby.failure, QueueDamagedError)
