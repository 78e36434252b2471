"""What a server takes of one line of an import: it answers 204 to a line above that, and drops its samples.

Before 1.108 it cut such labels short instead, so that two series could become one.
"""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

_UNITS = {"": 1, "KB": 1_000, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SIZE = re.compile(rf"(\d+(?:\.\d+)?)({'|'.join(_UNITS)})")


class LineLimits(NamedTuple):
    """The labels of a series, its name being one, the bytes of a label's name and value, and those of a line.

    By default the least that a supported version takes unless it is told otherwise.
    """

    labels: int = 30
    name_bytes: int = 256
    value_bytes: int = 1_024
    line_bytes: int = 10 * 2**20

    @classmethod
    def of(cls, flags: Mapping[str, str]) -> "LineLimits":
        """Those of a server with these flags; the default where it does not tell one."""
        names = ("maxLabelsPerTimeseries", "maxLabelNameLen", "maxLabelValueLen", "import.maxLineLen")
        return cls(*(_size(flags.get(name, ""), least) for name, least in zip(names, cls(), strict=True)))


class Unusable(NamedTuple):
    """A line that must not be sent, or that was refused, without its newline; and why."""

    line: bytes
    reason: str


def unusable_lines(body: bytes, limits: LineLimits) -> list[Unusable]:
    """Those lines of JSON whose samples the server would drop for their size. What is no JSON is not judged."""
    lines = body.split(b"\n")
    # A label takes eight bytes of its line at least, as in `"a":"b",`.
    harmless = min(8 * limits.labels, limits.name_bytes, limits.value_bytes, limits.line_bytes)
    if max(map(len, lines)) <= harmless:
        return []
    return [Unusable(line, reason) for line in lines if len(line) > harmless and (reason := _reason(line, limits))]


def _reason(line: bytes, limits: LineLimits) -> str:
    if len(line) > limits.line_bytes:
        return f"a line of {len(line)} bytes, where the store takes {limits.line_bytes}"
    # What is told of the series stands before its values and is the same in every second.
    metric, mark, _ = line.partition(b',"values":')
    return _reason_of_labels(metric, limits) if mark else ""


@lru_cache(maxsize=8_192)
def _reason_of_labels(metric: bytes, limits: LineLimits) -> str:
    try:
        labels = json.loads(metric + b"}")["metric"]
        lengths = [(len(name.encode()), len(value.encode())) for name, value in labels.items()]
    except (ValueError, TypeError, KeyError, AttributeError):
        return ""
    if len(lengths) > limits.labels:
        return f"{len(lengths)} labels with the name, where the store takes {limits.labels}"
    name_bytes = max((name for name, _ in lengths), default=0)
    value_bytes = max((value for _, value in lengths), default=0)
    if name_bytes > limits.name_bytes:
        return f"a label's name of {name_bytes} bytes, where the store takes {limits.name_bytes}"
    if value_bytes > limits.value_bytes:
        return f"a label of {value_bytes} bytes, where the store takes {limits.value_bytes}"
    return ""


def _size(text: str, least: int) -> int:
    found = _SIZE.fullmatch(text)
    return least if found is None else int(float(found[1]) * _UNITS[found[2]])
