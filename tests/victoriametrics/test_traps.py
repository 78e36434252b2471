"""What VictoriaMetrics does that looks like success: late visibility, moved times, rows taken and dropped."""

from collections.abc import Callable

import httpx
import pytest

from domain.errors import InputError
from domain.samples import SampleRun
from domain.series import GPU_MEMORY_USED
from victoriametrics.encode import encode
from victoriametrics.push import Pusher
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector

DAY_S = 86_400


def _runs(node: str, seconds: list[int]) -> list[SampleRun]:
    return [SampleRun(GPU_MEMORY_USED, {"node": node, "gpu_uuid": "GPU-1"}, seconds, seconds)]


def test_a_flush_makes_the_latest_samples_visible(pusher: Pusher, reader: Reader, unique_node: str, now_s: int) -> None:
    """Without it they show seconds later; a part of a push never shows as another value."""
    selector = Selector((GPU_MEMORY_USED,), {"node": unique_node})
    seconds = list(range(now_s - 9, now_s + 1))
    pusher.push(encode(_runs(unique_node, seconds)))
    assert set(reader.export(selector, now_s - 9, now_s + 1).frame["second_s"]) <= set(seconds)

    pusher.flush()

    assert reader.export(selector, now_s - 9, now_s + 1).frame["second_s"].to_list() == seconds


def test_a_question_up_to_now_misses_no_second(launch: Callable[..., str], unique_node: str, now_s: int) -> None:
    """By default the server answers for 30 s ago, though it was given another time and repeats that one."""
    url = launch("-search.latencyOffset=30s")
    selector = Selector((GPU_MEMORY_USED,), {"node": unique_node})
    query = f"count_over_time({selector.expression}[60s])"
    with Pusher(url) as pusher, Reader(url) as reader:
        pusher.push(encode(_runs(unique_node, list(range(now_s - 59, now_s + 1)))))
        pusher.flush()
        plain = httpx.get(f"{url}/api/v1/query", params={"query": query, "time": now_s}).json()
        second, count = plain["data"]["result"][0]["value"]
        assert second == now_s
        assert int(count) < 60

        assert reader.count(selector, now_s - 59, now_s + 1) == 60
        [moved] = reader.instant(query, now_s)
        assert (moved.seconds, moved.values) == ([now_s], [60.0])
        # An hour that is not over: the server must not slide the window back to now.
        assert reader.count(selector, now_s - 49, now_s + 3551) == 50
        latest = list(range(now_s - 4, now_s + 1))
        [line] = reader.range(f"last_over_time({selector.expression}[1s])", now_s - 4, now_s + 1, 1)
        assert (line.seconds, line.values) == (latest, latest)


def test_a_late_sample_is_in_the_next_answer(pusher: Pusher, reader: Reader, unique_node: str, now_s: int) -> None:
    """The server's cache of answers does not know of samples that came behind it."""
    start_s = now_s // 3600 * 3600 - 7200
    selector = Selector((GPU_MEMORY_USED,), {"node": unique_node})
    query = f"count_over_time({selector.expression}[1h])"
    pusher.push(encode(_runs(unique_node, list(range(start_s, start_s + 3600, 2)))))
    pusher.flush()
    assert reader.count(selector, start_s, start_s + 3600) == 1800
    assert [line.values for line in reader.range(query, start_s + 3599, start_s + 3600, 60)] == [[1800.0]]

    pusher.push(encode(_runs(unique_node, list(range(start_s + 1, start_s + 3600, 2)))))
    pusher.flush()

    assert reader.count(selector, start_s, start_s + 3600) == 3600
    assert [line.values for line in reader.range(query, start_s + 3599, start_s + 3600, 60)] == [[3600.0]]


def test_rows_that_were_taken_and_dropped_are_found(launch: Callable[..., str], unique_node: str, now_s: int) -> None:
    """The server answers 204 to every one of these."""
    url = launch("-retentionPeriod=30d")
    selector = Selector((GPU_MEMORY_USED,), {"node": unique_node})
    with Pusher(url) as pusher, Reader(url) as reader:
        before = pusher.dropped_rows()

        pusher.push(encode(_runs(unique_node, [now_s - 400 * DAY_S, now_s - 31 * DAY_S, now_s])))
        pusher.push(encode(_runs(unique_node, [now_s - 29 * DAY_S, now_s + 3 * DAY_S])))
        pusher.push(b'{"metric":{"__name__":"gpu_up"},"values":[1,2],"timestamps":[1000]}\n')
        pusher.flush()

        after = pusher.dropped_rows()
        dropped = {reason: count - before.get(reason, 0) for reason, count in after.items()}
        assert {reason: count for reason, count in dropped.items() if count} == {
            "small_timestamp": 2,
            "big_timestamp": 1,
            "malformed": 1,
        }
        assert reader.count(selector, now_s - 500 * DAY_S, now_s + 5 * DAY_S) == 2


def test_what_the_retention_does_not_reach_is_refused_before_the_first_byte(
    launch: Callable[..., str], unique_node: str, now_s: int
) -> None:
    """The line between kept and dropped is where the server draws it."""
    url = launch("-retentionPeriod=30d")
    with Pusher(url) as pusher, Reader(url) as reader:
        start_s = now_s + 1 - 30 * DAY_S
        pusher.refuse_unkept(start_s, now_s + 2 * DAY_S, now_s)
        for first_s, last_s, message in (
            (start_s - 1, now_s, r"keeps nothing from before '.*Z'; start it with a -retentionPeriod above '30d'"),
            (0, now_s, "cannot store samples of '1970-01-01T00:00:00Z'"),
            (now_s, now_s + 2 * DAY_S + 1, "takes nothing after '.*Z'; check the unit"),
            (now_s, now_s * 1000, f"cannot store samples of '{now_s}000'"),
        ):
            with pytest.raises(InputError, match=message):
                pusher.refuse_unkept(first_s, last_s, now_s)

        # The line moves on with the server's clock: a second before it, and a minute for a slow machine.
        pusher.push(encode(_runs(unique_node, [start_s - 2, start_s + 60])))
        pusher.flush()
        selector = Selector((GPU_MEMORY_USED,), {"node": unique_node})
        kept = reader.export(selector, start_s - 2, start_s + 61).frame["second_s"].to_list()
        assert kept == [start_s + 60]


def test_a_retention_without_a_unit_is_months_of_31_days(launch: Callable[..., str], now_s: int) -> None:
    start_s = now_s + 1 - 31 * DAY_S
    with Pusher(launch("-retentionPeriod=1")) as pusher:
        pusher.refuse_unkept(start_s, now_s, now_s)
        with pytest.raises(InputError, match="keeps nothing from before"):
            pusher.refuse_unkept(start_s - 1, now_s, now_s)


def test_a_century_reaches_back_to_1970(pusher: Pusher, now_s: int) -> None:
    pusher.refuse_unkept(0, now_s, now_s)
