"""Which lines a server would drop, by its flags or by the least that any supported version takes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from victoriametrics.limits import LineLimits, unusable_lines


def _line(labels: dict[str, str]) -> bytes:
    return json.dumps({"metric": labels, "values": [1], "timestamps": [0]}, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    ("flags", "limits"),
    [
        ({}, LineLimits(30, 256, 1_024, 10 * 2**20)),
        ({"maxLabelsPerTimeseries": "40", "maxLabelValueLen": "4096"}, LineLimits(40, 256, 4_096, 10 * 2**20)),
        ({"maxLabelNameLen": "100", "import.maxLineLen": "20MB"}, LineLimits(30, 100, 1_024, 20_000_000)),
        ({"import.maxLineLen": "1.5MiB"}, LineLimits(30, 256, 1_024, 1_572_864)),
        ({"maxLabelsPerTimeseries": "many"}, LineLimits()),
    ],
)
def test_flags_are_read_as_the_server_writes_them(flags: dict[str, str], limits: LineLimits) -> None:
    assert LineLimits.of(flags) == limits


@given(
    labels=st.dictionaries(st.text(max_size=12), st.text(max_size=12), min_size=1, max_size=12),
    limits=st.builds(LineLimits, st.integers(1, 12), st.integers(1, 30), st.integers(1, 30), st.integers(40, 400)),
)
def test_what_is_unusable_is_what_is_above_a_limit(labels: dict[str, str], limits: LineLimits) -> None:
    """Whatever is found harmless at a glance."""
    line = _line(labels)
    is_above = (
        len(labels) > limits.labels
        or max(len(name.encode()) for name in labels) > limits.name_bytes
        or max(len(value.encode()) for value in labels.values()) > limits.value_bytes
        or len(line) > limits.line_bytes
    )
    good = b'{"metric":{},"values":[1]}'
    found = unusable_lines(b"\n".join([good, line, good, b""]), limits)
    assert [each.line for each in found] == ([line] if is_above else [])
    assert all(each.reason for each in found)


def test_what_is_no_such_json_is_not_judged() -> None:
    lines = [b"x" * 5_000, b'{"metric":7,"values":[' + b"1," * 5_000, b'{"metric":{"a":7},"values":[]' + b" " * 300]
    assert unusable_lines(b"\n".join(lines), LineLimits()) == []
