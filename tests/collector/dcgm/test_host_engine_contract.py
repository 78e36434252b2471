"""What every `HostEngine` keeps to: the fake one, DCGM's bindings over it, and the real one where DCGM is installed."""

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from collector.dcgm.bindings import BoundHostEngine
from collector.dcgm.engine_address import engine_address
from collector.dcgm.fields import BUSY, ENERGY, FIELD_OF_NUMBER, POWER
from collector.dcgm.host_engine import EngineError, Entity, EntityGroup, FieldValue, HostEngine, state_of
from domain.samples import FieldState
from settings.gputab import load_settings
from tests.fakes import dcgm
from tests.fakes.clock import SettableClock
from tests.fakes.dcgm import FakeHostEngine

START_US = 1_790_000_000_000_000
NUMBERS = (POWER.number, ENERGY.number, BUSY.number)
BINDINGS = Path(__file__).parents[2] / "fakes" / "dcgm_bindings"


class EngineUnderTest(NamedTuple):
    """`connect` opens a connection as a collector does, `wait_s` lets the engine's time go by."""

    connect: Callable[[], HostEngine]
    wait_s: Callable[[float], None]


def _faked() -> EngineUnderTest:
    engine = FakeHostEngine(SettableClock(START_US), [dcgm.card(0), dcgm.card(1)])
    return EngineUnderTest(engine.connect, engine.advance_s)


def _bound() -> EngineUnderTest:
    engine = FakeHostEngine(SettableClock(START_US), [dcgm.card(0), dcgm.card(1)])
    dcgm.SERVED["tcp://127.0.0.1:5555"] = engine
    return EngineUnderTest(lambda: BoundHostEngine(engine_address("127.0.0.1"), BINDINGS), engine.advance_s)


def _real() -> EngineUnderTest:
    folder = load_settings().dcgm_bindings
    if not (folder / "dcgm_agent.py").exists():
        pytest.skip(f"DCGM is not installed: there is no {folder / 'dcgm_agent.py'}")
    address = engine_address("127.0.0.1")
    try:
        BoundHostEngine(address, folder).close()
    except EngineError as error:
        pytest.skip(f"no host engine runs here: {error}")
    return EngineUnderTest(lambda: BoundHostEngine(address, folder), time.sleep)


@pytest.fixture(params=[_faked, _bound, _real], ids=["fake", "bindings", "real"])
def under_test(request: pytest.FixtureRequest) -> Iterator[EngineUnderTest]:
    yield request.param()
    dcgm.SERVED.clear()


@pytest.fixture
def engine(under_test: EngineUnderTest) -> Iterator[HostEngine]:
    engine = under_test.connect()
    yield engine
    engine.close()


def _watched(engine: HostEngine, period_us: int = 1_000_000, keep_s: float = 60.0) -> Entity:
    entity = engine.cards()[0].entity
    engine.watch([entity], NUMBERS, period_us, keep_s)
    return entity


def _of(values: list[FieldValue], number: int, entity: Entity) -> list[FieldValue]:
    return [value for value in values if (value.field, value.entity) == (number, entity)]


def test_cards_are_known_by_uuid_and_have_a_size(engine: HostEngine) -> None:
    cards = engine.cards()

    assert cards
    assert len({card.gpu_uuid for card in cards}) == len(cards)
    assert all(card.gpu_uuid.startswith("GPU-") and card.entity.group is EntityGroup.GPU for card in cards)
    assert all(card.model and card.nvml_index is not None and card.minor is not None for card in cards)


def test_nothing_is_told_before_something_is_watched(engine: HostEngine) -> None:
    engine.cards()

    assert engine.values_since(0) == []


def test_values_come_once_a_period_with_times_of_their_own_that_rise(
    engine: HostEngine, under_test: EngineUnderTest
) -> None:
    entity = _watched(engine)
    under_test.wait_s(3.5)

    values = _of(engine.values_since(0), POWER.number, entity)

    times = [value.time_us for value in values]
    assert len(times) >= 3
    assert times == sorted(set(times))
    steps = [after - before for before, after in pairwise(times[1:])]
    assert all(900_000 <= step <= 1_100_000 for step in steps)


def test_the_first_period_is_blank_or_a_value_and_then_there_are_values(
    engine: HostEngine, under_test: EngineUnderTest
) -> None:
    entity = _watched(engine)
    under_test.wait_s(3.5)

    for number in NUMBERS:
        first, *_, last = _of(engine.values_since(0), number, entity)
        field = FIELD_OF_NUMBER[number]
        assert isinstance(first.value, int | float)
        assert field.exact(first.value) is FieldState.NOT_READY or not isinstance(field.exact(first.value), FieldState)
        assert isinstance(last.value, int | float)
        assert not isinstance(field.exact(last.value), FieldState)


def test_doubles_are_floats_and_all_else_is_whole(engine: HostEngine, under_test: EngineUnderTest) -> None:
    """By the type of a value its blanks are known."""
    entity = _watched(engine)
    under_test.wait_s(2.5)
    values = engine.values_since(0)

    assert all(isinstance(value.value, float) for value in _of(values, POWER.number, entity))
    assert all(isinstance(value.value, int) for value in _of(values, ENERGY.number, entity))


def test_since_an_instant_is_from_it_on(engine: HostEngine, under_test: EngineUnderTest) -> None:
    entity = _watched(engine)
    under_test.wait_s(4.5)
    times = [value.time_us for value in _of(engine.values_since(0), ENERGY.number, entity)]

    later = _of(engine.values_since(times[-2]), ENERGY.number, entity)

    assert [value.time_us for value in later][:2] == times[-2:]


def test_what_was_watched_is_kept_for_the_next_connection(under_test: EngineUnderTest) -> None:
    """A collector that is started again finds the seconds in which there was none."""
    engine = under_test.connect()
    _watched(engine)
    under_test.wait_s(2.5)
    engine.close()
    under_test.wait_s(2.0)
    engine = under_test.connect()

    entity = _watched(engine)
    values = _of(engine.values_since(0), ENERGY.number, entity)

    engine.close()
    times = [value.time_us for value in values]
    assert len(times) >= 4
    assert max(after - before for before, after in pairwise(times)) <= 1_200_000


def test_a_field_that_the_engine_does_not_know_is_refused_with_the_reason(engine: HostEngine) -> None:
    entity = engine.cards()[0].entity

    with pytest.raises(EngineError) as refused:
        engine.watch([entity], [59_999], 1_000_000, 60.0)

    assert state_of(refused.value.status) is FieldState.UNSUPPORTED
    assert "nv-hostengine" in str(refused.value)


def test_to_watch_twice_is_to_watch_once(engine: HostEngine, under_test: EngineUnderTest) -> None:
    entity = _watched(engine)
    _watched(engine)
    under_test.wait_s(2.5)

    times = [value.time_us for value in _of(engine.values_since(0), POWER.number, entity)]

    assert len(times) == len(set(times))
