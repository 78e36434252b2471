"""What cards of the fake driver say, second by second, on a clock that moves when told to."""

from typing import Any

from collector.call_times import CallTimes
from collector.nvml.driver import Driver
from collector.nvml.values.card_values import CardValues, InstanceValues
from collector.nvml.values.counters import CardCounters
from collector.telling import Said
from domain.clock import FrozenClock
from domain.samples import FieldState
from domain.series import Series
from tests.fakes.nvml.driver import FakeDriver

START_S = 1_800_000_000
START_US = START_S * 1_000_000


class ValueRig:
    """The driver opened once, with the same clock as the fake: the machine was started at `START_US`."""

    def __init__(self, fake: FakeDriver) -> None:
        self.fake = fake
        self.clock = FrozenClock(START_US)
        self.calls = CallTimes(self.clock)
        with fake.state.writing() as world:
            world.boot_us = world.now_us = START_US
        self.nvml = Driver(self.calls)
        self._made: list[CardValues | InstanceValues] = []

    def advance(self, seconds: float = 1) -> None:
        """Let time go by, here and in the driver."""
        self.clock.advance_us(round(seconds * 1_000_000))
        self.fake.set_clock(self.clock.now_us())

    def handle(self, uuid: str) -> Any:
        """The card's handle; that of a MIG device by its UUID too."""
        return self.nvml.ask("DeviceGetHandleByUUID", uuid)

    def card(self, uuid: str, *, is_mig: bool = False, counters: CardCounters | None = None) -> CardValues:
        """The values of a card, as they are made when its handle is."""
        counters = CardCounters() if counters is None else counters
        made = CardValues(self.nvml, self.handle(uuid), is_mig=is_mig, clock=self.clock, counters=counters)
        self._made.append(made)
        return made

    def instance(
        self, card: str, uuid: str, gi_id: int, *, generation: int = 1, counters: CardCounters | None = None
    ) -> InstanceValues:
        """The values of a MIG instance; `counters` are its card's."""
        made = InstanceValues(
            self.nvml,
            self.handle(card),
            self.handle(uuid),
            gi_id,
            generation=generation,
            clock=self.clock,
            counters=CardCounters() if counters is None else counters,
        )
        self._made.append(made)
        return made

    def after(self, values: CardValues | InstanceValues, seconds: float = 1) -> Said:
        """What is said when so much time has gone by."""
        self.advance(seconds)
        return values.read()

    def close(self) -> None:
        """Let go of all that was opened."""
        for made in self._made:
            made.close()
        self.nvml.close()


def number(said: Said, series: Series) -> float:
    """The value of a series that has one."""
    value = said.values[series]
    assert value is not None
    return value


def state_of(said: Said, series: Series) -> FieldState | None:
    """Why a series has no value; it has none then."""
    state = said.missing.get(series)
    if state is not None:
        assert said.values.get(series) is None
        assert series not in said.parts
    return state
