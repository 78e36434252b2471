"""A queue on a disk that is full, as the operating system says it (ENOSPC), and that has room again."""

import shutil
import signal
from contextlib import closing
from itertools import count
from pathlib import Path
from uuid import uuid4

from structlog.testing import capture_logs

from collector.delivery.holes import HoleReason
from collector.delivery.queue import BatchQueue
from collector.process import queue_path
from collector.simulation.world_file import WorldFile
from domain.errors import UnavailableError
from domain.units import MIB
from machine.process import free_port
from tests.collector.collecting import collectors
from tests.collector.delivery.small_disk import Rest, run_on_small_disk
from tests.collector.patience import CLOCK, PATIENCE_S, wait_until
from tests.collector.seconds import NOW_US, SECOND_S, SIZE, bodies, noise, waiting

NODE = "sim-4090-a"


def left_by_a_kill(disk: Path, copy: Path) -> dict[int, bytes]:
    """What the next process would find if the one that has the queue were killed now, and the disk had room then."""
    copy.mkdir()
    for file in disk.glob("queue.db*"):
        shutil.copy(file, copy)
    with closing(BatchQueue(copy / "queue.db", SIZE)) as queue:
        found = bodies(queue)
    shutil.rmtree(copy)
    return found


def go_on_from_memory(folder: str, copy: str) -> None:
    disk = Path(folder)
    rest, queue = Rest(disk), BatchQueue(disk / "queue.db", SIZE)
    put = {second_s: noise(3_000) for second_s in range(SECOND_S, SECOND_S + 106)}

    def put_until(end_s: int) -> None:
        for second_s in range(queue.sampled_until_s or SECOND_S, end_s):
            queue.put(second_s, put[second_s])

    with capture_logs() as logs:
        put_until(SECOND_S + 5)
        rest.fill()
        put_until(SECOND_S + 65)
        assert bodies(queue) == {s: put[s] for s in range(SECOND_S, SECOND_S + 65)}
        assert queue.holes == 0, "memory holds a minute"
        assert left_by_a_kill(disk, Path(copy)) == {s: put[s] for s in range(SECOND_S, SECOND_S + 5)}

        put_until(SECOND_S + 105)
        kept = {s: put[s] for s in put if s < SECOND_S + 5 or SECOND_S + 45 <= s < SECOND_S + 105}
        assert bodies(queue) == kept
        assert queue.holes == queue.holes_by_reason[HoleReason.DISK] == 40

        # One that the disk has, and one that only memory has.
        queue.delivered([SECOND_S, SECOND_S + 45], NOW_US)
        rest.free()
        put_until(SECOND_S + 106)
    kept[SECOND_S + 105] = put[SECOND_S + 105]
    waits = {s: body for s, body in kept.items() if s not in {SECOND_S, SECOND_S + 45}}
    assert bodies(queue) == left_by_a_kill(disk, Path(copy)) == waits, "nothing is sent twice, nor lost"
    said = [log.get("error") or log.get("reason") or log["event"] for log in logs if log["path"] == f"{disk}/queue.db"]
    assert said == ["database or disk is full", "disk", "queue_written_again"]
    queue.close()
    with closing(BatchQueue(disk / "queue.db", SIZE)) as again:
        assert (bodies(again), again.holes_by_reason[HoleReason.DISK], again.holes) == (waits, 40, 40)
        assert again.send_again() == 2
        assert bodies(again) == kept


def test_on_a_full_disk_a_queue_goes_on_from_memory_and_all_of_it_is_on_the_disk_once_that_has_room(
    tmp_path: Path,
) -> None:
    run_on_small_disk(go_on_from_memory, MIB, tmp_path / "disk", str(tmp_path / "copy"))


def grow_the_journal(folder: str, copy: str) -> None:
    disk = Path(folder)
    rest, queue = Rest(disk), BatchQueue(disk / "queue.db", SIZE)
    put = {second_s: noise(200_000) for second_s in range(SECOND_S, SECOND_S + 40)}
    rest.fill(left_pages=1_500)
    with capture_logs() as logs:
        # A journal of 1,000 pages is to go into the file, for which there is no room; then there is none for it either.
        for second_s in range(SECOND_S, SECOND_S + 40):
            queue.put(second_s, put[second_s])
            if not logs:
                assert left_by_a_kill(disk, Path(copy)).keys() == set(range(SECOND_S, second_s + 1))
    assert [log["event"] for log in logs] == ["queue_not_written"]
    journal = (disk / "queue.db-wal").stat().st_size
    assert 1_000 * 4_096 < journal < 1_500 * 4_096
    # Shared memory on a full disk would be the end of the process (SIGBUS), not an error.
    assert sorted(file.name for file in disk.iterdir()) == ["queue.db", "queue.db-wal", "rest"]
    assert bodies(queue) == put

    rest.free()
    queue.mark(SECOND_S)
    assert left_by_a_kill(disk, Path(copy)) == put
    queue.close()
    with closing(BatchQueue(disk / "queue.db", SIZE)) as again:
        assert (bodies(again), again.holes) == (put, 0)


