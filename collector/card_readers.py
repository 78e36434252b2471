"""Reading every card at once, each on its own thread, so that one that hangs costs the others nothing."""

from collections.abc import Iterable
from dataclasses import dataclass

from collector.source import Source, SourceGoneError
from collector.workers import Workers
from domain.samples import DeviceReading


@dataclass(frozen=True, slots=True)
class Round:
    """What the cards said in one second; `missed` says why, for each card without an answer in time."""

    readings: tuple[DeviceReading, ...]
    missed: dict[str, str]


class CardReaders:
    """One daemon thread per card. A card whose last read has not come back is not asked again: no pile-up."""

    def __init__(self, source: Source) -> None:
        self._cards: Workers[str, int, list[DeviceReading]] = Workers(source.read, "card")

    def read_all(self, gpu_uuids: Iterable[str], second_s: int, timeout_s: float) -> Round:
        """Ask each card for that second and wait until all have answered, at most `timeout_s` (real time).

        An answer that comes later is thrown away: it belongs to a second that is over. Raises SourceGoneError where
        no read of this process can succeed, which is no matter of one card.
        """
        told = self._cards.ask_all(dict.fromkeys(gpu_uuids, second_s), timeout_s)
        for failure in told.failures.values():
            if isinstance(failure, SourceGoneError):
                raise failure
        missed = dict.fromkeys(told.busy, "the driver has not answered an earlier read")
        missed |= dict.fromkeys(told.late, f"the driver did not answer within {timeout_s:.1f} s")
        missed |= {uuid: str(failure) or type(failure).__name__ for uuid, failure in told.failures.items()}
        return Round(tuple(reading for readings in told.answers.values() for reading in readings), missed)

    def close(self) -> None:
        """Let every thread end; one that hangs in the driver stays behind until the process ends."""
        self._cards.close()
