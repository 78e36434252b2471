"""The readings of one second as lines of a push, at what a node can spend on them every second.

What is said of a device in one second differs from the second before in its numbers only. So the words before each
number are made once, by `encode`, and kept.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress

from collector.sample_runs import device_labels, one_sample, part_runs
from domain.errors import InputError
from domain.samples import DeviceReading, SampleRun
from domain.series import Series
from victoriametrics.encode import MILLISECONDS, WHOLE_LIMIT, encode

# Those that a node has and had: MIG instances come and go.
_DEVICES_MAX = 1_024
# Below that of `encode`, as a float: what is above is left to it.
_REAL_LIMIT = float(WHOLE_LIMIT)


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
        low, high, real_low, real_high = -WHOLE_LIMIT, WHOLE_LIMIT, -_REAL_LIMIT, _REAL_LIMIT
        tail = f'],"timestamps":[{second_s * MILLISECONDS}]}}\n'
        for reading in readings:
            words = self._words_of(reading)
            for (series, whole, real), value in zip(words.of(reading.values), reading.values.values(), strict=True):
                # Neither is true of a NaN, nor of a bool.
                if type(value) is float and real_low < value < real_high:
                    head = real
                elif type(value) is int and low < value < high:
                    head = whole
                else:
                    head = ""
                if head:
                    lines.append(f"{head}{value!r}{tail}")
                elif value is not None:
                    left.append(one_sample(series, words.labels, second_s, value))
            if reading.parts or reading.owners:
                left += part_runs(reading, words.labels, second_s)
        return "".join(lines).encode(), left

    def _words_of(self, reading: DeviceReading) -> "_DeviceWords":
        device = reading.gpu_uuid, reading.mig_uuid
        words = self._words.get(device)
        if words is None:
            if len(self._words) >= _DEVICES_MAX:
                self._words.clear()
            words = self._words[device] = _DeviceWords(device_labels(self._node, reading))
        return words


class _DeviceWords:
    """Of one device, the words before a whole number and before a fraction, for each series of a reading."""

    def __init__(self, labels: dict[str, str]) -> None:
        self.labels = labels
        self._series: tuple[Series, ...] = ()
        self._words: list[tuple[Series, str, str]] = []

    def of(self, values: Mapping[Series, object]) -> list[tuple[Series, str, str]]:
        """A line up to its number, by series in the order of the values; "" where `encode` may not like it.

        A device mostly tells the same series in each second.
        """
        series = tuple(values)
        if series != self._series:
            self._series = series
            self._words = [self._learn(each) for each in series]
        return self._words

    def _learn(self, series: Series) -> tuple[Series, str, str]:
        head = ""
        with suppress(InputError):
            line = encode([one_sample(series, self.labels, 0, 0)]).decode()
            head = line.removesuffix('0],"timestamps":[0]}\n')
        return series, head, "" if series.whole else head
