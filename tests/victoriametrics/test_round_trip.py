"""What was pushed comes back, once, from exactly the seconds asked for."""

import json
from collections.abc import Callable
from uuid import uuid4

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from domain.errors import InputError
from domain.samples import SampleRun
from domain.series import GPU_BUSY, GPU_INFO, GPU_MEMORY_USED, GPU_UP, OWNER_MEMORY, Kind, Series
from victoriametrics.encode import SAMPLES_PER_LINE, encode
from victoriametrics.push import Pusher
from victoriametrics.read import Export, Reader
from victoriametrics.selectors import Selector

START_S = 1_790_000_000
LARGEST = 2**53 - 1


def _memory(node: str, seconds: list[int], values: list[int], **labels: str) -> SampleRun:
    return SampleRun(GPU_MEMORY_USED, {"node": node, "gpu_uuid": "GPU-1", **labels}, seconds, values)


def _raw(node: str, millis: list[int], values: list[float | str | None]) -> bytes:
    """A line as a stranger would write it, without our checks."""
    metric = {"__name__": GPU_MEMORY_USED.name, "node": node, "gpu_uuid": "GPU-1"}
    return json.dumps({"metric": metric, "values": values, "timestamps": millis}).encode() + b"\n"


def _memory_of(node: str) -> Selector:
    return Selector((GPU_MEMORY_USED,), {"node": node})


def _points(export: Export) -> dict[int, float]:
    return dict(export.frame.select("second_s", "value").iter_rows())


