"""What the store could not give back is refused before anything is sent."""

import json
import math

import pytest

from domain.errors import InputError
from domain.samples import SampleRun
from domain.series import GPU_BUSY, GPU_INFO, GPU_MEMORY_USED, GPU_POWER, GPU_UP, Kind, Series
from victoriametrics.encode import SAMPLES_PER_LINE, encode

CARD = {"node": "n1", "gpu_uuid": "GPU-1"}
NVML_NO_VALUE = 2**64 - 1
DCGM_NO_VALUE = 2**63 - 16


def test_a_run_becomes_one_line_in_milliseconds_with_whole_numbers_whole() -> None:
    body = encode([SampleRun(GPU_MEMORY_USED, CARD, [0, 1], [1024, 2**53 - 1])])

    assert body == (
        b'{"metric":{"__name__":"gpu_memory_used_bytes","node":"n1","gpu_uuid":"GPU-1"},'
        b'"values":[1024,9007199254740991],"timestamps":[0,1000]}\n'
    )


def test_labels_with_an_empty_value_are_left_out() -> None:
    line = json.loads(encode([SampleRun(GPU_UP, {**CARD, "mig_uuid": ""}, [5], [1])]))

    assert set(line["metric"]) == {"__name__", "node", "gpu_uuid"}


def test_a_bool_is_written_as_the_number_it_stands_for() -> None:
    assert json.loads(encode([SampleRun(GPU_UP, CARD, [5, 6], [True, False])]))["values"] == [1, 0]


def test_runs_with_other_seconds_keep_their_own() -> None:
    runs = [SampleRun(GPU_UP, CARD, seconds, [1] * len(seconds)) for seconds in ([1, 2], [1, 2], [3], [1])]

    stamps = [json.loads(line)["timestamps"] for line in encode(runs).splitlines()]

    assert stamps == [[1000, 2000], [1000, 2000], [3000], [1000]]


def test_a_list_of_seconds_that_is_filled_anew_is_read_anew() -> None:
    seconds = [1]
    body = encode(SampleRun(GPU_UP, CARD, _set_to(seconds, second), [1]) for second in (1, 2))

    assert [json.loads(line)["timestamps"] for line in body.splitlines()] == [[1000], [2000]]


def _set_to(seconds: list[int], second: int) -> list[int]:
    seconds[:] = [second]
    return seconds


def test_a_long_run_is_cut_into_lines_the_server_accepts() -> None:
    seconds = range(2 * SAMPLES_PER_LINE + 1)
    values = [2**53 - 1 - second for second in seconds]

    lines = encode([SampleRun(GPU_MEMORY_USED, CARD, seconds, values)]).splitlines()

    assert len(lines) == 3
    assert max(map(len, lines)) < 10 * 2**20
    blocks = [json.loads(line) for line in lines]
    assert [value for block in blocks for value in block["values"]] == values
    assert [stamp for block in blocks for stamp in block["timestamps"]] == [second * 1000 for second in seconds]


def test_nothing_becomes_nothing() -> None:
    assert encode([]) == b""
    assert encode([SampleRun(GPU_UP, CARD, [], [])]) == b""


@pytest.mark.parametrize("series", [GPU_POWER, GPU_MEMORY_USED])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, NVML_NO_VALUE, DCGM_NO_VALUE, float(DCGM_NO_VALUE)])
def test_a_mark_for_no_value_is_refused(series: Series, value: float) -> None:
    with pytest.raises(InputError, match=rf"cannot push {series.name}: the value '.*' is not a number between"):
        encode([SampleRun(GPU_UP, CARD, [1], [1]), SampleRun(series, CARD, [1, 2, 3], [1, value, 3])])


@pytest.mark.parametrize("value", [2**53, -(2**53), float(2**53)])
def test_a_whole_series_stays_below_2_to_the_53(value: float) -> None:
    with pytest.raises(InputError, match="between -2\\^53 and 2\\^53"):
        encode([SampleRun(GPU_MEMORY_USED, CARD, [1], [value])])


def test_a_whole_series_takes_no_fraction() -> None:
    with pytest.raises(InputError, match=r"'1024\.5' is not a whole number"):
        encode([SampleRun(GPU_MEMORY_USED, CARD, [1, 2], [1024.0, 1024.5])])


def test_a_label_the_catalogue_lacks_is_refused() -> None:
    with pytest.raises(InputError, match=r"gpu_busy_ratio: it has no label 'tenant'.*node, gpu_uuid, mig_uuid"):
        encode([SampleRun(GPU_BUSY, {**CARD, "tenant": "acme"}, [1], [0.5])])


def test_a_label_value_is_measured_in_bytes() -> None:
    def info(model: str) -> SampleRun:
        return SampleRun(GPU_INFO, {**CARD, "model": model}, [1], [1])

    assert encode([info("é" * 2048)])
    with pytest.raises(InputError, match="4098 bytes long; shorten it to 4096"):
        encode([info("é" * 2049)])


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(InputError, match="not valid Unicode"):
        encode([SampleRun(GPU_INFO, {**CARD, "model": "RTX \ud83d"}, [1], [1])])


def test_more_than_40_labels_are_refused() -> None:
    names = tuple(f"label_{number}" for number in range(40))
    series = Series("gpu_many", "info", Kind.INFO, "a series of a later catalogue", names)

    assert encode([SampleRun(series, dict.fromkeys(names[:39], "x"), [1], [1])])
    with pytest.raises(InputError, match="40 labels and the name; use at most 40"):
        encode([SampleRun(series, dict.fromkeys(names, "x"), [1], [1])])


@pytest.mark.parametrize("seconds", [[1], [1, 2, 3]])
def test_seconds_and_values_go_in_pairs(seconds: list[int]) -> None:
    with pytest.raises(InputError, match="each value needs its second"):
        encode([SampleRun(GPU_UP, CARD, seconds, [1, 1])])
