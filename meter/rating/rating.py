"""Evidence x grants x prices -> charges: a pure function, exact in whole numbers.

Seconds and bytes are summed over runs by meter/rating/measuring.py; money is made once per charge by domain/money.py.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from domain.grants import Grant
from domain.period import Period, ceil_second
from domain.prices import GapRules, PriceBook, Rate, VramBasis
from domain.tenants import Tenant
from meter.evidence.evidence import Evidence
from meter.rating.charges import Charge
from meter.rating.measuring import Stretch, Sums, measure

_ALWAYS = ("gpu", "vram")


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of one grant and dimension in which neither rate nor billing date changes; whole seconds."""

    grant: Grant
    dimension: str
    rate: Rate | None
    billing_date: str
    currency: str
    stretch: Stretch

    @property
    def key(self) -> tuple[str, int, str, str | None, str]:
        """What the segments of one charge share, within a window."""
        rate_id = self.rate.rate_id if self.rate else None
        return (self.grant.allocation, self.grant.ordinal, self.dimension, rate_id, self.billing_date)


def rate(
    evidence: Evidence,
    grants: Iterable[Grant],
    tenants: Mapping[str, Tenant],
    books: Mapping[str, PriceBook],
) -> list[Charge]:
    """The charges of one window, ordered by their natural key.

    `grants` are those of the evidence's node ('' for grants without a device); seconds outside its period are
    not rated. Every tenant of a grant must be in `tenants`, every book of a tenant in `books`.
    """
    segments = [
        segment for grant in grants for segment in segments_of(grant, evidence.period, tenants[grant.tenant], books)
    ]
    by_key: dict[tuple[str, int, str, str | None, str], tuple[Segment, Sums]] = {}
    for segment, sums in zip(segments, measure(evidence, [each.stretch for each in segments]), strict=True):
        if segment.key in by_key:
            by_key[segment.key][1].add(sums)
        else:
            by_key[segment.key] = (segment, sums)
    charges = [_charge(evidence, segment, sums) for segment, sums in by_key.values()]
    return sorted(charges, key=lambda c: (c.allocation, c.ordinal, c.dimension, c.billing_date, c.rate_id or ""))


def segments_of(grant: Grant, window: Period, tenant: Tenant, books: Mapping[str, PriceBook]) -> Iterator[Segment]:
    """The grant inside the window, cut where its rate or its billing date changes, of each dimension; none is empty."""
    held = grant.period.intersect(window)
    if held is None:
        return
    for day, billing_date in tenant.days(held):
        for stretch, book_name in tenant.books_over(day):
            book = books[book_name] if book_name else None
            for dimension in _dimensions(book):
                pieces: Iterable[tuple[Period, Rate | None]] = [(stretch, None)]
                if book is not None:
                    pieces = book.pieces(dimension, grant.sku, grant.tenant, grant.project, stretch)
                for piece, rate_ in pieces:
                    if rate_ is None and dimension not in _ALWAYS:
                        continue
                    held_s = Stretch(
                        grant, book.gaps if book else GapRules(), piece.first_second, ceil_second(piece.end_us)
                    )
                    if held_s.seconds:
                        yield Segment(grant, dimension, rate_, billing_date, tenant.currency, held_s)


def _dimensions(book: PriceBook | None) -> list[str]:
    """GPU and VRAM time are always rated, so that use without a price shows; other dimensions where priced."""
    priced = {rate_.dimension for rate_ in book.rates} if book else set()
    return [*_ALWAYS, *sorted(priced.difference(_ALWAYS))]


def _charge(evidence: Evidence, segment: Segment, sums: Sums) -> Charge:
    grant = segment.grant
    quantity, whole = quantity_of(segment, sums)
    covered = sums.measured if segment.dimension == "gpu" else sums.covered
    return Charge(
        node=evidence.node,
        window_start_us=evidence.period.start_us,
        allocation=grant.allocation,
        ordinal=grant.ordinal,
        dimension=segment.dimension,
        rate_id=segment.rate.rate_id if segment.rate else None,
        billing_date=segment.billing_date,
        tenant=grant.tenant,
        project=grant.project,
        sku=grant.sku,
        granted_seconds=sums.billed + sums.free,
        measured_seconds=sums.measured,
        bridged_seconds=sums.bridged,
        on_record_seconds=sums.on_record,
        free_seconds=sums.free,
        covered_seconds=None if grant.is_record_only else covered,
        quantity=quantity,
        quantity_whole=whole,
        currency=segment.currency,
        amount_nano=segment.rate.quote.amount_nano(quantity, whole=whole) if segment.rate else 0,
    )


def quantity_of(segment: Segment, sums: Sums) -> tuple[int, int]:
    """What is billed, and how much of it makes one GPU-second (1 for bytes)."""
    grant = segment.grant
    if segment.dimension == "gpu":
        return grant.compute_units * sums.billed, grant.compute_units_total
    if segment.dimension == "vram_overuse":
        return sums.overuse, 1
    if segment.dimension == "vram_burst":
        return sums.used, 1
    basis = segment.rate.basis if segment.rate else VramBasis.MAX
    if basis is VramBasis.USED:
        return sums.used, 1
    overuse = sums.overuse if basis is VramBasis.MAX else 0
    return grant.vram_bytes * sums.billed + overuse, 1
