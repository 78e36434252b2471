"""Price books, and which rate is in force for whom at which second."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from domain.errors import InputError
from domain.grants import OPEN_END_US
from domain.money import Quote
from domain.period import Period, format_instant

ANY_SKU = "*"

# Dimension -> what its unit must count.
DIMENSIONS: dict[str, str] = {
    "gpu": "gpu-seconds",
    "vram": "byte-seconds",
    "vram_overuse": "byte-seconds",
    "vram_burst": "byte-seconds",
}


class VramBasis(StrEnum):
    """Which bytes of a second a `vram` rate counts; MAX is granted plus what was used beyond it."""

    GRANTED = "granted"
    USED = "used"
    MAX = "max"


class GapPolicy(StrEnum):
    """What a granted second without a sample costs."""

    FREE = "free"
    ON_RECORD = "on_record"


@dataclass(frozen=True, slots=True)
class GapRules:
    """How a price book treats seconds without a valid sample.

    A hole of up to `bridge_seconds` between two samples is billed as if it had been sampled. `never_ready` has no
    effect until there is an agent to say that a grant was not ready.
    """

    bridge_seconds: int = 3
    host_unreachable: GapPolicy = GapPolicy.FREE
    collector_down: GapPolicy = GapPolicy.ON_RECORD
    never_ready: GapPolicy = GapPolicy.FREE


@dataclass(frozen=True, slots=True)
class Rate:
    """One line of a price book, in force over [start_us, end_us); `end_us` None is "until further notice".

    `tenant` and `project` None mean everybody; `sku` may be `*`, a card's SKU, or one with a MIG profile. `basis`
    is set for `vram` only. `rate_id` is derived from all the rest, so a rate is named by what it says.
    """

    rate_id: str
    dimension: str
    sku: str
    tenant: str | None
    project: str | None
    quote: Quote
    basis: VramBasis | None
    start_us: int
    end_us: int | None

    @property
    def period(self) -> Period:
        """The interval in which the rate is in force."""
        return Period(self.start_us, OPEN_END_US if self.end_us is None else self.end_us)

    @property
    def scope(self) -> tuple[str, str, str | None, str | None]:
        """What two rates must share to contradict each other when their intervals meet."""
        return (self.dimension, self.sku, self.tenant, self.project)

    def applies_to(self, dimension: str, sku: str, tenant: str, project: str) -> bool:
        """Whether the rate may price that use, leaving time aside."""
        return (
            self.dimension == dimension
            and self.sku in (ANY_SKU, sku, sku.partition("/")[0])
            and self.tenant in (None, tenant)
            and self.project in (None, project)
        )

    @property
    def specificity(self) -> tuple[int, int]:
        """Larger wins: tenant and project, then tenant; then SKU with profile, SKU, any."""
        who = (self.tenant is not None) + (self.project is not None)
        what = 0 if self.sku == ANY_SKU else 2 if "/" in self.sku else 1
        return (who, what)


@dataclass(frozen=True, slots=True)
class PriceBook:
    """A named set of rates in one currency (ISO 4217), with its gap rules."""

    book: str
    currency: str
    gaps: GapRules
    rates: tuple[Rate, ...]

    def pieces(
        self, dimension: str, sku: str, tenant: str, project: str, period: Period
    ) -> Iterator[tuple[Period, Rate | None]]:
        """The period cut where the winning rate changes, in order and without gaps.

        The rate is None where no rate covers that use: unpriced, which is not the same as a price of zero.
        """
        candidates = [rate for rate in self.rates if rate.applies_to(dimension, sku, tenant, project)]
        cuts = sorted(
            {period.start_us, period.end_us}
            | {cut for rate in candidates for cut in _ends(rate) if period.start_us < cut < period.end_us}
        )
        piece_start, piece_rate = period.start_us, _winner(candidates, period.start_us)
        for cut in cuts[1:-1]:
            rate = _winner(candidates, cut)
            if rate is not piece_rate:
                yield Period(piece_start, cut), piece_rate
                piece_start, piece_rate = cut, rate
        if piece_start < period.end_us:
            yield Period(piece_start, period.end_us), piece_rate


def check_overlaps(rates: Iterable[Rate]) -> None:
    """Raise InputError where two rates of the same scope are in force at the same time."""
    by_scope: dict[tuple[str, str, str | None, str | None], list[Rate]] = {}
    for rate in rates:
        # One that was ended where it began is never in force.
        if rate.start_us < rate.period.end_us:
            by_scope.setdefault(rate.scope, []).append(rate)
    for same in by_scope.values():
        same.sort(key=lambda rate: rate.start_us)
        for earlier, later in pairwise(same):
            if later.start_us < earlier.period.end_us:
                raise InputError(
                    f"cannot use two rates for {_describe(later)} at {format_instant(later.start_us)}: "
                    f"{earlier.quote.price} and {later.quote.price}; end the first with `to`"
                )


def _winner(candidates: Sequence[Rate], at_us: int) -> Rate | None:
    in_force = [rate for rate in candidates if rate.start_us <= at_us < rate.period.end_us]
    return max(in_force, key=lambda rate: rate.specificity, default=None)


def _ends(rate: Rate) -> tuple[int, int]:
    return rate.start_us, rate.period.end_us


def _describe(rate: Rate) -> str:
    who = f", tenant {rate.tenant!r}" if rate.tenant else ""
    what = f", project {rate.project!r}" if rate.project else ""
    return f"{rate.dimension!r} of {rate.sku!r}{who}{what}"
