"""One sick card costs the others nothing."""

import threading
from collections.abc import Iterator

import pytest

from collector.card_readers import CardReaders
from collector.source import ScriptedSource, SourceGoneError
from domain.errors import UnavailableError
from domain.inventory import Device
from domain.samples import DeviceReading
from domain.series import GPU_BUSY

CARDS = tuple(f"GPU-{index}" for index in range(8))
SECOND_S = 1_700_000_000


def _devices() -> tuple[Device, ...]:
    return tuple(Device(uuid, index, "card", 2**30, 0) for index, uuid in enumerate(CARDS))


def _reading(gpu_uuid: str, second_s: int) -> list[DeviceReading]:
    return [DeviceReading(gpu_uuid, None, {GPU_BUSY: second_s % 100 / 100}, {})]


def _card_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("card GPU-")}


class HangingCard:
    """Card 3 hangs in the driver from `hangs_at_s` on until it is let go."""

    def __init__(self, hangs_at_s: int) -> None:
        self.released = threading.Event()
        self.calls = 0
        self._hangs_at_s = hangs_at_s

    def __call__(self, gpu_uuid: str, second_s: int) -> list[DeviceReading]:
        if gpu_uuid == "GPU-3":
            self.calls += 1
            if second_s == self._hangs_at_s:
                self.released.wait(30)
        return _reading(gpu_uuid, second_s)


@pytest.fixture
def hanging() -> Iterator[HangingCard]:
    card = HangingCard(SECOND_S)
    yield card
    card.released.set()


def test_a_card_that_hangs_is_missed_and_the_others_keep_their_second(hanging: HangingCard) -> None:
    """L4: one call of the driver hangs for a minute."""
    readers = CardReaders(ScriptedSource(_devices(), hanging))

    # All but the one that hangs must have answered by then, on the busiest machine.
    told = readers.read_all(CARDS, SECOND_S, timeout_s=2)

    assert {reading.gpu_uuid for reading in told.readings} == set(CARDS) - {"GPU-3"}
    assert list(told.missed) == ["GPU-3"]
    readers.close()


def test_a_stuck_card_is_not_asked_again_so_threads_do_not_pile_up(hanging: HangingCard) -> None:
    readers = CardReaders(ScriptedSource(_devices(), hanging))
    readers.read_all(["GPU-3"], SECOND_S, timeout_s=0.1)
    readers.read_all(CARDS, SECOND_S + 1, timeout_s=30)
    threads = _card_threads()

    for second_s in range(SECOND_S + 2, SECOND_S + 7):
        told = readers.read_all(CARDS, second_s, timeout_s=30)
        assert len(told.readings) == 7

    assert hanging.calls == 1
    assert not _card_threads() - threads
    readers.close()


def test_a_late_answer_is_thrown_away_and_the_card_is_back_in_its_next_second(hanging: HangingCard) -> None:
    readers = CardReaders(ScriptedSource(_devices(), hanging))
    assert list(readers.read_all(["GPU-3"], SECOND_S, timeout_s=0.1).missed) == ["GPU-3"]
    hanging.released.set()

    for second_s in range(SECOND_S + 1, SECOND_S + 10_000):
        told = readers.read_all(CARDS, second_s, timeout_s=30)
        busy = {reading.values[GPU_BUSY] for reading in told.readings}
        assert busy == {second_s % 100 / 100}, "a reading of another second"
        if not told.missed:
            break
    else:
        pytest.fail("the card never came back")
    readers.close()


def test_a_card_that_throws_is_missed_with_its_reason() -> None:
    def answers(gpu_uuid: str, second_s: int) -> list[DeviceReading]:
        if gpu_uuid == "GPU-0":
            raise UnavailableError("cannot read the card: unknown error")
        if gpu_uuid == "GPU-1":
            raise KeyError
        return _reading(gpu_uuid, second_s)

    readers = CardReaders(ScriptedSource(_devices(), answers))

    for second_s in (SECOND_S, SECOND_S + 1):
        told = readers.read_all(CARDS, second_s, timeout_s=30)
        assert told.missed == {"GPU-0": "cannot read the card: unknown error", "GPU-1": "KeyError"}
        assert len(told.readings) == 6
    readers.close()


def test_a_source_that_is_gone_is_no_matter_of_one_card() -> None:
    def answers(gpu_uuid: str, second_s: int) -> list[DeviceReading]:
        if gpu_uuid == "GPU-5":
            raise SourceGoneError("cannot reach the driver")
        return _reading(gpu_uuid, second_s)

    readers = CardReaders(ScriptedSource(_devices(), answers))

    with pytest.raises(SourceGoneError, match="cannot reach the driver"):
        readers.read_all(CARDS, SECOND_S, timeout_s=30)
    readers.close()


def test_closing_ends_the_threads() -> None:
    others = _card_threads()
    readers = CardReaders(ScriptedSource(_devices(), _reading))
    readers.read_all(CARDS, SECOND_S, timeout_s=30)
    threads = _card_threads() - others
    assert len(threads) == 8

    readers.close()

    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
