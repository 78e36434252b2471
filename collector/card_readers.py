"""Reading every card at once, each on its own thread, so that one that hangs costs the others nothing."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from queue import SimpleQueue

from collector.source import Source, SourceGoneError
from domain.samples import DeviceReading


@dataclass(frozen=True, slots=True)
class Round:
    """What the cards said in one second; `missed` says why, for each card without an answer in time."""

    readings: tuple[DeviceReading, ...]
    missed: dict[str, str]


class CardReaders:
    """One daemon thread per card. A card whose last read has not come back is not asked again: no pile-up."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._cards: dict[str, _Card] = {}
        self._answered = threading.Condition()

    def read_all(self, gpu_uuids: Iterable[str], second_s: int, timeout_s: float) -> Round:
        """Ask each card for that second and wait until all have answered, at most `timeout_s` (real time).

        An answer that comes later is thrown away: it belongs to a second that is over. Raises SourceGoneError where
        the driver is gone, which is no matter of one card.
        """
        missed: dict[str, str] = {}
        asked: dict[str, _Card] = {}
        with self._answered:
            for gpu_uuid in gpu_uuids:
                card = self._cards.get(gpu_uuid) or self._start(gpu_uuid)
                if card.is_busy:
                    missed[gpu_uuid] = "the driver has not answered an earlier read"
                else:
                    card.ask(second_s)
                    asked[gpu_uuid] = card
            self._answered.wait_for(lambda: not any(card.is_busy for card in asked.values()), timeout_s)
            readings: list[DeviceReading] = []
            for gpu_uuid, card in asked.items():
                if card.is_busy:
                    missed[gpu_uuid] = f"the driver did not answer within {timeout_s:.1f} s"
                elif isinstance(card.failure, SourceGoneError):
                    raise card.failure
                elif card.failure is not None:
                    missed[gpu_uuid] = str(card.failure) or type(card.failure).__name__
                else:
                    readings += card.readings
        return Round(tuple(readings), missed)

    def close(self) -> None:
        """Let every thread end; one that hangs in the driver stays behind until the process ends."""
        with self._answered:
            for card in self._cards.values():
                card.seconds.put(None)
            self._cards.clear()

    def _start(self, gpu_uuid: str) -> "_Card":
        card = self._cards[gpu_uuid] = _Card()
        thread = threading.Thread(target=self._serve, args=(gpu_uuid, card), name=f"card {gpu_uuid}", daemon=True)
        thread.start()
        return card

    def _serve(self, gpu_uuid: str, card: "_Card") -> None:
        while (second_s := card.seconds.get()) is not None:
            readings: list[DeviceReading] = []
            failure: Exception | None = None
            try:
                readings = self._source.read(gpu_uuid, second_s)
            except Exception as error:  # noqa: BLE001 - whatever one card throws must stay with that card
                failure = error
            with self._answered:
                card.readings, card.failure, card.is_busy = readings, failure, False
                self._answered.notify_all()


class _Card:
    """The desk of one card's thread: the seconds it is asked for, and its last answer."""

    def __init__(self) -> None:
        self.seconds: SimpleQueue[int | None] = SimpleQueue()
        self.is_busy = False
        self.readings: list[DeviceReading] = []
        self.failure: Exception | None = None

    def ask(self, second_s: int) -> None:
        self.is_busy = True
        self.seconds.put(second_s)
