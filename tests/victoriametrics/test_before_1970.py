"""Second 0 is a second, and what begins before it is still a question about it: the server reads "-30" as 30 s ago."""

import pytest

from domain.samples import SampleRun
from domain.series import GPU_MEMORY_USED
from victoriametrics.push import Pusher
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector


@pytest.fixture
def first_hour(pusher: Pusher, unique_node: str) -> Selector:
    """A node's samples of the first hour of 1970, the value at s is s."""
    seconds = range(3_600)
    pusher.send([SampleRun(GPU_MEMORY_USED, {"node": unique_node, "gpu_uuid": "GPU-1"}, seconds, seconds)])
    pusher.flush()
    return Selector((GPU_MEMORY_USED,), {"node": unique_node})


@pytest.mark.parametrize(
    ("start_s", "end_s", "first_s"),
    [(-30, 3_630, 0), (-1, 1, 0), (-7_200, 10, 0), (0, 10, 0), (-30, 0, 0), (-30, -1, 0)],
)
def test_an_interval_that_begins_before_1970_holds_what_lies_after(
    reader: Reader, first_hour: Selector, start_s: int, end_s: int, first_s: int
) -> None:
    expected = list(range(first_s, max(0, min(end_s, 3_600))))
    export = reader.export(first_hour, start_s, end_s)
    assert export.frame["second_s"].to_list() == expected
    assert export.samples == len(expected)
    assert reader.count(first_hour, start_s, end_s) == len(expected)


def test_a_range_that_begins_before_1970_keeps_its_grid(reader: Reader, first_hour: Selector) -> None:
    """The points from the first second on, at the same distances from the start that was asked for."""
    query = f"last_over_time({first_hour.expression}[1s])"
    for start_s, end_s, step_s in ((-30, 30, 7), (-30, 30, 10), (-1, 2, 1), (-5, 3, 60)):
        expected = [second_s for second_s in range(start_s, end_s, step_s) if second_s >= 0]
        seconds = [second_s for line in reader.range(query, start_s, end_s, step_s) for second_s in line.seconds]
        assert seconds == expected
    assert reader.range("vector(1)", -30, 0, 1) == []
    assert reader.range("vector(1)", -30, -10, 1) == []


def test_an_instant_before_1970_has_no_samples(reader: Reader, first_hour: Selector) -> None:
    assert reader.instant(f"last_over_time({first_hour.expression}[1s])", 0)[0].values == [0]
    assert reader.instant(f"last_over_time({first_hour.expression}[100y])", -1) == []
    assert reader.instant("vector(1)", -1) == []
