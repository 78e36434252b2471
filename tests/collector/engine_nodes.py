"""A node with a host engine, and a collector's source of it."""

from collector.dcgm.engine_source import HostEngineSource
from collector.dcgm.host_engine import EngineCard
from domain.errors import UnavailableError
from domain.samples import DeviceReading
from domain.series import Series
from tests.collector.sample_logs import START_S
from tests.fakes import dcgm
from tests.fakes.clock import SettableClock
from tests.fakes.dcgm import FakeHostEngine


class EngineNode:
    """A node with an engine and a collector's source; `seconds` lets time go by and reads each second as it begins."""

    def __init__(self, *machine: EngineCard) -> None:
        self.clock = SettableClock(START_S * 1_000_000)
        self.engine = FakeHostEngine(self.clock, list(machine) or [dcgm.card()])
        self.source = HostEngineSource(self.engine.connect, self.clock)

    @property
    def now_s(self) -> int:
        return self.clock.now_us() // 1_000_000

    def read(self, uuid: str = "GPU-1") -> list[DeviceReading] | None:
        """The readings of now, None for a card that is mute."""
        try:
            return self.source.read(uuid, self.now_s)
        except UnavailableError:
            return None

    def seconds(self, count: int, uuid: str = "GPU-1") -> list[list[DeviceReading] | None]:
        told = []
        for _ in range(count):
            self.engine.advance_s()
            told.append(self.read(uuid))
        return told

    def last(self, count: int = 1, uuid: str = "GPU-1") -> DeviceReading:
        """The card itself, after that many seconds."""
        told = self.seconds(count, uuid)[-1]
        assert told is not None
        return told[0]


def told_values(reading: DeviceReading) -> dict[Series, int | float]:
    """What the reading has a value of."""
    return {series: value for series, value in reading.values.items() if value is not None}