@settings(max_examples=settings().max_examples * 25 // 100, deadline=None)
@given(values=st.lists(st.integers(-LARGEST, LARGEST), min_size=1, max_size=300))
@example(values=[LARGEST, 1, 0, -LARGEST, 10**15, LARGEST - 1])
def test_whole_numbers_come_back_exact(pusher: Pusher, reader: Reader, values: list[int]) -> None:
    node = f"node-{uuid4().hex}"
    seconds = list(range(START_S, START_S + len(values)))

    pusher.push(encode([_memory(node, seconds, values)]))
    pusher.flush()

    frame = reader.export(_memory_of(node), START_S, START_S + len(values)).frame
    assert frame["second_s"].to_list() == seconds
    assert [int(value) for value in frame["value"]] == values


def test_a_run_longer_than_a_line_comes_back_whole(pusher: Pusher, reader: Reader, unique_node: str) -> None:
    seconds = list(range(START_S, START_S + SAMPLES_PER_LINE + 5))

    pusher.push(encode([_memory(unique_node, seconds, seconds)]))
    pusher.flush()

    frame = reader.export(_memory_of(unique_node), START_S, seconds[-1] + 1).frame
    assert frame["value"].cast(pl.Int64).equals(frame["second_s"], check_names=False)
    assert frame.height == len(seconds)


def test_the_first_second_of_1970_is_a_second(pusher: Pusher, reader: Reader, unique_node: str) -> None:
    pusher.push(encode([_memory(unique_node, [0, 1], [7, 8])]))
    pusher.flush()

    assert _points(reader.export(_memory_of(unique_node), 0, 1)) == {0: 7}
    assert reader.count(_memory_of(unique_node), 0, 2) == 2


def test_the_frame_has_the_columns_of_the_catalogue_whatever_is_found(
    pusher: Pusher, reader: Reader, unique_node: str
) -> None:
    selector = Selector((OWNER_MEMORY, GPU_BUSY), {"node": unique_node})
    schema = dict.fromkeys(["series", "node", "gpu_uuid", "mig_uuid", "owner"], pl.String()) | {
        "second_s": pl.Int64(),
        "value": pl.Float64(),
    }
    assert reader.export(selector, START_S, START_S + 9).frame.schema == schema

    card = {"node": unique_node, "gpu_uuid": "GPU-1"}
    pusher.push(
        encode(
            [
                SampleRun(OWNER_MEMORY, {**card, "mig_uuid": "MIG-1", "owner": "alloc:a"}, [START_S], [5]),
                SampleRun(GPU_BUSY, card, [START_S + 1, START_S], [0.5, 0.25]),
            ]
        )
    )
    pusher.flush()

    frame = reader.export(selector, START_S, START_S + 9).frame
    assert frame.schema == schema
    assert frame.rows() == [
        ("gpu_busy_ratio", unique_node, "GPU-1", "", "", START_S, 0.25),
        ("gpu_busy_ratio", unique_node, "GPU-1", "", "", START_S + 1, 0.5),
        ("gpu_owner_memory_bytes", unique_node, "GPU-1", "MIG-1", "alloc:a", START_S, 5.0),
    ]


def test_an_interval_is_half_open_on_both_counts(pusher: Pusher, reader: Reader, unique_node: str) -> None:
    seconds = list(range(START_S, START_S + 10))
    pusher.push(encode([_memory(unique_node, seconds, seconds)]))
    pusher.flush()

    for start, end in ((0, 10), (3, 7), (3, 4), (3, 3), (9, 20), (-5, 1)):
        expected = [second for second in seconds if START_S + start <= second < START_S + end]
        export = reader.export(_memory_of(unique_node), START_S + start, START_S + end)
        assert export.frame["second_s"].to_list() == expected
        assert reader.count(_memory_of(unique_node), START_S + start, START_S + end) == len(expected)


def test_the_last_second_is_read_to_its_end(pusher: Pusher, reader: Reader, unique_node: str) -> None:
    """A sample at x.999 lies before the end x + 1; an end in whole seconds would not even look there."""
    pusher.push(_raw(unique_node, [START_S * 1000, START_S * 1000 + 999, START_S * 1000 + 3000], [1, 2, 3]))
    pusher.flush()

    export = reader.export(_memory_of(unique_node), START_S, START_S + 1)
    assert export.samples == 2
    assert export.off_second == 1
    assert reader.count(_memory_of(unique_node), START_S, START_S + 1) == 2


def test_a_stamp_between_two_seconds_is_counted_not_bent(pusher: Pusher, reader: Reader, unique_node: str) -> None:
    millis = [START_S * 1000 + offset for offset in (0, 1500, 2999, 4000)]
    pusher.push(_raw(unique_node, millis, [1, 2, 3, 4]))
    pusher.flush()

    export = reader.export(_memory_of(unique_node), START_S, START_S + 10)

    assert _points(export) == {START_S: 1, START_S + 4: 4}
    assert export.off_second == 2


def test_an_infinite_value_is_counted_not_returned(pusher: Pusher, reader: Reader, unique_node: str) -> None:
    millis = [(START_S + offset) * 1000 for offset in range(3)]
    pusher.push(_raw(unique_node, millis, [1, "Infinity", 3]))
    pusher.flush()

    export = reader.export(_memory_of(unique_node), START_S, START_S + 10)

    assert _points(export) == {START_S: 1, START_S + 2: 3}
    assert export.not_finite == 1
    assert export.samples == reader.count(_memory_of(unique_node), START_S, START_S + 10) == 3


def test_pushing_again_changes_nothing(pusher: Pusher, reader: Reader, unique_node: str) -> None:
    seconds = list(range(START_S, START_S + 60))
    body = encode([_memory(unique_node, seconds, [second % 7 for second in seconds])])
    pusher.push(body)
    pusher.flush()
    once = reader.export(_memory_of(unique_node), START_S, START_S + 60)

    pusher.push(body)
    pusher.push(body)
    pusher.flush()
    again = reader.export(_memory_of(unique_node), START_S, START_S + 60)

    assert again.frame.equals(once.frame)
    assert once.frame.height == reader.count(_memory_of(unique_node), START_S, START_S + 60) == 60


@pytest.mark.parametrize("flags", [[], ["-dedup.minScrapeInterval=0s"]], ids=["merging", "keeping duplicates"])
def test_of_two_samples_on_a_second_the_larger_counts(
    launch: Callable[..., str], unique_node: str, flags: list[str]
) -> None:
    """Whether the server merges them or, not told to, returns both."""
    url = launch(*flags)
    with Pusher(url) as pusher, Reader(url) as reader:
        for values in ([5, 5, 1], [9, 5, 0], [7, 5, 2]):
            pusher.push(encode([_memory(unique_node, [START_S, START_S + 1, START_S + 2], values)]))
            pusher.flush()

        export = reader.export(_memory_of(unique_node), START_S, START_S + 9)

        assert _points(export) == {START_S: 9, START_S + 1: 5, START_S + 2: 2}
        assert export.duplicates == (6 if flags else 0)
        assert export.samples == reader.count(_memory_of(unique_node), START_S, START_S + 9)


def test_a_label_with_an_empty_value_selects_what_lacks_it(pusher: Pusher, reader: Reader, unique_node: str) -> None:
    pusher.push(encode([_memory(unique_node, [START_S], [1]), _memory(unique_node, [START_S], [2], mig_uuid="MIG-1")]))
    pusher.flush()

    whole_cards = Selector((GPU_MEMORY_USED,), {"node": unique_node, "mig_uuid": ""})
    assert _points(reader.export(whole_cards, START_S, START_S + 1)) == {START_S: 1}
    assert reader.export(_memory_of(unique_node), START_S, START_S + 1).frame.height == 2


label_values = st.text(min_size=1, max_size=200)


@settings(max_examples=settings().max_examples * 60 // 100, deadline=None)
@given(values=st.lists(label_values, min_size=1, max_size=5, unique=True))
@example(
    values=['a"b', "a\\b", "a\nb", "a'b", "a`b", "{x=~'.*'}", ".*", "a|b", " ", "\x00\x01\x02", "\u2028", "显卡 😀"]
)
def test_any_text_is_a_label_value_that_selects_itself_alone(pusher: Pusher, reader: Reader, values: list[str]) -> None:
    node = f"node-{uuid4().hex}"
    card = {"node": node, "gpu_uuid": "GPU-1"}
    pusher.push(
        encode(
            SampleRun(GPU_INFO, {**card, "model": value}, [START_S + number], [1])
            for number, value in enumerate(values)
        )
    )
    pusher.flush()

    everything = reader.export(Selector((GPU_INFO,), {"node": node}), START_S, START_S + 100).frame
    assert sorted(everything["model"]) == sorted(values)
    for number, value in enumerate(values):
        selector = Selector((GPU_INFO,), {"node": node, "model": value})
        frame = reader.export(selector, START_S, START_S + 100).frame
        assert frame.select("model", "second_s").rows() == [(value, START_S + number)]
        assert reader.count(selector, START_S, START_S + 100) == 1


def test_the_longest_label_value_and_the_most_labels_are_kept(pusher: Pusher, reader: Reader, unique_node: str) -> None:
    names = ("node", *(f"label_{number}" for number in range(38)))
    series = Series("gpu_many", "info", Kind.INFO, "a series of a later catalogue", names)
    labels = {**dict.fromkeys(names, "x"), "label_0": "é" * 2048, "node": unique_node}

    pusher.push(encode([SampleRun(series, labels, [START_S], [1])]))
    pusher.flush()

    frame = reader.export(Selector((series,), {"node": unique_node}), START_S, START_S + 1).frame
    assert frame.select(names).row(0, named=True) == labels


def test_a_query_is_answered_at_the_seconds_asked_for(pusher: Pusher, reader: Reader, unique_node: str) -> None:
    seconds = list(range(START_S, START_S + 10))
    card = {"node": unique_node, "gpu_uuid": "GPU-1"}
    pusher.push(encode([SampleRun(GPU_UP, card, seconds, [1] * 10), _memory(unique_node, seconds, list(range(10)))]))
    pusher.flush()
    memory = _memory_of(unique_node).expression

    [instant] = reader.instant(f"sum by (node) ({memory})", START_S + 4)
    assert (instant.labels, instant.seconds, instant.values) == ({"node": unique_node}, [START_S + 4], [4.0])

    [line] = reader.range(f"last_over_time({memory}[1s])", START_S + 1, START_S + 10, 3)
    assert line.labels == {"__name__": "gpu_memory_used_bytes", **card}
    assert (line.seconds, line.values) == ([START_S + 1, START_S + 4, START_S + 7], [1.0, 4.0, 7.0])

    # From 50 points on the server rounds the ends to the step, unless it is told not to cache.
    [long] = reader.range("vector(1)", START_S + 7, START_S + 1007, 10)
    assert long.seconds == list(range(START_S + 7, START_S + 1007, 10))

    assert reader.range(memory, START_S, START_S, 1) == []
    assert reader.instant('gpu_up{node="nobody"}', START_S) == []


def test_a_reversed_interval_is_refused(reader: Reader, unique_node: str) -> None:
    selector = _memory_of(unique_node)
    for read in (reader.export, reader.count):
        with pytest.raises(InputError, match="from second 9 to second 8: swap the two"):
            read(selector, 9, 8)
    with pytest.raises(InputError, match="swap the two"):
        reader.range(selector.expression, 9, 8, 1)


def test_a_question_that_could_find_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="cannot select gpu_up by 'owner': it has the labels node, gpu_uuid, mig_uuid"):
        Selector((OWNER_MEMORY, GPU_UP), {"owner": "alloc:a"})
    with pytest.raises(InputError, match="name at least one"):
        Selector(())


def test_a_label_that_has_the_name_of_a_column_is_refused() -> None:
    clashing = Series("gpu_test", "ratio", Kind.GAUGE, "its label would be a second column `series`", ("series",))
    with pytest.raises(InputError, match="cannot read gpu_test as a frame"):
        Selector((clashing,))
