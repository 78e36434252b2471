"""A pager whose pages a test reads, and the store that it asks."""

from collections.abc import Collection, Mapping

from alerts.card_rules import CardRule
from alerts.pager import Page, Pager
from alerts.readings import CardKey
from domain.clock import MICROSECONDS, FrozenClock
from domain.errors import UnavailableError
from tests.alerts.notifications import NODE

CARD = CardKey(NODE, "GPU-1", "")
START_US = 1_796_000_000 * MICROSECONDS


class ReadingsAtHand:
    """A store that knows what a test tells it: a ratio and a condition by card, or that it is away."""

    def __init__(self) -> None:
        self.ratios: dict[CardKey, float] = {}
        self.holding: dict[tuple[str, CardKey], bool] = {}
        self.is_away = False
        self.questions = 0

    def used_ratios(self, cards: Collection[CardKey]) -> Mapping[CardKey, float]:
        self._be_asked()
        return self.ratios

    def conditions(self, rule: CardRule) -> Mapping[CardKey, bool]:
        self._be_asked()
        return {card: holds for (alert, card), holds in self.holding.items() if alert == rule.alert}

    def _be_asked(self) -> None:
        self.questions += 1
        if self.is_away:
            raise UnavailableError("cannot query samples: no answer; start it")


class Desk:
    """A pager and what it showed, as (verdict, level, is a repeat)."""

    def __init__(self) -> None:
        self.readings = ReadingsAtHand()
        self.clock = FrozenClock(START_US)
        self.pages: list[Page] = []
        self.is_out_of_paper = False
        self.pager = Pager(self._show, self.readings, self.clock)

    @property
    def told(self) -> list[tuple[str, str, bool]]:
        return [(page.now.verdict.value, page.now.level, page.is_repeat) for page in self.pages]

    def _show(self, page: Page) -> None:
        if self.is_out_of_paper:
            raise RuntimeError("out of paper")
        self.pages.append(page)
