"""The readings of one second as lines of a push, at what a node can spend on them every second.

What is said of a device in one second differs from the second before in its numbers only. So the words before each
number are made once, by `encode`, and kept.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from operator import add
from types import NoneType
from typing import Any

from pydantic_core import to_json

from collector.sample_runs import device_labels, one_sample, part_runs
from domain.errors import InputError
from domain.samples import DeviceReading, SampleRun
from domain.series import Series
from victoriametrics.encode import MILLISECONDS, WHOLE_LIMIT, encode

# Those that a node has and had: MIG instances come and go.
_DEVICES_MAX = 1_024
# What numbers are written with that pydantic writes as `encode` does, which it does in a third of the time; and what
# those begin with, besides, that it writes otherwise.
_PLAIN = b"0123456789.-,[]"
_SMALL = b"0.0000"


class SecondBody:
    """The words of one node's devices; for one thread."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._words: dict[tuple[str, str | None], _DeviceWords] = {}

    def encode(self, second_s: int, readings: Iterable[DeviceReading]) -> tuple[bytes, list[SampleRun]]:
        """The lines of every value that is plainly good, as `encode` makes them; and the runs of what is left for it.

        What is left are parts, owners, and values that it may have something to say about.
        """
        lines: list[str] = []
        left: list[SampleRun] = []
        for reading in readings:
            words = self._words_of(reading)
            if plain := words.plain_lines(reading.values):
                lines += plain
            else:
                for series, value in reading.values.items():
                    if line := words.line(series, value):
                        lines.append(line)
                    elif value is not None:
                        left.append(one_sample(series, words.labels, second_s, value))
            if reading.parts or reading.owners:
                left += part_runs(reading, words.labels, second_s)
        # Each ends alike, the last too.
        lines.append("")
        return f'],"timestamps":[{second_s * MILLISECONDS}]}}\n'.join(lines).encode(), left

    def _words_of(self, reading: DeviceReading) -> "_DeviceWords":
        device = reading.gpu_uuid, reading.mig_uuid
        words = self._words.get(device)
        if words is None:
            if len(self._words) >= _DEVICES_MAX:
                self._words.clear()
            words = self._words[device] = _DeviceWords(device_labels(self._node, reading))
        return words


class _DeviceWords:
    """Of one device, the words before a whole number and before a fraction, for each series of a reading.

    Its lines go up to their number and not to their end.
    """

    def __init__(self, labels: dict[str, str]) -> None:
        self.labels = labels
        self._words: dict[Series, tuple[str, str]] = {}
        self._told: tuple[list[Series], list[type]] = [], []
        self._heads: list[str] = []

    def plain_lines(self, values: Mapping[Series, object]) -> list[str]:
        """All of a reading at once, but for what is None; none where one of its values may not be plainly good.

        A device mostly tells the same series in each second, and each as a number of the same type.
        """
        numbers: list[Any] = [*values.values()]
        told = [*values], [*map(type, numbers)]
        if told != self._told:
            heads = [self._head(series, kind) for series, kind in zip(*told, strict=True) if kind is not NoneType]
            self._told, self._heads = told, heads if all(heads) else []
        if len(numbers) > len(self._heads):
            numbers = [number for number in numbers if number is not None]
        # Of a NaN one of these is not true, or its text has letters.
        if not (self._heads and min(numbers) > -WHOLE_LIMIT and max(numbers) < WHOLE_LIMIT):
            return []
        text = to_json(numbers)
        if _SMALL in text or text.translate(None, _PLAIN):
            return []
        return [*map(add, self._heads, text.decode()[1:-1].split(","))]

    def line(self, series: Series, value: Any) -> str:
        """One of them; "" where it may not be plainly good."""
        head = self._head(series, type(value))
        # Not true of a NaN.
        return f"{head}{value!r}" if head and -WHOLE_LIMIT < value < WHOLE_LIMIT else ""

    def _head(self, series: Series, kind: type) -> str:
        """A line up to a number of that type; "" where `encode` may not like it."""
        words = self._words.get(series)
        if words is None:
            words = self._words[series] = self._learn(series)
        whole, real = words
        # A bool is neither.
        return whole if kind is int else real if kind is float else ""

    def _learn(self, series: Series) -> tuple[str, str]:
        head = ""
        with suppress(InputError):
            line = encode([one_sample(series, self.labels, 0, 0)]).decode()
            head = line.removesuffix('0],"timestamps":[0]}\n')
        return head, "" if series.whole else head