def test_a_journal_that_a_full_disk_keeps_from_the_file_grows_until_it_cannot_and_loses_nothing(tmp_path: Path) -> None:
    run_on_small_disk(grow_the_journal, 24 * MIB, tmp_path / "disk", str(tmp_path / "copy"))


def close_and_open(folder: str) -> None:
    disk = Path(folder)
    rest, queue = Rest(disk), BatchQueue(disk / "queue.db", SIZE)
    put = {second_s: noise(3_000) for second_s in range(SECOND_S, SECOND_S + 20)}
    for second_s, body in put.items():
        queue.put(second_s, body)
    rest.fill()
    with capture_logs():
        queue.put(SECOND_S + 20, noise(3_000))
        queue.close()
    with closing(BatchQueue(disk / "queue.db", SIZE)) as again:
        assert (bodies(again), again.sampled_until_s, again.holes) == (put, SECOND_S + 20, 0)
        # A supervisor has started the collector again: it goes on from memory until the disk is free.
        with capture_logs() as logs:
            again.put(SECOND_S + 20, b"in memory")
        assert [log["event"] for log in logs] == ["queue_not_written"]
        rest.free()
    with closing(BatchQueue(disk / "queue.db", SIZE)) as last:
        assert (bodies(last), last.sampled_until_s) == ({**put, SECOND_S + 20: b"in memory"}, SECOND_S + 21)


def test_a_queue_that_is_closed_on_a_full_disk_has_what_the_disk_took_and_claims_no_more(tmp_path: Path) -> None:
    run_on_small_disk(close_and_open, MIB, tmp_path / "disk")


def why_not_made(path: Path) -> str | None:
    try:
        BatchQueue(path, SIZE).close()
    except UnavailableError as error:
        return str(error)
    return None


def begin(folder: str) -> None:
    disk = Path(folder)
    rest, path = Rest(disk), disk / "queue.db"
    said = set[str | None]()
    for pages in count():
        rest.fill(left_pages=pages)
        why_not = why_not_made(path)
        if why_not is None:
            break
        # A supervisor starts the collector again, before there is room.
        said |= {why_not, why_not_made(path)}
        rest.free()
        # What that has left is as good as nothing: the next makes a whole queue of it.
        with closing(BatchQueue(path, SIZE)) as queue:
            assert (len(queue), queue.sampled_until_s, queue.holes) == (0, None, 0)
            queue.put(SECOND_S, noise(3_000))
        path.unlink()
    full = "database or disk is full; check 'data_dir', or free the disk"
    assert said == {f"cannot use the queue {str(path)!r}: {full}"}
    assert pages > 3, "it has failed before, at and after the file's first page"


def test_a_queue_that_a_full_disk_keeps_from_being_made_is_made_whole_later_wherever_it_failed(tmp_path: Path) -> None:
    run_on_small_disk(begin, MIB, tmp_path / "disk")


def collect(folder: str, world: str) -> None:
    disk = Path(folder)
    rest = Rest(disk)
    rest.fill()
    arguments = ("--source", "simulator", "--world", world, "--node", NODE)
    path = queue_path(disk, NODE)
    with collectors(disk.parent, f"http://127.0.0.1:{free_port()}") as start:

        def log(number: int) -> str:
            return (disk.parent / f"log-{number}").read_text()

        assert start(*arguments).wait(PATIENCE_S) == 1
        (line,) = log(0).splitlines()
        assert line.startswith(f"gputab: cannot use the queue {str(path)!r}: database or disk is full; "), line
        assert line.endswith("free the disk"), line
        rest.free()

        process = start(*arguments)
        wait_until(lambda: "collector_started" in log(1))
        rest.fill()
        wait_until(lambda: "queue_not_written" in log(1))
        CLOCK.sleep_s(2)
        rest.free()
        wait_until(lambda: "queue_written_again" in log(1))
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0, log(1)
    with closing(BatchQueue(path, SIZE)) as queue:
        seconds = waiting(queue)
        assert queue.sampled_until_s == seconds[-1] + 1
        assert len(seconds) + queue.holes == seconds[-1] + 1 - seconds[0], "no second is missing, but for late ones"
        assert queue.holes_by_reason[HoleReason.DISK] == 0
        assert len(seconds) > 1


def test_a_collector_on_a_full_disk_says_so_and_ends_at_its_start_and_goes_on_where_it_runs(tmp_path: Path) -> None:
    WorldFile.create(tmp_path / "world.jsonl", uuid4().int % 2**31, CLOCK)
    run_on_small_disk(collect, 2 * MIB, tmp_path / "data", str(tmp_path / "world.jsonl"))
