"""A door before the store that refuses everything: no second is to blame, none leaves the queue, and nothing ends."""

import pytest
from structlog.testing import capture_logs

from collector.delivery.queue import BatchQueue
from collector.delivery.sender import Sender
from domain.clock import MICROSECONDS, FrozenClock
from domain.series import COLLECTOR_COMPLETE_UNTIL
from tests.collector.doors import proxy
from tests.collector.sample_logs import START_S
from tests.collector.sent import put_samples, stored_seconds
from tests.collector.stores import unchecked
from victoriametrics.push import Pusher

SECONDS = range(START_S, START_S + 5)


@pytest.mark.parametrize("route", ["/api/v1/import", "/"])
@pytest.mark.parametrize("seconds", [SECONDS, range(START_S, START_S + 1)])
def test_a_door_that_refuses_everything_leaves_the_queue_as_it_is(
    queue: BatchQueue, victoriametrics_url: str, unique_node: str, route: str, seconds: range
) -> None:
    """As a proxy does in which a route is missing; said once, and once more when it is mended."""
    put_samples(queue, unique_node, seconds)
    with proxy(victoriametrics_url) as door, Pusher(door.url) as pusher, capture_logs() as logs:
        sender = Sender(unique_node, queue, pusher, FrozenClock((START_S + 10) * MICROSECONDS), unchecked)
        door.refuses = lambda path, _body: path.startswith(route)
        for _ in range(3):
            assert not sender.deliver()
        assert (len(queue), queue.refused, queue.complete_until_s) == (len(seconds), 0, START_S)
        door.refuses = lambda _path, _body: False
        assert sender.deliver()

    assert (len(queue), queue.refused) == (0, 0)
    assert stored_seconds(victoriametrics_url, unique_node, range(START_S, START_S + 100)) == list(seconds)
    assert [log["event"] for log in logs] == ["store_unavailable", "store_available"]
    assert "missing route" in logs[0]["error"]
    assert logs[0]["waiting_seconds"] == len(seconds)


def test_a_mark_that_is_refused_is_published_later(
    queue: BatchQueue, victoriametrics_url: str, unique_node: str
) -> None:
    put_samples(queue, unique_node, SECONDS)
    published: list[bytes] = []

    def refuses_marks(_path: str, body: bytes) -> bool:
        is_mark = COLLECTOR_COMPLETE_UNTIL.name.encode() in body
        published.extend([body] if is_mark else [])
        return is_mark

    with proxy(victoriametrics_url) as door, Pusher(door.url) as pusher:
        sender = Sender(unique_node, queue, pusher, FrozenClock((START_S + 10) * MICROSECONDS), unchecked)
        door.refuses = refuses_marks
        assert not sender.deliver()
        assert sender.is_failing
        assert len(queue) == 0, "what it rode with arrives without it"
        assert len(published) == 2
        published.clear()
        door.refuses = lambda path, body: refuses_marks(path, body) and False
        assert sender.deliver()

    assert (queue.refused, queue.quarantined) == (0, 0)
    (mark,) = published
    assert f"[{START_S + 5}]".encode() in mark
