"""A log and what came of it: the usage and cost of each card, or why it was refused; also as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from collector.logs.log import LogOptions, RefusedRow
from collector.logs.log_text import Progress
from collector.logs.open_log import open_log
from domain.clock import MICROSECONDS
from domain.errors import InputError
from domain.money import format_nano
from domain.units import GIB
from gputab.bill import CardAmount, LogPrices
from gputab.log_usage import CardUsage, card_usages, parts

_DECIMALS = 6


@dataclass(frozen=True, slots=True)
class BilledCard:
    """A card's usage and cost; `amount` is None where no prices were given."""

    usage: CardUsage
    amount: CardAmount | None


@dataclass(frozen=True, slots=True)
class BilledLog:
    """One log. `error` says why nothing of it could be used, and is None where something could."""

    path: Path
    cards: tuple[BilledCard, ...] = ()
    refused: tuple[RefusedRow, ...] = ()
    notes: tuple[str, ...] = ()
    error: str | None = None

    @property
    def parts(self) -> frozenset[str]:
        """The names of the MIG instances that are part of a card of this log, which counts for them."""
        return parts([card.usage for card in self.cards])

    @property
    def summed(self) -> tuple[BilledCard, ...]:
        """The cards and instances that a sum is made of."""
        names = self.parts
        return tuple(card for card in self.cards if card.usage.name not in names)


def bill_log(path: Path, options: LogOptions, prices: LogPrices | None, on_progress: Progress) -> BilledLog:
    """The log in the file, read, held against the prices, or refused with the reason."""
    try:
        log = open_log(path, options, on_progress)
    except InputError as error:
        return BilledLog(path, error=str(error))
    cards = tuple(BilledCard(usage, prices.amount(usage) if prices else None) for usage in card_usages(log.rows))
    return BilledLog(path, cards, log.refused, log.notes)


def names_of(paths: Sequence[Path]) -> dict[Path, str]:
    """What to call each file: its name, or its path where another has the same name."""
    names = [path.name for path in set(paths)]
    return {path: path.name if names.count(path.name) == 1 else str(path) for path in paths}


def as_json(logs: Sequence[BilledLog], currency: str | None) -> Mapping[str, Any]:
    """The logs as JSON: seconds and GiB-seconds as numbers, money as exact decimals in strings, unknown as null."""
    names = names_of([log.path for log in logs])
    return {
        "files": [
            {
                "file": names[log.path],
                "gpus": {card.usage.name: _card_json(card, currency) for card in log.cards},
                "refused": [{"line": row.line, "reason": row.reason} for row in log.refused],
                **({} if log.error is None else {"error": log.error}),
            }
            for log in logs
        ]
    }


def _card_json(card: BilledCard, currency: str | None) -> Mapping[str, Any]:
    usage, amount = card.usage, card.amount
    return {
        "samples": usage.readings,
        "covered_s": _number(usage.covered_us, MICROSECONDS),
        "busy_gpu_s": _number(usage.busy_us, MICROSECONDS),
        "vram_gib_s": _number(usage.vram_byte_us, GIB * MICROSECONDS),
        "amount": None if amount is None or amount.nano is None else format_nano(amount.nano),
        "currency": currency,
    }


def _number(quantity: int | Fraction | None, unit: int) -> float | None:
    return None if quantity is None else round(float(Fraction(quantity) / unit), _DECIMALS)
