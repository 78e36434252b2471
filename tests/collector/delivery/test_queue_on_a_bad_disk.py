"""While the disk takes nothing, memory is the queue; the file catches up, and nothing that was given up comes back."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.delivery.holes import HoleReason
from collector.delivery.node_service import NodeService
from collector.delivery.queue import BatchQueue
from collector.delivery.reporter import InventoryReporter
from collector.source import ScriptedSource
from domain.clock import FrozenClock
from domain.inventory import Device
from tests.collector.disks import QueueDisk
from tests.collector.seconds import NOW_US, SECOND_S, SIZE, body_of, noise, put_all, refuse_oldest, waiting


@pytest.fixture
def disk(queue: BatchQueue, tmp_path: Path) -> Iterator[QueueDisk]:
    """The one below `queue`."""
    disk = QueueDisk(tmp_path / "queue.db")
    yield disk
    disk.mend()


def test_rows_that_were_given_up_while_the_disk_failed_are_gone_when_it_takes_something_again(tmp_path: Path) -> None:
    """What waits in memory has its place in the size, too."""
    queue, disk = BatchQueue(tmp_path / "queue.db", 10_000), QueueDisk(tmp_path / "queue.db")
    for second_s in range(SECOND_S, SECOND_S + 4):
        queue.put(second_s, noise(2_000))
    disk.fail()
    for second_s in range(SECOND_S + 4, SECOND_S + 9):
        queue.put(second_s, noise(2_000))
    kept = waiting(queue)
    assert kept == list(range(SECOND_S + 9 - len(kept), SECOND_S + 9))
    assert len(kept) * 2_000 <= 10_000
    assert queue.holes == 9 - len(kept)
    disk.mend()
    queue.put(SECOND_S + 9, noise(2_000))

    kept, holes = waiting(queue), queue.holes
    assert holes == 10 - len(kept)
    assert list(disk.rows()) == kept
    assert sum(disk.rows().values()) <= 10_000
    queue.close()
    again = BatchQueue(tmp_path / "queue.db", 10_000)
    assert (waiting(again), again.holes, again.complete_until_s) == (kept, holes, kept[0])
    again.close()


def test_a_second_that_was_refused_while_the_disk_failed_does_not_come_back(
    queue: BatchQueue, disk: QueueDisk, tmp_path: Path
) -> None:
    put_all(queue, range(SECOND_S, SECOND_S + 3))
    disk.fail()
    refuse_oldest(queue)
    disk.mend()
    queue.put(SECOND_S + 3, body_of(SECOND_S + 3))
    queue.close()

    again = BatchQueue(tmp_path / "queue.db", SIZE)
    assert (waiting(again), again.refused) == ([SECOND_S + 1, SECOND_S + 2, SECOND_S + 3], 1)
    again.close()


def test_what_a_killed_store_may_have_lost_is_sent_again_though_the_disk_fails(
    queue: BatchQueue, disk: QueueDisk
) -> None:
    put_all(queue, range(SECOND_S, SECOND_S + 2))
    queue.delivered([SECOND_S, SECOND_S + 1], NOW_US)
    disk.fail()
    queue.put(SECOND_S + 2, body_of(SECOND_S + 2))
    queue.delivered([SECOND_S + 2], NOW_US)

    assert queue.send_again() == 3
    assert waiting(queue) == [SECOND_S, SECOND_S + 1, SECOND_S + 2]
    disk.mend()
    queue.put(SECOND_S + 3, body_of(SECOND_S + 3))
    queue.delivered([SECOND_S + 3], NOW_US + 61 * 1_000_000)
    assert waiting(queue) == [SECOND_S, SECOND_S + 1, SECOND_S + 2]


def test_a_report_that_the_disk_does_not_take_waits_and_keeps_its_place(
    queue: BatchQueue, disk: QueueDisk, tmp_path: Path
) -> None:
    disk.fail()
    queue.reports.put(b"first", is_repeat=False)
    queue.reports.put(b"a minute later", is_repeat=True)
    queue.reports.put(b"two minutes later", is_repeat=True)
    report = queue.reports.first()
    assert report is not None
    assert report.body == b"first"
    disk.mend()
    queue.reports.put(b"changed", is_repeat=False)
    queue.close()

    again = BatchQueue(tmp_path / "queue.db", SIZE)
    found = []
    while (report := again.reports.first()) is not None:
        found.append(report.body)
        again.reports.delete(report.report)
    assert found == [b"first", b"two minutes later", b"changed"]
    again.close()


def test_a_report_that_was_taken_is_not_sent_for_ever_though_the_disk_fails(
    queue: BatchQueue, disk: QueueDisk, tmp_path: Path
) -> None:
    queue.reports.put(b"first", is_repeat=False)
    disk.fail()
    report = queue.reports.first()
    assert report is not None
    queue.reports.delete(report.report)
    assert queue.reports.first() is None
    disk.mend()
    queue.reports.put(b"second", is_repeat=False)
    queue.close()

    again = BatchQueue(tmp_path / "queue.db", SIZE)
    report = again.reports.first()
    assert report is not None
    assert report.body == b"second"
    again.close()


def test_a_change_of_the_inventory_that_a_full_disk_does_not_take_is_reported_with_its_second(
    queue: BatchQueue, disk: QueueDisk
) -> None:
    """Also one that is taken back before the disk takes anything."""
    devices = tuple(Device(f"GPU-{index}", index, "card", 2**35, 0) for index in range(2))
    source = ScriptedSource(devices, lambda _uuid, _second: [])
    clock = FrozenClock(NOW_US)
    with httpx.Client() as client:
        reporter = InventoryReporter(source, "node-1", queue, clock, NodeService("http://nobody", "n", "t", client))
        disk.fail()
        for seen in (devices[:1], devices, devices, devices[1:]):
            clock.advance_us(5_000_000)
            source.devices = seen
            reporter.look()
        disk.mend()
        clock.advance_us(60_000_000)
        reporter.look()

    reports = []
    while (report := queue.reports.first()) is not None:
        body = json.loads(report.body)
        reports.append((body["observed_s"] - SECOND_S, [device["index"] for device in body["devices"]]))
        queue.reports.delete(report.report)
    assert reports == [(0, [0, 1]), (5, [0]), (10, [0, 1]), (20, [1]), (80, [1])]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 3)),
        st.tuples(st.just("deliver"), st.integers(1, 4)),
        st.tuples(st.just("refuse"), st.just(0)),
        st.tuples(st.just("again"), st.just(0)),
        st.tuples(st.just("disk"), st.integers(0, 1)),
    ),
    max_size=30,
)


@settings(max_examples=settings().max_examples * 25 // 100)
@given(steps=STEPS)
def test_the_file_catches_up_with_memory_whatever_happened_while_the_disk_failed(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "queue.db"
        queue, disk = BatchQueue(path, 6_000), QueueDisk(path)
        next_s, missed = SECOND_S, 0
        put, taken, refused = set[int](), set[int](), set[int]()
        for kind, number in [*steps, ("disk", 0), ("put", 0)]:
            if kind == "put":
                next_s += number
                missed += number
                queue.skip_to(next_s, number, HoleReason.LATE)
                queue.put(next_s, noise(1_000))
                put.add(next_s)
                next_s += 1
            elif kind == "deliver":
                some = waiting(queue)[:number]
                queue.delivered(some, NOW_US)
                taken.update(some)
            elif kind == "refuse" and len(queue):
                refused.add(refuse_oldest(queue))
            elif kind == "again":
                queue.send_again()
            elif kind == "disk":
                (disk.fail if number else disk.mend)()
            assert waiting(queue) == sorted(waiting(queue))
            assert len(put - taken - refused - {*waiting(queue)}) <= queue.holes - missed, "what is gone is counted"
        found = (waiting(queue), queue.holes, queue.refused, queue.complete_until_s)
        rows = disk.rows()
        assert {*waiting(queue)} <= rows.keys() <= put
        assert sum(rows.values()) <= 6_000
        queue.close()
        again = BatchQueue(path, 6_000)
        assert (waiting(again), again.holes, again.refused, again.complete_until_s) == found
        again.close()
