"""What the cards of a log cost: covered time at the GPU rate, and the memory that was in use at the VRAM rate.

A log knows no grants: a `vram` rate counts used bytes whatever its basis, and `vram_overuse` is of no account.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from domain.clock import MICROSECONDS
from domain.errors import InputError
from domain.money import Quote, check_currency, parse_quote
from domain.period import format_instant
from domain.prices import ANY_SKU, GapRules, PriceBook, Rate, VramBasis
from domain.skus import SkuTable
from gputab.log_usage import CardUsage

_GPU, _VRAM = "gpu", "vram"
# Rates that hold for one tenant or project do not price a log, which is nobody's.
_NOBODY = ""


@dataclass(frozen=True, slots=True)
class CardAmount:
    """What a card costs in nano-units of the currency, or None where that cannot be told, for the `reason`."""

    nano: int | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class LogPrices:
    """A price book, and how the SKU of a card is found in it.

    `sku` is what a person says that the cards are; None leaves it to the table, by model and memory.
    """

    book: PriceBook
    skus: SkuTable
    sku: str | None = None

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Of "gpu" and "vram", what the book has no price for at all: it is not charged."""
        priced = {rate.dimension for rate in self.book.rates}
        return tuple(dimension for dimension in (_GPU, _VRAM) if dimension not in priced)

    def amount(self, usage: CardUsage) -> CardAmount:
        """What the usage costs, at the rate in force at each instant, rounded once for each rate.

        It is never short without a word: None where a rate or the SKU is missing, for a MIG instance, and where the
        memory in use, if it is priced, is not known for all of the covered time.
        """
        amounts = [
            part
            for dimension in (_GPU, _VRAM)
            if dimension not in self.unpriced
            for part in self._parts(dimension, usage)
        ]
        total_nano = 0
        for amount in amounts:
            if amount.nano is None:
                return amount
            total_nano += amount.nano
        return CardAmount(total_nano)

    def _parts(self, dimension: str, usage: CardUsage) -> Iterator[CardAmount]:
        if dimension == _VRAM and not usage.has_vram:
            yield CardAmount(None, "VRAM is priced, and the log does not say how much of it was in use")
            return
        if dimension == _VRAM and usage.vram_unknown_us:
            unknown_s = Decimal(usage.vram_unknown_us) / MICROSECONDS
            yield CardAmount(
                None, f"VRAM is priced, and the log does not say for {unknown_s:,.3f} s how much was in use"
            )
            return
        if usage.card.mig_uuid is not None:
            yield CardAmount(None, "it is a MIG instance, and the log does not tell the profile that it is sold by")
            return
        sku = self._sku_of(usage)
        rates = [rate for rate in self.book.rates if rate.dimension == dimension]
        if sku is None and any(rate.sku != ANY_SKU for rate in rates):
            yield CardAmount(
                None, f"{dimension} is priced by SKU, which model and memory do not tell; say it with --sku"
            )
            return
        for period, rate in self.book.pieces(dimension, sku or "", _NOBODY, _NOBODY, usage.span):
            if rate is None:
                of_sku = f" for {sku}" if sku else ""
                yield CardAmount(
                    None, f"{dimension} has no rate{of_sku} at {format_instant(period.start_us)} in the book"
                )
                return
            is_time = dimension == _GPU
            quantity = usage.covered_in_us(period) if is_time else usage.vram_in_byte_us(period)
            yield CardAmount(rate.quote.amount_nano(quantity, whole=MICROSECONDS))

    def _sku_of(self, usage: CardUsage) -> str | None:
        """The card's SKU; None where the log tells too little to look it up."""
        if self.sku is not None or usage.card.model is None or usage.vram_total_bytes is None:
            return self.sku
        return self.skus.sku_of(usage.card.model, usage.vram_total_bytes)


def book_prices(book: PriceBook, skus: SkuTable, sku: str | None) -> LogPrices:
    """The prices of a book; InputError for an `sku` that neither the table nor the book has."""
    known = skus.names | {rate.sku for rate in book.rates}
    if sku is not None and sku not in known and sku.partition("/")[0] not in skus.names:
        raise InputError(f"cannot find the SKU {sku!r}: give one of {', '.join(sorted(known - {ANY_SKU}))}")
    return LogPrices(book, skus, sku)


def flat_prices(gpu_hour: str | None, vram_gib_hour: str | None, currency: str | None) -> LogPrices | None:
    """One price for every card, at any time; None where nothing is given.

    Prices are decimals as a person writes them. Raises InputError for what is no price or currency, and where one is
    given without the other.
    """
    if gpu_hour is None and vram_gib_hour is None:
        if currency is not None:
            raise InputError("cannot use --currency without a price: add --gpu-hour or --vram-gib-hour")
        return None
    if currency is None:
        raise InputError("cannot use a price without its currency: add --currency, such as --currency CNY")
    rates = [
        _everywhere(dimension, parse_quote(price, unit), basis)
        for dimension, price, unit, basis in (
            (_GPU, gpu_hour, "GPU-hour", None),
            (_VRAM, vram_gib_hour, "GiB-hour", VramBasis.USED),
        )
        if price is not None
    ]
    return LogPrices(PriceBook("prices", check_currency(currency), GapRules(), tuple(rates)), SkuTable({}))


def _everywhere(dimension: str, quote: Quote, basis: VramBasis | None) -> Rate:
    return Rate(dimension, dimension, ANY_SKU, None, None, quote, basis, start_us=0, end_us=None)
