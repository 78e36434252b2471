"""Where grants are published to."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from domain.errors import UnavailableError
from domain.samples import SampleRun
from victoriametrics.encode import encode
from victoriametrics.push import Pusher


class GrantSink(Protocol):
    """Takes samples of open grants."""

    def push(self, runs: Iterable[SampleRun]) -> None:
        """Hand the samples on. Raises UnavailableError where they can be taken later; pushing them twice is safe."""
        ...


class VictoriaMetricsSink:
    """The store of samples itself."""

    def __init__(self, pusher: Pusher) -> None:
        self._pusher = pusher

    def push(self, runs: Iterable[SampleRun]) -> None:
        self._pusher.push(encode(runs))


class MemorySink:
    """For tests: keeps what it is given, in order, unless it is down."""

    def __init__(self) -> None:
        self.pushed: list[Sequence[SampleRun]] = []
        self.is_down = False

    def push(self, runs: Iterable[SampleRun]) -> None:
        if self.is_down:
            raise UnavailableError("cannot push samples: the sink is down; lift it up again")
        self.pushed.append(tuple(runs))
