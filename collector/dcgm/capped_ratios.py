"""How often a ratio that DCGM tells was taken as 1: each that is counted here was a little more in its second."""

from collections import Counter
from collections.abc import Iterable, Iterator
from threading import Lock

from collector.own_metrics import OwnValue
from domain.series import COLLECTOR_CAPPED_RATIOS, Series


class CappedRatios:
    """Counts by card, those of its MIG instances with its own, and by series; safe to use from several threads."""

    def __init__(self, source: str) -> None:
        """`source` is who tells the ratios: NVML counts those that it tells itself."""
        self._source = source
        self._counts: Counter[tuple[str, Series]] = Counter()
        self._lock = Lock()

    def count(self, gpu_uuid: str, capped: Iterable[Series]) -> None:
        """That these were taken as 1 in a reading of the card, or of an instance on it."""
        with self._lock:
            self._counts.update((gpu_uuid, series) for series in capped)

    def values(self) -> Iterator[OwnValue]:
        """The counts so far; what was never taken as 1 is not among them."""
        with self._lock:
            counts = list(self._counts.items())
        for (gpu_uuid, series), count in counts:
            labels = {"gpu_uuid": gpu_uuid, "field": series.name, "source": self._source}
            yield OwnValue(COLLECTOR_CAPPED_RATIOS, count, labels)
