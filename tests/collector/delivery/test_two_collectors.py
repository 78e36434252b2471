"""Two collectors of one node that do not see each other, each with its own queue, change nothing in a card's totals."""

from pathlib import Path

from collector.delivery.queue import BatchQueue
from domain.series import GPU_MEMORY_USED
from tests.collector.patience import now_s, wait_until
from tests.collector.running import collecting, seconds_of_card
from tests.collector.seconds import SIZE
from victoriametrics.push import Pusher
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector


def test_every_second_is_there_once_with_the_value_that_was_read(
    tmp_path: Path, victoriametrics_url: str, unique_node: str
) -> None:
    """Also by the server's own count and sum, which the meter would go by."""
    queues = [BatchQueue(tmp_path / f"queue-{number}.db", SIZE) for number in range(2)]
    began_s = now_s()
    with collecting(unique_node, queues[0], victoriametrics_url):
        wait_until(lambda: (queues[0].complete_until_s or 0) > began_s + 1)
        with collecting(unique_node, queues[1], victoriametrics_url):
            joined_s = now_s()
            wait_until(lambda: all((each.complete_until_s or 0) > joined_s + 2 for each in queues))
    untils_s = [each.complete_until_s or 0 for each in queues]
    for queue in queues:
        queue.close()
    seconds = seconds_of_card(victoriametrics_url, unique_node, began_s, max(untils_s) + 10)
    assert len(seconds) >= 5
    with Pusher(victoriametrics_url) as pusher, Reader(victoriametrics_url) as reader:
        pusher.flush()
        selector = Selector((GPU_MEMORY_USED,), {"gpu_uuid": unique_node})
        window_s = seconds[-1] + 1 - began_s
        assert reader.count(selector, began_s, seconds[-1] + 1) == len(seconds)
        # What is looked back over does not hold its own beginning.
        query = f"sum_over_time({selector.expression}[{window_s}s])"
        wait_until(lambda: now_s() > seconds[-1])
        (total,) = reader.instant(query, seconds[-1])
    assert total.values == [float(sum(seconds))]
