"""How cards are by their fresh readings, asked of the store when somebody says that all is well."""

import math
import re
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from alerts.card_rules import CardRule
from alerts.card_templates import FRESH
from alerts.destroyed_instances import destroyed_instances
from domain.clock import MICROSECONDS, Clock
from domain.errors import InputError, UnavailableError
from domain.series import DEVICE
from domain.watermarks import used_ratio
from victoriametrics.read import Reader
from victoriametrics.selectors import quote
from victoriametrics.store_address import StoreAddress

# Alertmanager gives a webhook 10 s, and a person wants to know by then.
_ANSWER_TIMEOUT_S = 3.0
# A store that did not answer is let alone for as long: the cards of a whole fleet are told of at once, one by one.
_REST_S = 4.0
# Of more cards than that the whole fleet is asked: the server takes no query above 16 kB.
_NAMED_MAX = 100


class CardKey(NamedTuple):
    """What tells a card or MIG instance from others; `mig_uuid` is '' for the card itself, both UUIDs for a node."""

    node: str
    gpu_uuid: str
    mig_uuid: str


class Readings(Protocol):
    """What is known of cards now."""

    def used_ratios(self, cards: Collection[CardKey]) -> Mapping[CardKey, float]:
        """The fullest moment of the last 10 s, as used / usable VRAM, of those cards with a reading that fresh.

        0 of a MIG instance that was destroyed. Others may be among them. Raises UnavailableError where it cannot be
        told.
        """
        ...

    def conditions(self, rule: CardRule) -> Mapping[CardKey, bool]:
        """Whether what the rule is about is so now, of every card or node of which that is heard.

        Raises UnavailableError where it cannot be told.
        """
        ...


class StoredReadings:
    """Readings in VictoriaMetrics, asked of by one keep-alive client that does not wait long."""

    def __init__(self, victoriametrics: StoreAddress | str, clock: Clock) -> None:
        self._reader = Reader(victoriametrics)
        self._reader.limit_answers(_ANSWER_TIMEOUT_S)
        self._clock = clock
        self._failure: UnavailableError | None = None
        self._asks_again_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._reader.close()

    def used_ratios(self, cards: Collection[CardKey]) -> Mapping[CardKey, float]:
        pattern = "|".join(re.escape(card.gpu_uuid) for card in cards)
        selector = f"gpu_uuid=~{quote(pattern)}" if len(cards) <= _NAMED_MAX else ""
        query = f"max by ({', '.join(DEVICE)}) ({used_ratio(selector, FRESH)}) or {destroyed_instances(selector)} * 0"
        return {
            card: ratio
            for card, ratio in self._ask(query).items()
            # A card of which nothing can be used has no ratio.
            if math.isfinite(ratio)
        }

    def conditions(self, rule: CardRule) -> Mapping[CardKey, bool]:
        told = self._ask(f"({rule.holds}) * 0 + 1 or ({rule.heard}) * 0")
        return {card: value == 1 for card, value in told.items()}

    def _ask(self, query: str) -> dict[CardKey, float]:
        if self._failure is not None and self._clock.monotonic_s() < self._asks_again_s:
            raise self._failure
        self._failure = None
        try:
            answer = self._reader.instant(query, self._clock.now_us() // MICROSECONDS)
        except UnavailableError as error:
            self._failure, self._asks_again_s = error, self._clock.monotonic_s() + _REST_S
            raise
        except InputError as error:
            # Whatever it does not like about the question, it does not say how the card is.
            raise UnavailableError(f"cannot tell how a card is: {error}; see its log") from error
        return {CardKey(*(line.labels.get(label, "") for label in DEVICE)): line.values[0] for line in answer}
