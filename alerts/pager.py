"""Turns notifications into pages, knows what on-call was told already, and follows up what is in doubt."""

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from alerts import verdicts
from alerts.card_rules import CARD_RULES
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
    where the rule is somebody else's, and has no UUID where it is about a node.
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


class _Ours(NamedTuple):
    # '' is about how full the card is, else a name of CARD_RULES.
    rule: str
    card: CardKey


# What a page is about; an alert that is none of ours is known by all its labels.
_Subject = _Ours | tuple[tuple[str, str], ...]


class Pager:
    """Shows a page for each subject of a notification, and for each change of one that is in doubt.

    A subject is how full a card is, with all alerts about that, or any other alert.

    Safe to call from several threads. A page counts as told when `show` has returned; where that raises, so does the
    call, and the same notification tells it again.
    """

    def __init__(self, show: Callable[[Page], None], readings: Readings, clock: Clock) -> None:
        self._show = show
        self._readings = readings
        self._clock = clock
        self._told: dict[_Subject, _Told] = {}
        # Those told as resolved, the oldest first.
        self._ended: OrderedDict[_Subject, None] = OrderedDict()
        self._doubts: dict[_Ours, _Doubt] = {}
        self._lock = threading.Lock()

    def take(self, alerts: Iterable[Alert]) -> None:
        """Tell what a notification says. It has all alerts of each of its subjects, firing and resolved."""
        ours: dict[_Ours, list[Alert]] = defaultdict(list)
        strangers: list[Alert] = []
        for alert in alerts:
            rule = verdicts.rule_of(alert)
            if rule is None:
                strangers.append(alert)
            else:
                ours[_Ours(rule, CardKey(*(alert.labels.get(label, "") for label in DEVICE)))].append(alert)
        with self._lock:
            for stranger in strangers:
                self._tell(tuple(sorted(stranger.labels.items())), verdicts.of_stranger(stranger))
            ended: dict[_Ours, Sequence[Alert]] = {}
            for subject, group in ours.items():
                finding = verdicts.while_firing(group)
                if finding is None:
                    ended[subject] = group
                else:
                    self._tell(subject, finding)
                    self._doubts.pop(subject, None)
            for subject, finding in self._findings(ended).items():
                self._tell(subject, finding)
                if finding.is_doubtful:
                    self._doubts.setdefault(subject, self._doubt(ended[subject]))
                else:
                    self._doubts.pop(subject, None)

    def look_again(self) -> None:
        """Ask once more of what Alertmanager calls resolved and no reading does; tell what has changed.

        A card that stays silent for a day is given up, and the page says so: it may have been taken away.
        """
        with self._lock:
            doubtful = {subject: doubt.resolved for subject, doubt in self._doubts.items()}
            for subject, found in self._findings(doubtful).items():
                age_us = self._clock.now_us() - self._doubts[subject].since_us
                if found.standing.verdict is Verdict.UNKNOWN and age_us >= GIVEN_UP_AFTER_S * MICROSECONDS:
                    note = f"{found.note}; that was so for a day, and it is not followed up any more"
                    self._tell(subject, found._replace(note=note))
                    del self._doubts[subject]
                    continue
                told = self._told.get(subject)
                if told is None or found.standing != told.standing:
                    self._tell(subject, found)
                if not found.is_doubtful:
                    del self._doubts[subject]
                elif found.standing.verdict is Verdict.FIRING:
                    # It was heard of just now.
                    self._doubts[subject] = self._doubts[subject]._replace(since_us=self._clock.now_us())

    def _doubt(self, ended: Sequence[Alert]) -> _Doubt:
        silences = [alert.started_us for alert in ended if alert.name == UNKNOWN_ALERT]
        return _Doubt(min(silences, default=self._clock.now_us()), ended)

    def _findings(self, ended: Mapping[_Ours, Sequence[Alert]]) -> dict[_Ours, Finding]:
        """What the store says of subjects whose alerts have all ended; it is asked once a rule."""
        return {
            subject: finding
            for rule in sorted({subject.rule for subject in ended})
            for subject, finding in self._asked(
                rule, {each: alerts for each, alerts in ended.items() if each.rule == rule}
            )
        }

    def _asked(self, rule: str, ended: Mapping[_Ours, Sequence[Alert]]) -> Iterator[tuple[_Ours, Finding]]:
        try:
            if rule:
                conditions = self._readings.conditions(CARD_RULES[rule])
                for each, alerts in ended.items():
                    yield each, verdicts.by_condition(alerts, conditions.get(each.card))
            else:
                ratios = self._readings.used_ratios([each.card for each in ended])
                for each, alerts in ended.items():
                    yield each, verdicts.by_reading(alerts, ratios.get(each.card))
        except UnavailableError as error:
            for each, alerts in ended.items():
                yield each, verdicts.unheard(alerts, f"the store cannot be asked: {error}")

    def _tell(self, subject: _Subject, finding: Finding) -> None:
        card = subject.card if isinstance(subject, _Ours) else None
        last = told = self._told.get(subject)
        if told is not None and told.standing == finding.standing and _began_anew(told, finding):
            # How the one that was told ended was not told: somebody had silenced it in Alertmanager.
            told = None
        before = told.standing if told is not None else None
        self._show(Page(finding.standing, before, finding.annotations, finding.note, card))
        started_us = max(finding.started_us, last.started_us if last is not None else 0)
        self._told[subject] = _Told(finding.standing, started_us)
        self._ended.pop(subject, None)
        if finding.standing.verdict is Verdict.RESOLVED:
            self._ended[subject] = None
            if len(self._ended) > ENDED_MAX:
                oldest, _ = self._ended.popitem(last=False)
                del self._told[oldest]


def _began_anew(told: _Told, finding: Finding) -> bool:
    return finding.standing.verdict is Verdict.FIRING and told.started_us < finding.started_us
