"""O6: what the store would take and drop for its size is never sent, but set aside and counted."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from collector.delivery.queue import BatchQueue
from collector.delivery.sender import Sender
from domain.clock import MICROSECONDS, FrozenClock
from domain.samples import SampleRun
from domain.series import GPU_INFO, GPU_MEMORY_USED, Kind, Series
from machine.process import free_port
from tests.collector.sample_logs import START_S
from tests.collector.sent import stored_seconds
from tests.collector.stores import unchecked
from tests.victoriametrics_server import start
from victoriametrics.encode import encode, encode_usable
from victoriametrics.push import Pusher

CLOCK = FrozenClock(START_S * MICROSECONDS)


@pytest.fixture
def narrow_url(victoriametrics_binary: Path, tmp_path: Path) -> Iterator[str]:
    """A server that takes less of a line than others do."""
    port = free_port()
    flags = ["-maxLabelValueLen=200", "-maxLabelsPerTimeseries=10"]
    with start(binary=victoriametrics_binary, port=port, folder=tmp_path / "narrow", flags=flags):
        yield f"http://127.0.0.1:{port}"


def _sample(node: str) -> bytes:
    labels = {"node": node, "gpu_uuid": "GPU-1"}
    return encode([SampleRun(GPU_MEMORY_USED, labels, (START_S,), (START_S,))])


def _line(node: str, labels: int = 0, value: int = 0, name: int = 0, length: int = 0) -> bytes:
    """A line of a series with so many labels, or one of so many bytes, or of so many bytes in all."""
    more = [f'"l{number}":"x"' for number in range(labels - 2)]
    more += [f'"long":"{"v" * value}"'] if value else []
    more += [f'"{"n" * name}":"x"'] if name else []
    blanks = " " * length
    metric = ",".join(['"__name__":"gpu_odd"', f'"node":"{node}"', *more])
    return f'{{"metric":{{{metric}}},"values":[1],"timestamps":[{START_S}000]{blanks}}}\n'.encode()


def _deliver(queue: BatchQueue, url: str, node: str, lines: Iterable[bytes]) -> dict[str, int]:
    """Let a second with a sample and those lines go; what the server has dropped since."""
    queue.put(START_S, b"".join([*lines, _sample(node)]))
    with Pusher(url) as pusher:
        before = pusher.dropped_rows()
        assert Sender(node, queue, pusher, CLOCK, unchecked).deliver()
        after = pusher.dropped_rows()
    return {reason: count - before.get(reason, 0) for reason, count in after.items() if count > before.get(reason, 0)}


def test_lines_above_a_limit_stay_behind_and_the_rest_arrives(
    queue: BatchQueue, victoriametrics_url: str, unique_node: str
) -> None:
    """O6: 41 labels, which the store would take and drop without a word; and its other limits."""
    limits: list[dict[str, int]] = [{"labels": 41}, {"value": 4_097}, {"name": 257}, {"length": 10 * 2**20}]
    lines = [_line(unique_node, **above) for above in limits]
    with capture_logs() as logs:
        assert _deliver(queue, victoriametrics_url, unique_node, lines) == {}
    assert (len(queue), queue.refused, queue.quarantined) == (0, 0, 4)
    assert stored_seconds(victoriametrics_url, unique_node, range(START_S, START_S + 1)) == [START_S]
    (log,) = logs
    for reason in ("41 labels with the name", "a label of 4097 bytes", "name of 257 bytes", "a line of 10485"):
        assert any(reason in each for each in log["reasons"]), log


def test_lines_at_a_limit_are_sent_and_kept(queue: BatchQueue, victoriametrics_url: str, unique_node: str) -> None:
    limits: list[dict[str, int]] = [{"labels": 40}, {"value": 4_096}, {"name": 256}, {"length": 2**20}]
    lines = [_line(unique_node, **at) for at in limits]
    assert _deliver(queue, victoriametrics_url, unique_node, lines) == {}
    assert (len(queue), queue.quarantined) == (0, 0)


def test_the_limits_are_those_that_the_server_tells(queue: BatchQueue, narrow_url: str) -> None:
    limits: list[dict[str, int]] = [{"value": 200}, {"value": 201}, {"labels": 10}, {"labels": 11}]
    assert _deliver(queue, narrow_url, "node-1", [_line("node-1", **limit) for limit in limits]) == {}
    assert queue.quarantined == 2
    assert stored_seconds(narrow_url, "node-1", range(START_S, START_S + 1)) == [START_S]


def test_what_cannot_even_be_encoded_is_set_aside_with_its_second(queue: BatchQueue, tmp_path: Path) -> None:
    """It costs itself only, not the second, and not the collector."""
    good = SampleRun(GPU_MEMORY_USED, {"node": "n", "gpu_uuid": "GPU-1"}, (START_S,), (1,))
    names = tuple(f"label_{number}" for number in range(41))
    bad = [
        SampleRun(GPU_MEMORY_USED, {"node": "n", "gpu_uuid": "GPU-2"}, (START_S,), (2**64 - 1,)),
        SampleRun(GPU_INFO, {"node": "n", "model": "x" * 5_000}, (START_S,), (1,)),
        SampleRun(Series("gpu_many", "info", Kind.INFO, "", names), dict.fromkeys(names, "x"), (START_S,), (1,)),
    ]
    body, unusable = encode_usable([bad[0], good, *bad[1:]])
    assert body == encode([good])
    words = ["'18446744073709551615' is not a number", "5000 bytes long", "41 labels and the name"]
    for each, said in zip(unusable, words, strict=True):
        assert said in each.reason
    queue.put(START_S, body, unusable)
    assert (len(queue), queue.refused, queue.quarantined) == (1, 0, 3)
    assert [batch.body for batch in queue.pending(1)] == [body]
    queue.close()
    again = BatchQueue(tmp_path / "queue.db", 2**20)
    assert (len(again), again.quarantined) == (1, 3)
    again.close()
