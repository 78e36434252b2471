"""How cards are, as a real store tells it: fresh readings only, and an error where it cannot be asked."""

import socket
from collections.abc import Iterator

import pytest

from alerts.card_rules import CARD_RULES
from alerts.readings import CardKey, StoredReadings
from domain.clock import MICROSECONDS, SystemClock
from domain.errors import UnavailableError
from domain.samples import SampleRun
from domain.series import (
    COLLECTOR_INFO,
    GPU_INFO,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_UP,
    MIG_INFO,
    Series,
)
from machine.process import free_port
from victoriametrics.push import Pusher


@pytest.fixture
def readings(victoriametrics_url: str) -> Iterator[StoredReadings]:
    with StoredReadings(victoriametrics_url, SystemClock()) as readings:
        yield readings


def push(url: str, card: CardKey, values: dict[Series, int], *, age_s: int = 0) -> None:
    """One second of a card, that long ago."""
    second_s = SystemClock().now_us() // MICROSECONDS - age_s
    labels = {key: value for key, value in card._asdict().items() if value}
    with Pusher(url) as pusher:
        pusher.send([SampleRun(series, labels, (second_s,), (value,)) for series, value in values.items()])
        pusher.flush()


FULL = {GPU_MEMORY_USED: 99, GPU_MEMORY_TOTAL: 110, GPU_MEMORY_RESERVED: 10}


def test_a_card_and_its_mig_instance_have_their_own_ratio_of_what_can_be_used(
    readings: StoredReadings, victoriametrics_url: str, unique_node: str
) -> None:
    card, instance = CardKey(unique_node, "GPU-1", ""), CardKey(unique_node, "GPU-1", "MIG-1")
    push(victoriametrics_url, card, FULL)
    push(victoriametrics_url, instance, {GPU_MEMORY_USED: 1, GPU_MEMORY_TOTAL: 4})
    found = readings.used_ratios([card, instance])
    assert (found[card], found[instance]) == (0.99, 0.25)


def test_a_card_without_a_fresh_reading_is_not_among_them(
    readings: StoredReadings, victoriametrics_url: str, unique_node: str
) -> None:
    """Neither one whose last reading is a minute old, nor one that tells its size alone, nor one of no size."""
    old, silent, empty = (CardKey(unique_node, uuid, "") for uuid in ("GPU-old", "GPU-silent", "GPU-empty"))
    push(victoriametrics_url, old, FULL, age_s=60)
    push(victoriametrics_url, silent, {GPU_MEMORY_TOTAL: 100})
    push(victoriametrics_url, empty, {GPU_MEMORY_USED: 0, GPU_MEMORY_TOTAL: 0})
    assert not {old, silent, empty} & readings.used_ratios([old, silent, empty]).keys()


def test_a_uuid_is_no_pattern(readings: StoredReadings, victoriametrics_url: str, unique_node: str) -> None:
    card = CardKey(unique_node, 'GPU-(".*\\', "")
    push(victoriametrics_url, card, FULL)
    assert readings.used_ratios([card])[card] == 0.99
    assert CardKey(unique_node, "GPU-x", "") not in readings.used_ratios([CardKey(unique_node, ".*", "")])


def test_any_number_of_cards_can_be_asked_of(
    readings: StoredReadings, victoriametrics_url: str, unique_node: str
) -> None:
    """The server takes no question above 16 kB."""
    cards = [CardKey(unique_node, f"GPU-{number:036}", "") for number in range(2_000)]
    push(victoriametrics_url, cards[-1], FULL)
    assert readings.used_ratios(cards)[cards[-1]] == 0.99


def test_a_mig_instance_that_was_destroyed_uses_nothing(
    readings: StoredReadings, victoriametrics_url: str, unique_node: str
) -> None:
    """Its card is told of, but not it; one that is told of, or whose card is not, has no reading and no more."""
    gone, there, lone = (CardKey(unique_node, uuid, "MIG-1") for uuid in ("GPU-recut", "GPU-there", "GPU-lone"))
    for instance in (gone, there, lone):
        push(victoriametrics_url, instance, {**FULL, MIG_INFO: 1}, age_s=200)
    for card in (gone, there):
        push(victoriametrics_url, card._replace(mig_uuid=""), {GPU_INFO: 1}, age_s=30)
    push(victoriametrics_url, there, {MIG_INFO: 1}, age_s=30)
    assert readings.used_ratios([gone, there, lone])[gone] == 0
    assert not {there, lone} & readings.used_ratios([gone, there, lone]).keys()


def test_a_card_is_lost_well_or_not_heard_of(
    readings: StoredReadings, victoriametrics_url: str, unique_node: str
) -> None:
    lost, well, silent = (CardKey(unique_node, uuid, "") for uuid in ("GPU-lost", "GPU-well", "GPU-silent"))
    push(victoriametrics_url, lost, {GPU_UP: 0})
    push(victoriametrics_url, well, {GPU_UP: 1})
    push(victoriametrics_url, silent, {GPU_UP: 0}, age_s=60)
    told = readings.conditions(CARD_RULES["CardLost"])
    assert (told[lost], told[well], silent in told) == (True, False, False)


def test_a_node_is_told_of_by_itself(readings: StoredReadings, victoriametrics_url: str, unique_node: str) -> None:
    node = CardKey(unique_node, "", "")
    push(victoriametrics_url, node, {COLLECTOR_INFO: 1})
    assert readings.conditions(CARD_RULES["SeveralCollectors"])[node] is False


def test_the_store_takes_every_question(readings: StoredReadings) -> None:
    for rule in CARD_RULES.values():
        readings.conditions(rule)


def test_a_store_that_does_not_answer_is_not_waited_for_by_each_of_many() -> None:
    """Alertmanager gives each notification 10 s, and a hundred of them come at once."""
    with socket.socket() as store:
        store.bind(("127.0.0.1", 0))
        store.listen()
        store.settimeout(0)
        url = f"http://127.0.0.1:{store.getsockname()[1]}"
        with StoredReadings(url, SystemClock()) as readings:
            for _ in range(4):
                with pytest.raises(UnavailableError, match="cannot query"):
                    readings.used_ratios([CardKey("a", "b", "")])
        store.accept()[0].close()
        with pytest.raises(BlockingIOError):
            store.accept()


def test_a_store_that_is_away_is_an_error_not_an_empty_answer() -> None:
    with (
        StoredReadings(f"http://127.0.0.1:{free_port()}", SystemClock()) as readings,
        pytest.raises(UnavailableError, match="no answer from VictoriaMetrics"),
    ):
        readings.used_ratios([CardKey("a", "b", "")])
