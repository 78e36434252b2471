"""Turns notifications into pages, knows what on-call was told already, and follows up what is in doubt."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from alerts import verdicts
from alerts.notification import Alert
from alerts.readings import CardKey, Readings
from alerts.verdicts import Finding, Standing, Verdict
from alerts.watermark_rules import UNKNOWN_ALERT
from domain.clock import MICROSECONDS, Clock
from domain.errors import UnavailableError
from domain.series import DEVICE

# As long as the rules remember a card that is silent.
GIVEN_UP_AFTER_S = 24 * 3600
# Of what has ended only so many are remembered, to know a repeated notification by.
ENDED_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Page:
    """One page: where its subject stands now, and where it stood by the page `before` (None: there was none).

    `annotations` are the words of the rule; `note` is a line of what was found out beside them, or ''. `card` is None
    where the rule is somebody else's.
    """

    now: Standing
    before: Standing | None
    annotations: Mapping[str, str]
    note: str
    card: CardKey | None = None

    @property
    def is_repeat(self) -> bool:
        """Whether it says nothing new."""
        return self.now == self.before


class _Told(NamedTuple):
    standing: Standing
    started_us: int


class _Doubt(NamedTuple):
    # Since when nothing is heard of the card, as far as is known.
    since_us: int
    resolved: Sequence[Alert]


# A card, or an alert that is none of ours, by all its labels.
_Subject = CardKey | tuple[tuple[str, str], ...]


class Pager:
    """Shows a page for each card of a notification, and for each change of a card that is in doubt.

    Safe to call from several threads. A page counts as told when `show` has returned; where that raises, so does the
    call, and the same notification tells it again.
    """

    def __init__(self, show: Callable[[Page], None], readings: Readings, clock: Clock) -> None:
        self._show = show
        self._readings = readings
        self._clock = clock
        self._told: dict[_Subject, _Told] = {}
        self._doubts: dict[CardKey, _Doubt] = {}
        self._lock = threading.Lock()

    def take(self, alerts: Iterable[Alert]) -> None:
        """Tell what a notification says. It has all alerts of each of its cards, firing and resolved."""
        cards: dict[CardKey, list[Alert]] = defaultdict(list)
        strangers: list[Alert] = []
        for alert in alerts:
            if verdicts.is_ours(alert):
                cards[CardKey(*(alert.labels.get(label, "") for label in DEVICE))].append(alert)
            else:
                strangers.append(alert)
        with self._lock:
            for stranger in strangers:
                self._tell(tuple(sorted(stranger.labels.items())), verdicts.of_stranger(stranger))
            ended: dict[CardKey, Sequence[Alert]] = {}
            for card, group in cards.items():
                finding = verdicts.while_firing(group)
                if finding is None:
                    ended[card] = group
                else:
                    self._tell(card, finding)
                    self._doubts.pop(card, None)
            for card, finding in self._findings(ended).items():
                self._tell(card, finding)
                if finding.is_doubtful:
                    self._doubts.setdefault(card, self._doubt(ended[card]))
                else:
                    self._doubts.pop(card, None)

    def look_again(self) -> None:
        """Ask once more of the cards that Alertmanager calls resolved and no reading does; tell what has changed.

        A card that stays silent for a day is given up, and the page says so: it may have been taken away.
        """
        with self._lock:
            doubtful = {card: doubt.resolved for card, doubt in self._doubts.items()}
            for card, found in self._findings(doubtful).items():
                age_us = self._clock.now_us() - self._doubts[card].since_us
                if found.standing.verdict is Verdict.UNKNOWN and age_us >= GIVEN_UP_AFTER_S * MICROSECONDS:
                    note = f"{found.note}; that was so for a day, and it is not followed up any more"
                    self._tell(card, found._replace(note=note))
                    del self._doubts[card]
                    continue
                told = self._told.get(card)
                if told is None or found.standing != told.standing:
                    self._tell(card, found)
                if not found.is_doubtful:
                    del self._doubts[card]
                elif found.standing.verdict is Verdict.FIRING:
                    # It was heard of just now.
                    self._doubts[card] = self._doubts[card]._replace(since_us=self._clock.now_us())

    def _doubt(self, ended: Sequence[Alert]) -> _Doubt:
        silences = [alert.started_us for alert in ended if alert.name == UNKNOWN_ALERT]
        return _Doubt(min(silences, default=self._clock.now_us()), ended)

    def _findings(self, ended: Mapping[CardKey, Sequence[Alert]]) -> dict[CardKey, Finding]:
        """What the store says of cards whose alerts have all ended."""
        if not ended:
            return {}
        try:
            ratios = self._readings.used_ratios(ended.keys())
        except UnavailableError as error:
            return {
                card: verdicts.unheard(alerts, f"the store cannot be asked: {error}") for card, alerts in ended.items()
            }
        return {card: verdicts.by_reading(alerts, ratios.get(card)) for card, alerts in ended.items()}

    def _tell(self, subject: _Subject, finding: Finding) -> None:
        card = subject if isinstance(subject, CardKey) else None
        told = self._told.get(subject)
        if told is not None and told.standing == finding.standing and _began_anew(told, finding):
            # How the one that was told ended was not told: somebody had silenced it in Alertmanager.
            told = None
        before = told.standing if told is not None else None
        self._show(Page(finding.standing, before, finding.annotations, finding.note, card))
        # Told anew, it is the last in the order of time.
        last = self._told.pop(subject, None)
        started_us = max(finding.started_us, last.started_us if last is not None else 0)
        self._told[subject] = _Told(finding.standing, started_us)
        ended = [each for each, told in self._told.items() if told.standing.verdict is Verdict.RESOLVED]
        for oldest in ended[:-ENDED_MAX]:
            del self._told[oldest]


def _began_anew(told: _Told, finding: Finding) -> bool:
    return finding.standing.verdict is Verdict.FIRING and told.started_us < finding.started_us
