"""The readings of one second as sample runs, one by one and slowly: what a push is to say."""

from collections.abc import Iterable, Iterator

from collector.sample_runs import device_labels, one_sample, part_runs
from domain.samples import DeviceReading, SampleRun


def reading_runs(node: str, second_s: int, readings: Iterable[DeviceReading]) -> Iterator[SampleRun]:
    """Each value that is there, and each owner's; what a card cannot tell has no sample."""
    for reading in readings:
        labels = device_labels(node, reading)
        for series, value in reading.values.items():
            if value is not None:
                yield one_sample(series, labels, second_s, value)
        yield from part_runs(reading, labels, second_s)
