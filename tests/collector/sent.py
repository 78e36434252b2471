"""Seconds with a sample in them, as a collector queues them, and those that the store has got."""

from collections.abc import Mapping

import polars as pl

from collector.delivery.queue import BatchQueue
from collector.sample_runs import one_sample
from domain.series import COLLECTOR_COMPLETE_UNTIL, GPU_MEMORY_USED, GPU_UP, Series
from tests.collector.patience import now_s
from victoriametrics.encode import encode
from victoriametrics.push import Pusher
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector


def put_samples(queue: BatchQueue, node: str, seconds: range) -> None:
    """In each second one card uses as many bytes as the second is called."""
    for second_s in seconds:
        run = one_sample(GPU_MEMORY_USED, {"node": node, "gpu_uuid": "GPU-1"}, second_s, second_s)
        queue.put(second_s, encode([run]))


def stored_samples(
    url: str, series: tuple[Series, ...], labels: Mapping[str, str], start_s: int, end_s: int
) -> pl.DataFrame:
    """What the store has of these series with these labels in [start_s, end_s)."""
    with Pusher(url) as pusher, Reader(url) as reader:
        pusher.flush()
        return reader.export(Selector(series, labels), start_s, end_s).frame


def stored_seconds(url: str, node: str, seconds: range) -> list[int]:
    """Those of which the store has the sample, none with a value of another second."""
    frame = stored_samples(url, (GPU_MEMORY_USED,), {"node": node}, seconds.start, seconds.stop)
    assert frame["second_s"].to_list() == frame["value"].cast(int).to_list()
    return frame["second_s"].to_list()


def marks_of(url: str, node: str, seconds: range) -> dict[int, float]:
    """Second in which a mark was published -> the second up to which it vouches."""
    frame = stored_samples(url, (COLLECTOR_COMPLETE_UNTIL,), {"node": node}, seconds.start, seconds.stop)
    return dict(frame.select("second_s", "value").iter_rows())


def samples_of_card(url: str, gpu_uuid: str, start_s: int) -> pl.DataFrame:
    """Whether it was up and what it used, from that second until now."""
    return stored_samples(url, (GPU_MEMORY_USED, GPU_UP), {"gpu_uuid": gpu_uuid}, start_s, now_s() + 1)
