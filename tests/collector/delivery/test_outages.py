"""The store goes, the disk is full, the collector is killed: every second that was read is in the store once."""

import re
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from collector.delivery.queue import BatchQueue
from collector.process import queue_path
from collector.simulation.world_file import WorldFile, load_world
from domain.series import GPU_MEMORY_USED, GPU_UP
from tests.collector.collecting import collectors
from tests.collector.disks import QueueDisk
from tests.collector.doors import proxy
from tests.collector.patience import CLOCK, PATIENCE_S, now_s, wait_until
from tests.collector.running import collecting, seconds_of_card
from tests.collector.seconds import SIZE
from tests.collector.sent import marks_of, put_samples, samples_of_card
from tests.collector.stores import OwnStore, own_store
from tests.side_by_side import side_by_side
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector

NODE = "sim-4090-a"
IMPORT = "/api/v1/import"
CARD = "node-1"
BACKLOG = 3_000


def _assert_all_there(url: str, uuid: str, queue: BatchQueue, start_s: int) -> None:
    """Every second from the first that was sampled is in the store, or one of the holes that were counted."""
    until_s = queue.complete_until_s
    assert until_s is not None
    stored = seconds_of_card(url, uuid, start_s, until_s + 10)
    assert stored[-1] == until_s - 1
    assert len(stored) + queue.holes == until_s - stored[0]
    assert (len(queue), queue.refused, queue.quarantined) == (0, 0, 0)
    marks = list(marks_of(url, uuid, range(start_s, now_s() + 1)).values())
    assert marks == sorted(marks)
    assert marks[-1] == until_s


@pytest.mark.long
@side_by_side
def test_a_store_that_is_down_for_a_minute_misses_nothing(
    folder: Path, victoriametrics_binary: Path, *, is_soak: bool
) -> None:
    """60 s (`make test`: 2 s), while the collector samples on."""
    _down_for_a_minute(folder, victoriametrics_binary, lambda store: store.child.stop(), is_soak=is_soak)


@pytest.mark.long
@side_by_side
def test_a_store_that_is_killed_and_down_for_a_minute_misses_nothing(
    folder: Path, victoriametrics_binary: Path, *, is_soak: bool
) -> None:
    """Nor does one that lost what it had taken last."""
    _down_for_a_minute(folder, victoriametrics_binary, OwnStore.kill, is_soak=is_soak)


def _down_for_a_minute(folder: Path, binary: Path, end: Callable[[OwnStore], object], *, is_soak: bool) -> None:
    with own_store(binary, folder) as store, closing(BatchQueue(folder / "queue.db", SIZE)) as queue:
        began_s = now_s()
        with collecting(CARD, queue, store.url):
            wait_until(lambda: (queue.complete_until_s or 0) > began_s + 2)
            end(store)
            down_s = now_s()
            wait_until(lambda: len(queue) > 0)
            CLOCK.sleep_s(60 if is_soak else 2)
            assert (queue.complete_until_s or 0) <= down_s + 1
            store.start()
            wait_until(lambda: (queue.complete_until_s or 0) > now_s() - 2)
        _assert_all_there(store.url, CARD, queue, began_s)


@side_by_side
def test_a_disk_that_takes_nothing_while_the_store_is_away_costs_no_second_of_the_last_minute(
    folder: Path, victoriametrics_binary: Path
) -> None:
    """What waits in memory is delivered from there, and written down when the disk takes something again."""
    with own_store(victoriametrics_binary, folder) as store, closing(BatchQueue(folder / "queue.db", SIZE)) as queue:
        began_s = now_s()
        disk = QueueDisk(folder / "queue.db")
        store.child.stop()
        with collecting(CARD, queue, store.url):
            wait_until(lambda: len(queue) >= 2)
            disk.fail()
            full_s = now_s()
            wait_until(lambda: now_s() > full_s + 2)
            assert queue._file._is_failing
            store.start()
            wait_until(lambda: (queue.complete_until_s or 0) > full_s + 2)
            disk.mend()
            wait_until(lambda: not queue._file._is_failing)
        assert queue.holes == 0
        _assert_all_there(store.url, CARD, queue, began_s)


@side_by_side
def test_a_collector_that_is_killed_between_read_and_send_and_again_amid_the_replay_loses_nothing(
    folder: Path, victoriametrics_binary: Path
) -> None:
    """O4: kill -9, twice. Nothing is vouched for that is not there, and the mark does not go back."""
    WorldFile.create(folder / "world.jsonl", uuid4().int % 2**31, CLOCK)
    data = queue_path(folder / "data", NODE)
    first_s = now_s() - BACKLOG - 5
    queue = BatchQueue(data, SIZE)
    put_samples(queue, NODE, range(first_s, first_s + BACKLOG))
    queue.close()
    uuid = load_world(folder / "world.jsonl").fleet.nodes[NODE][0].device.uuid
    arguments = ("--source", "simulator", "--world", str(folder / "world.jsonl"), "--node", NODE)
    requests: list[int] = []

    def shut(path: str, _body: bytes) -> tuple[int, dict[str, str]] | None:
        return (503, {}) if path == IMPORT else None

    def slow(path: str, body: bytes) -> None:
        if path == IMPORT:
            requests.append(body.count(b"GPU-1"))
            CLOCK.sleep_s(0.7)

    with (
        own_store(victoriametrics_binary, folder) as store,
        proxy(store.url) as door,
        collectors(folder, door.url) as start,
    ):
        door.answers = shut
        process = start(*arguments)
        wait_until(lambda: _has_sampled(data, 3))
        process.kill()
        process.wait()
        door.answers = slow
        process = start(*arguments)
        wait_until(lambda: sum(requests) > 0)
        process.kill()
        process.wait()
        vouched_s = max(marks_of(store.url, NODE, range(first_s, now_s() + 1)).values(), default=0)
        assert vouched_s < first_s + BACKLOG, "it was in the middle of it"
        assert set(_backlog_in(store.url, first_s)) >= set(range(first_s, int(vouched_s)))
        door.answers = lambda _path, _body: None
        process = start(*arguments)
        wait_until(lambda: len(_backlog_in(store.url, first_s)) == BACKLOG)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0

        queue = BatchQueue(data, SIZE)
        until_s, holes = queue.complete_until_s, queue.holes
        assert (len(queue), queue.refused, queue.quarantined) == (0, 0, 0)
        queue.close()
        assert until_s is not None
        sampled = samples_of_card(store.url, uuid, first_s)
        up = sampled.filter(sampled["series"] == GPU_UP.name)
        assert set(up["value"]) == {1}
        assert BACKLOG + up.height + holes == until_s - first_s
        marks = list(marks_of(store.url, NODE, range(first_s, now_s() + 1)).values())
        assert marks == sorted(marks)
        assert marks[-1] == until_s


def _has_sampled(path: Path, seconds: int) -> bool:
    """Whether a collector that cannot deliver has written so many seconds; its log says when it began."""
    log = (path.parent.parent / "log-0").read_text()
    began = re.search(r"collector_started.*waiting_seconds=(\d+)", log)
    journal = path.with_name(f"{path.name}-wal")
    return began is not None and journal.exists() and journal.stat().st_size > seconds * 8_192


def _backlog_in(url: str, first_s: int) -> list[int]:
    """The seconds of the backlog that the store has, each with its value."""
    with Reader(url) as reader:
        selector = Selector((GPU_MEMORY_USED,), {"node": NODE, "gpu_uuid": "GPU-1"})
        frame = reader.export(selector, first_s, now_s() + 1).frame
    assert frame["second_s"].to_list() == frame["value"].cast(int).to_list()
    return frame["second_s"].to_list()
