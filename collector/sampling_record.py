"""What a sampling loop counts of its own work."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from collector.coverage import Coverage
from collector.own_metrics import OwnValue
from domain.samples import DeviceReading
from domain.series import (
    COLLECTOR_COVERAGE,
    COLLECTOR_EXPECTED_CARDS,
    COLLECTOR_GARBAGE,
    COLLECTOR_LATENESS,
    COLLECTOR_MISSED,
    COLLECTOR_READ,
    GPU_UP,
    Series,
)


class SamplingRecord:
    """Written by the loop's thread, second by second; `values` may be asked by another."""

    def __init__(self) -> None:
        self._late_s: float | None = None
        self._read_s = 0.0
        self._skipped_seconds = 0
        self._cards = 0
        self._coverage = Coverage()
        self._missed: Counter[str] = Counter()
        self._garbage: Counter[str] = Counter()

    def skip(self, seconds: int) -> None:
        """That many seconds have passed since the last one without being sampled."""
        self._skipped_seconds += seconds

    def sampled(
        self,
        late_s: float,
        read_s: float,
        gpu_uuids: Collection[str],
        readings: Iterable[DeviceReading],
        missed: Iterable[str],
    ) -> None:
        """A second was sampled: begun `late_s` after it began, read in `read_s`.

        `gpu_uuids` were asked; a card has answered that says it is up. `missed` gave no answer in time.
        """
        self._late_s, self._read_s = late_s, read_s
        answered = {each.gpu_uuid for each in readings if each.mig_uuid is None and each.values.get(GPU_UP)}
        self._coverage.pass_seconds(self._skipped_seconds + 1, gpu_uuids, answered)
        self._skipped_seconds = 0
        self._cards = len(gpu_uuids)
        # Not all at once: of a mapping the library would add up what it maps to.
        for gpu_uuid in missed:
            self._missed[gpu_uuid] += 1

    def garbage(self, series: Series) -> bool:
        """A value of the series was refused; whether it is the first."""
        self._garbage[series.name] += 1
        return self._garbage[series.name] == 1

    def values(self) -> Iterator[OwnValue]:
        """The numbers so far, of the last second that was sampled; none before the first."""
        if self._late_s is None:
            return
        yield OwnValue(COLLECTOR_LATENESS, round(self._late_s, 6))
        yield OwnValue(COLLECTOR_READ, round(self._read_s, 6))
        yield OwnValue(COLLECTOR_EXPECTED_CARDS, self._cards)
        yield from _by_label(COLLECTOR_COVERAGE, "gpu_uuid", self._coverage.ratios())
        # A copy, since the loop may count meanwhile.
        yield from _by_label(COLLECTOR_MISSED, "gpu_uuid", dict(self._missed))
        yield from _by_label(COLLECTOR_GARBAGE, "field", dict(self._garbage))


def _by_label(series: Series, label: str, values: Mapping[str, int | float]) -> Iterator[OwnValue]:
    for each, value in values.items():
        yield OwnValue(series, value, {label: each})
