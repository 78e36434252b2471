"""A mark is believed only when all that it vouches for can be seen."""

from collections.abc import Iterator
from pathlib import Path

from domain.clock import SystemClock
from domain.samples import SampleRun
from domain.series import COLLECTOR_COMPLETE_UNTIL, GPU_UP, Series
from machine.process import free_port
from meter.evidence.stored_observations import StoredObservations
from tests.side_by_side import side_by_side
from tests.victoriametrics_server import start
from victoriametrics.push import VISIBLE_S, Pusher
from victoriametrics.read import Reader

CLOCK = SystemClock()
NODES = [f"node-{number}" for number in range(120)]


def _now_s() -> int:
    return CLOCK.now_us() // 1_000_000


def _run(series: Series, node: str, second_s: int, value: int) -> SampleRun:
    card = {"gpu_uuid": "GPU-1"} if series is GPU_UP else {}
    return SampleRun(series, {"node": node, **card}, (second_s,), (value,))


@side_by_side
def test_whoever_believes_a_mark_sees_cards_that_came_with_it(folder: Path, victoriametrics_binary: Path) -> None:
    """The store was asked for them just before, and remembers for a while that there were none."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with start(binary=victoriametrics_binary, port=port, folder=folder), Pusher(url) as pusher, Reader(url) as reader:
        stored = StoredObservations(url, reader, lookback_s=600, clock=CLOCK)
        began_s = _now_s()
        pusher.send(_run(COLLECTOR_COMPLETE_UNTIL, node, began_s - 300, began_s - 300) for node in NODES)
        pusher.flush()
        CLOCK.sleep_s(VISIBLE_S)
        marks = dict(_delivered(pusher, stored, began_s))
        while marks:
            for node, mark_s in list(marks.items()):
                if stored.complete_until_s(node) == mark_s:
                    assert len(stored.samples(node, began_s, mark_s)) == 1, node
                    del marks[node]
            assert _now_s() < began_s + 120, marks


def _delivered(pusher: Pusher, stored: StoredObservations, began_s: int) -> Iterator[tuple[str, int]]:
    """The new mark of each node, all through the time that a store takes to forget."""
    for node in NODES:
        second_s = _now_s()
        assert stored.samples(node, began_s, second_s + 1).is_empty()
        pusher.send([_run(GPU_UP, node, second_s, 1), _run(COLLECTOR_COMPLETE_UNTIL, node, second_s, second_s + 1)])
        yield node, second_s + 1
        CLOCK.sleep_s(0.1)
