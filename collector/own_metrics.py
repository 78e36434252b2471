"""What a collector says of itself: the numbers of all its parts, to be pushed with a second or shown on a page."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol, runtime_checkable

from collector.sample_runs import one_sample
from collector.source import Source
from domain.samples import SampleRun
from domain.series import Series

# How often what has a series for each function of the driver is pushed: beside the cards' own samples, which it would
# outnumber, four times a minute is enough to see a rate.
RARE_SECONDS = 15

_NONE: Mapping[str, str] = MappingProxyType({})


class OwnValue(NamedTuple):
    """One number of a collector; `labels` are those of the series but for `node`."""

    series: Series
    value: int | float
    labels: Mapping[str, str] = _NONE


Teller = Callable[[], Iterable[OwnValue]]


class OwnMetrics:
    """Asks the parts what they count, from the loop's thread and from those of the page."""

    def __init__(self, node: str, often: Teller, rarely: Teller = tuple) -> None:
        """`often` tells every second; what `rarely` tells is pushed in each second that is a multiple of 15."""
        self._node = node
        self._often = often
        self._rarely = rarely

    def runs(self, second_s: int) -> Iterator[SampleRun]:
        """What is pushed with that second."""
        tellers = (self._often, self._rarely) if second_s % RARE_SECONDS == 0 else (self._often,)
        for own in self._told(*tellers):
            yield one_sample(own.series, own.labels, second_s, own.value)

    def values(self) -> list[OwnValue]:
        """All there is now, with the label `node`."""
        return list(self._told(self._often, self._rarely))

    def _told(self, *tellers: Teller) -> Iterator[OwnValue]:
        node = {"node": self._node}
        for tell in tellers:
            for series, value, labels in tell():
                yield OwnValue(series, value, {**node, **labels} if labels else node)


@runtime_checkable
class CountsItsWork(Protocol):
    """A source that counts what it meets."""

    def values(self) -> Iterator[OwnValue]:
        """What it says of its own work."""
        ...


def source_values(source: Source) -> Iterator[OwnValue]:
    """What a source says of its own work; nothing where it counts none."""
    if isinstance(source, CountsItsWork):
        yield from source.values()
