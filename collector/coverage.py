"""In how many of the seconds that passed each card answered, over the last hour."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

HOUR_SECONDS = 3_600
_HOUR = (1 << HOUR_SECONDS) - 1


class Coverage:
    """A bit for each card and second of the last hour. A card counts from the first second in which it was asked."""

    def __init__(self) -> None:
        self._cards: dict[str, _Card] = {}

    def pass_seconds(self, seconds: int, gpu_uuids: Iterable[str], answered: Collection[str]) -> None:
        """`seconds` have passed, of which the last was sampled: these cards were asked, and those answered.

        A card that is not asked any more is forgotten.
        """
        self._cards = {
            gpu_uuid: _after(self._cards.get(gpu_uuid), seconds, answers=gpu_uuid in answered) for gpu_uuid in gpu_uuids
        }

    def ratios(self) -> dict[str, float]:
        """By card, the seconds in which it answered as a share of those that passed, to six places."""
        return {
            gpu_uuid: round(card.answered.bit_count() / card.passed_seconds, 6)
            for gpu_uuid, card in self._cards.items()
        }


class _Card(NamedTuple):
    """The newest second is the lowest bit of `answered`."""

    answered: int
    passed_seconds: int


def _after(card: _Card | None, seconds: int, *, answers: bool) -> _Card:
    if card is None:
        return _Card(int(answers), 1)
    # A machine that slept for a week must not shift by a week.
    earlier = card.answered << min(seconds, HOUR_SECONDS) & _HOUR
    return _Card(earlier | answers, min(card.passed_seconds + seconds, HOUR_SECONDS))
