"""What `gputab doctor` says of a collector that shows no page: whether one is at work, by who has the queue open."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from collector.delivery.queue import BatchQueue
from domain.clock import MICROSECONDS, FrozenClock
from domain.units import MIB
from gputab.doctor.collector_page import collector_findings
from gputab.doctor.findings import Finding, Verdict
from machine.process import free_port

NOW_S = 1_700_000_000
Look = Callable[[int], dict[str, Finding]]


@pytest.fixture
def queue_file(tmp_path: Path) -> Path:
    return tmp_path / "queue-node-1.db"


@pytest.fixture
def look(queue_file: Path) -> Iterator[Look]:
    """What is said of node-1 by way of that port."""
    with httpx.Client(trust_env=False) as client:
        clock = FrozenClock(NOW_S * MICROSECONDS)

        def found(port: int) -> dict[str, Finding]:
            return {each.what: each for each in collector_findings("node-1", port, client, queue_file, MIB, clock)}

        yield found


@pytest.mark.parametrize("find_port", [lambda: 0, free_port], ids=["told to show none", "at another port"])
def test_a_collector_without_a_page_is_at_work_all_the_same(
    queue_file: Path, look: Look, find_port: Callable[[], int]
) -> None:
    with closing(BatchQueue(queue_file, MIB)):
        found = look(find_port())
    assert list(found) == ["collector"]
    assert found["collector"].said.startswith("one is at work for 'node-1': it has the queue open. It shows no page")
    assert found["collector"].verdict is Verdict.NOTE
    assert "metrics_port" in found["collector"].remedy
    assert "gputab collect" not in found["collector"].remedy


def test_where_none_is_at_work_what_waits_is_told(queue_file: Path, look: Look) -> None:
    assert look(0)["queue"].said == "none yet"
    assert not queue_file.exists()
    with closing(BatchQueue(queue_file, MIB)) as queue:
        queue.put(NOW_S - 7, b"{}\n")
        queue.put(NOW_S - 6, b"{}\n")
    found = look(0)
    assert found["collector"].remedy == "start it by `gputab collect`"
    assert found["queue"].said == "2 seconds wait, the oldest for 7 s; 0.0 MiB on disk"
    assert found["queue"].verdict is Verdict.GOOD


def test_seconds_that_wait_for_long_are_to_be_looked_into(queue_file: Path, look: Look) -> None:
    with closing(BatchQueue(queue_file, MIB)) as queue:
        queue.put(NOW_S - 61, b"{}\n")
    assert look(0)["queue"].verdict is Verdict.MEND


def test_a_queue_that_cannot_be_read_is_to_be_mended(queue_file: Path, look: Look) -> None:
    queue_file.write_bytes(b"no database " * 1_000)
    found = look(0)
    assert found["queue"].verdict is Verdict.MEND
    assert "move the file away" in found["queue"].remedy
