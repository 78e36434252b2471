"""What the cards of a log were used for: each reading stands until the next one of its card.

A step of more than three times the card's median positive step is a gap, in which nothing is known, and the last
reading has no duration. Exact: microseconds, bytes and fractions in, the same out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from collector.logs.log import LogCard, LogRow
from domain.period import Period
from domain.series import GPU_BUSY, GPU_MEMORY_TOTAL, GPU_MEMORY_USED

_GAP_STEPS = 3

# Node, UUIDs of the card and of the MIG instance, index.
_Identity = tuple[str | None, str | None, str | None, str | None]


class Held(NamedTuple):
    """A reading over the interval [start_us, end_us) that it stands for; None is what it does not say."""

    start_us: int
    end_us: int
    busy_ratio: int | Fraction | None
    vram_bytes: int | None


@dataclass(frozen=True)
class CardUsage:
    """One card of one log: from its first reading to its last, what of that is known, and what was seen.

    `readings` counts all of them; `equal_times` those that another at the same time replaced, `out_of_order` those
    that were written after a later one. `has_busy` and `has_vram` say whether the log tells that of the card at all.
    """

    name: str
    card: LogCard
    span: Period
    held: tuple[Held, ...]
    gaps: tuple[Period, ...]
    readings: int
    equal_times: int
    out_of_order: int
    has_busy: bool
    has_vram: bool
    vram_peak_bytes: int | None
    vram_total_bytes: int | None

    @property
    def span_us(self) -> int:
        """Time from the first reading to the last."""
        return self.span.end_us - self.span.start_us

    @cached_property
    def covered_us(self) -> int:
        """Time in which some reading stands."""
        return self.covered_in_us(self.span)

    @cached_property
    def busy_us(self) -> Fraction | None:
        """Time in which some kernel ran; None where the log does not tell, and short where it does not always."""
        by_ratio: dict[int | Fraction, int] = {}
        for held in self.held:
            if held.busy_ratio is not None:
                by_ratio[held.busy_ratio] = by_ratio.get(held.busy_ratio, 0) + held.end_us - held.start_us
        return Fraction(sum(ratio * time_us for ratio, time_us in by_ratio.items())) if self.has_busy else None

    @cached_property
    def vram_byte_us(self) -> int | None:
        """Bytes in use times microseconds; None where the log does not tell, and short where it does not always."""
        return self.vram_in_byte_us(self.span) if self.has_vram else None

    @cached_property
    def busy_unknown_us(self) -> int:
        """Covered time in which nothing says how busy the card was."""
        return sum(held.end_us - held.start_us for held in self.held if held.busy_ratio is None)

    @cached_property
    def vram_unknown_us(self) -> int:
        """Covered time in which nothing says how much memory was in use."""
        return sum(held.end_us - held.start_us for held in self.held if held.vram_bytes is None)

    def covered_in_us(self, period: Period) -> int:
        """Time within the period in which some reading stands."""
        return sum(_common_us(held, period) for held in self.held)

    def vram_in_byte_us(self, period: Period) -> int:
        """Bytes known to be in use times microseconds, within the period."""
        return sum((held.vram_bytes or 0) * _common_us(held, period) for held in self.held)


def card_usages(rows: Iterable[LogRow]) -> list[CardUsage]:
    """The usage of each card in the rows of one log, which are in the order of the file; by index, then name."""
    by_card: dict[_Identity, list[LogRow]] = {}
    for row in rows:
        by_card.setdefault(_identity(row.card), []).append(row)
    names = _names([of_card[0].card for of_card in by_card.values()])
    usages = [_usage(names[of_card[0].card], of_card) for of_card in by_card.values()]
    return sorted(usages, key=lambda usage: (len(usage.name) if usage.name.isdigit() else 0, usage.name))


def parts(usages: Sequence[CardUsage]) -> frozenset[str]:
    """The names of the MIG instances whose card is itself among them: it uses what they use, so no sum has both."""
    cards = {_identity(usage.card) for usage in usages if usage.card.mig_uuid is None}
    return frozenset(usage.name for usage in usages if usage.card.mig_uuid is not None and _of_card(usage) in cards)


def covered_by_card_us(usages: Iterable[CardUsage]) -> list[int]:
    """For each physical card the time in which a reading of it stands, or of one of its MIG instances."""
    held: dict[_Identity, list[Held]] = {}
    for usage in usages:
        held.setdefault(_of_card(usage), []).extend(usage.held)
    return [_union_us(of_card) for of_card in held.values()]


def _usage(name: str, rows: Sequence[LogRow]) -> CardUsage:
    # Of equal times the last row counts.
    by_time = {row.time_us: row for row in rows}
    times_us = sorted(by_time)
    longest_us = _longest_step_us([later - earlier for earlier, later in pairwise(times_us)])
    held: list[Held] = []
    gaps: list[Period] = []
    for start_us, end_us in pairwise(times_us):
        if end_us - start_us > longest_us:
            gaps.append(Period(start_us, end_us))
            continue
        values = by_time[start_us].values
        used_bytes = values.get(GPU_MEMORY_USED)
        held.append(Held(start_us, end_us, values.get(GPU_BUSY), None if used_bytes is None else int(used_bytes)))
    used = [int(row.values[GPU_MEMORY_USED]) for row in rows if GPU_MEMORY_USED in row.values]
    totals = [int(row.values[GPU_MEMORY_TOTAL]) for row in rows if GPU_MEMORY_TOTAL in row.values]
    models = [row.card.model for row in rows if row.card.model is not None]
    return CardUsage(
        name=name,
        card=replace(rows[0].card, model=models[-1] if models else None),
        span=Period(times_us[0], times_us[-1]),
        held=tuple(held),
        gaps=tuple(gaps),
        readings=len(rows),
        equal_times=len(rows) - len(times_us),
        out_of_order=sum(later.time_us < earlier.time_us for earlier, later in pairwise(rows)),
        has_busy=any(GPU_BUSY in row.values for row in rows),
        has_vram=bool(used),
        vram_peak_bytes=max(used, default=None),
        vram_total_bytes=totals[-1] if totals else None,
    )


def _identity(card: LogCard) -> _Identity:
    """What tells cards apart: the index only where there is no UUID, since it may change."""
    return card.node, card.gpu_uuid, card.mig_uuid, card.index if card.gpu_uuid is None else None


def _of_card(usage: CardUsage) -> _Identity:
    """What tells the physical card apart."""
    return _identity(replace(usage.card, mig_uuid=None))


def _union_us(held: Iterable[Held]) -> int:
    """Time in which at least one of them stands."""
    total_us = until_us = 0
    for start_us, end_us in sorted((each.start_us, each.end_us) for each in held):
        total_us += max(0, end_us - max(start_us, until_us))
        until_us = max(until_us, end_us)
    return total_us


def _longest_step_us(steps_us: Sequence[int]) -> Fraction:
    """The longest step over which a reading stands: three times the median; the mean of the two in the middle."""
    ordered = sorted(steps_us)
    count = len(ordered)
    if not count:
        return Fraction(0)
    return _GAP_STEPS * Fraction(ordered[(count - 1) // 2] + ordered[count // 2], 2)


def _names(cards: Sequence[LogCard]) -> dict[LogCard, str]:
    """What to call each card: the shortest of index, UUID and both that tells all of them apart."""
    forms = (
        {card: card.index or "" for card in cards},
        {card: card.mig_uuid or card.gpu_uuid or "" for card in cards},
        {card: "/".join(filter(None, (card.node, card.index, card.mig_uuid))) for card in cards},
    )
    for names in forms:
        if all(names.values()) and len(set(names.values())) == len(cards):
            return names
    return {
        card: "/".join(filter(None, (card.node, card.index, card.gpu_uuid, card.mig_uuid))) or "0" for card in cards
    }


def _common_us(held: Held, period: Period) -> int:
    return max(0, min(held.end_us, period.end_us) - max(held.start_us, period.start_us))
