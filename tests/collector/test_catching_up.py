"""A collector that begins again asks its source for the seconds that it missed, before it counts them as holes."""

import json
import threading
from collections.abc import Iterator

from structlog.testing import capture_logs

from collector.delivery.holes import HoleReason
from collector.delivery.queue import BatchQueue
from collector.past_seconds import PastSecond, remembered
from collector.source import ScriptedSource
from domain.errors import UnavailableError
from domain.series import GPU_UP
from tests.collector.patience import PATIENCE_S, now_s, wait_until
from tests.collector.rig import DEVICES, answer
from tests.collector.running import collecting_from
from tests.collector.seconds import SIZE, put_all
from victoriametrics.push import Pusher


class RememberingSource(ScriptedSource):
    """Knows what every second of some was like."""

    def __init__(self, known: range) -> None:
        super().__init__(DEVICES, answer)
        self._known = known

    def missed(self, from_s: int, until_s: int) -> Iterator[PastSecond]:
        for second_s in self._known:
            if from_s <= second_s < until_s:
                yield PastSecond(second_s, answer("GPU-0", second_s))


class SlowSource(RememberingSource):
    """Takes more than a second for its first answer; `asked` are the seconds that it was asked for."""

    def __init__(self, known: range) -> None:
        super().__init__(known)
        self.asked: list[range] = []

    def missed(self, from_s: int, until_s: int) -> Iterator[PastSecond]:
        self.asked.append(range(from_s, until_s))
        if len(self.asked) == 1:
            wait_until(lambda: now_s() > until_s)
        yield from super().missed(from_s, until_s)


class SilentSource(ScriptedSource):
    """Is asked, and never answers until it is let go."""

    def __init__(self) -> None:
        super().__init__(DEVICES, answer)
        self.released = threading.Event()

    def missed(self, from_s: int, until_s: int) -> Iterator[PastSecond]:
        self.released.wait(PATIENCE_S)
        yield from ()


def _seconds_with_samples(queue: BatchQueue) -> set[int]:
    return {
        batch.second_s
        for batch in queue.pending(SIZE)
        for line in batch.body.splitlines()
        if json.loads(line).get("metric", {}).get("__name__") == GPU_UP.name
    }


def _collect(queue: BatchQueue, source: ScriptedSource, url: str) -> None:
    """Until two seconds more are in the queue; the store at `url` takes none of them."""
    before = queue.sampled_until_s or 0
    with Pusher(url) as pusher, collecting_from(source, "node", queue, pusher, check_store=_refuse):
        wait_until(lambda: (queue.sampled_until_s or 0) >= max(before, now_s()) and len(queue) > 2)


def _refuse() -> None:
    raise UnavailableError("cannot push: the store is away; start it")


def test_what_a_source_remembers_is_no_hole(queue: BatchQueue, victoriametrics_url: str) -> None:
    """Of the forty seconds that were missed the source knows ten."""
    last_s = now_s() - 40
    put_all(queue, range(last_s, last_s + 1))
    known = range(last_s + 5, last_s + 15)

    _collect(queue, RememberingSource(known), victoriametrics_url)

    sampled = _seconds_with_samples(queue)
    assert set(known) <= sampled
    assert not sampled & set(range(last_s + 1, last_s + 5))
    span = (queue.sampled_until_s or 0) - last_s - 1
    assert len(sampled) + queue.holes == span
    assert queue.holes_by_reason[HoleReason.NOT_RUNNING] >= 40 - 1 - len(known)


def test_seconds_that_go_by_while_a_source_tells_of_others_are_asked_for_too(
    queue: BatchQueue, victoriametrics_url: str
) -> None:
    """With the one that it is by then: the first second that is sampled is the next."""
    last_s = now_s() - 40
    put_all(queue, range(last_s, last_s + 1))
    source = SlowSource(range(last_s, last_s + 1_000))
    began_s = now_s()

    _collect(queue, source, victoriametrics_url)

    first, second, *_ = source.asked
    assert first.start == last_s + 1
    assert first.stop > began_s
    assert second.start == first.stop
    assert second.stop > second.start + 1
    assert set(range(first.start, source.asked[-1].stop)) <= _seconds_with_samples(queue)


def test_a_queue_without_a_second_asks_for_none(queue: BatchQueue, victoriametrics_url: str) -> None:
    _collect(queue, RememberingSource(range(now_s() - 100, now_s())), victoriametrics_url)

    assert min(_seconds_with_samples(queue)) >= now_s() - PATIENCE_S
    assert queue.holes == 0


def test_a_source_that_does_not_say_in_time_is_not_waited_for() -> None:
    source = SilentSource()
    with capture_logs() as logs:
        assert remembered(source, 0, 100) == []
    source.released.set()

    assert [log["event"] for log in logs] == ["missed_seconds_not_told"]
