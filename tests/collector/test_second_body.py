"""The quick way of a second into a push says what the plain way says, or leaves it to that."""

import math
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.second_body import SecondBody
from domain.errors import InputError
from domain.samples import DeviceReading, OwnerUse, SampleRun
from domain.series import CATALOGUE, DEVICE, GPU_BUSY, GPU_MEMORY_USED, GPU_POWER, GPU_THROTTLE, Series
from tests.collector.reading_runs import reading_runs
from victoriametrics.encode import encode

SECOND_S = 1_700_000_000
OF_DEVICES = sorted((each for each in CATALOGUE.values() if each.labels == DEVICE), key=lambda each: each.name)

VALUES = st.one_of(
    # What cards tell, of which all of a reading may be.
    st.integers(0, 2**40),
    st.floats(0, 1),
    st.none(),
    st.booleans(),
    st.integers(-(2**64), 2**64),
    st.floats(),
    st.sampled_from([2**53, 2**53 - 1, -(2**53), 2.0**53, 2.0**62, -0.0, 5e-324, 1e22, 17.0]),
)
UUIDS = st.sampled_from(["GPU-1", "GPU-2", 'a"\\"values":[1', "ü", "x" * 5_000, "\ud800"])
READINGS = st.builds(
    DeviceReading,
    UUIDS,
    st.sampled_from([None, "MIG-1"]),
    st.dictionaries(st.sampled_from(OF_DEVICES), VALUES, max_size=4),
    st.just({}),
)


def lines_of(body: bytes) -> list[bytes]:
    return sorted(body.splitlines(keepends=True))


def outcome(lines: bytes, runs: Iterable[SampleRun]) -> list[bytes] | str:
    """The lines that are sent, or why none are."""
    try:
        return lines_of(lines + encode(runs))
    except InputError as error:
        return str(error)


@given(st.lists(st.lists(READINGS, max_size=4), min_size=1, max_size=4))
def test_what_is_sent_is_what_the_plain_way_sends_and_it_is_refused_where_that_refuses(
    seconds: list[list[DeviceReading]],
) -> None:
    """Whatever came before: words are kept from second to second."""
    body = SecondBody("node-1")
    for second_s, readings in enumerate(seconds, start=SECOND_S):
        lines, left = body.encode(second_s, readings)
        assert outcome(lines, left) == outcome(b"", reading_runs("node-1", second_s, readings))


def test_good_values_are_written_at_once_and_all_else_is_left() -> None:
    body = SecondBody("node-1")
    values: dict[Series, int | float | None] = {GPU_MEMORY_USED: 5, GPU_POWER: 22.5, GPU_BUSY: None}
    parts = {GPU_THROTTLE: {"thermal": 1.5}}
    lines, left = body.encode(SECOND_S, [DeviceReading("GPU-1", None, values, {"alloc:a": OwnerUse(5, None)}, parts)])

    assert lines_of(lines) == lines_of(
        b'{"metric":{"__name__":"gpu_memory_used_bytes","node":"node-1","gpu_uuid":"GPU-1"},'
        b'"values":[5],"timestamps":[1700000000000]}\n'
        b'{"metric":{"__name__":"gpu_power_watts","node":"node-1","gpu_uuid":"GPU-1"},'
        b'"values":[22.5],"timestamps":[1700000000000]}\n'
    )
    assert [(run.labels.get("reason"), run.labels.get("owner"), *run.values) for run in left] == [
        ("thermal", None, 1.5),
        (None, "alloc:a", 5),
    ]


def test_a_value_that_cannot_be_stored_is_left_to_be_refused_with_its_reason() -> None:
    body = SecondBody("node-1")
    for value in (math.nan, math.inf, 2.0**63):
        lines, left = body.encode(SECOND_S, [DeviceReading("GPU-1", None, {GPU_POWER: value, GPU_BUSY: 0.5}, {})])
        assert b"gpu_busy_ratio" in lines
        with pytest.raises(InputError, match="cannot push gpu_power_watts"):
            encode(left)


def test_devices_that_come_and_go_do_not_pile_up() -> None:
    """O1: an instance that is made anew each minute must not cost memory for ever."""
    body = SecondBody("node-1")
    for number in range(5_000):
        body.encode(SECOND_S, [DeviceReading("GPU-1", f"MIG-{number}", {GPU_MEMORY_USED: 1}, {})])
    assert len(body._words) <= 1_024
