"""What a tenant owes: a draft invoice out of the charges there are."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from domain.money import largest_remainder, minor_unit_nano
from domain.prices import Rate
from domain.tenants import Tenant
from meter.ledger.ledger_store import Window
from meter.rating.charges import Charge


@dataclass(slots=True)
class InvoiceLine:
    """Charges of one project, SKU, dimension and rate. `rate` None is unpriced use.

    `amount_nano` is exact; `payable_nano` is a multiple of the currency's smallest unit, and the payables of an
    invoice sum to its total. `covered_seconds` of `coverable_seconds`, those on known devices, had a sample; None: no
    device is known for any of it.
    """

    project: str
    sku: str
    dimension: str
    rate: Rate | None
    granted_seconds: int = 0
    free_seconds: int = 0
    covered_seconds: int | None = None
    coverable_seconds: int = 0
    quantity: int = 0
    quantity_whole: int = 1
    amount_nano: int = 0
    payable_nano: int = 0

    def add(self, charge: Charge) -> None:
        """Count a charge into the line."""
        self.granted_seconds += charge.granted_seconds
        self.free_seconds += charge.free_seconds
        self.quantity += charge.quantity
        self.quantity_whole = charge.quantity_whole
        self.amount_nano += charge.amount_nano
        if charge.covered_seconds is not None:
            self.covered_seconds = (self.covered_seconds or 0) + charge.covered_seconds
            self.coverable_seconds += charge.granted_seconds


@dataclass(frozen=True, slots=True)
class Invoice:
    """A draft over billing dates `first_date` to `last_date`, both included.

    `rated_until_us` is the instant up to which every window the tenant held something in is rated, and
    `is_rated_beyond` is true where some of them are rated beyond it; None where nothing is rated, or it held nothing.
    `settled` is true when all of those windows have settled. Coverage is of seconds granted on known devices: None
    where there are none.
    """

    tenant: str
    currency: str
    first_date: str
    last_date: str
    lines: tuple[InvoiceLine, ...]
    rated_until_us: int | None
    settled: bool
    is_rated_beyond: bool = False
    covered_seconds: int | None = field(default=None)
    coverable_seconds: int = 0

    @property
    def total_nano(self) -> int:
        """What is payable: the sum of the lines."""
        return sum(line.payable_nano for line in self.lines)

    @property
    def unpriced_seconds(self) -> int:
        """Granted seconds that no rate covers, of each dimension by itself; an invoice with any cannot be closed."""
        return sum(line.granted_seconds for line in self.lines if line.rate is None)


def draft_invoice(
    tenant: Tenant,
    first_date: str,
    last_date: str,
    charges: Iterable[Charge],
    rates: Mapping[str, Rate],
    windows: Mapping[tuple[str, int], Window | None],
) -> Invoice:
    """The invoice that the charges make, all of the tenant and of those dates.

    `windows` are those in which it held something, by node and start; None for one that was never rated.
    """
    lines: dict[tuple[str, str, str, str, int], InvoiceLine] = {}
    covered: int | None = None
    coverable = 0
    for charge in charges:
        key = (charge.project, charge.sku, charge.dimension, charge.rate_id or "", charge.quantity_whole)
        rate = rates[charge.rate_id] if charge.rate_id else None
        lines.setdefault(key, InvoiceLine(charge.project, charge.sku, charge.dimension, rate)).add(charge)
        if charge.dimension == "gpu" and charge.covered_seconds is not None:
            covered = (covered or 0) + charge.covered_seconds
            coverable += charge.granted_seconds
    rated_until_us, is_rated_beyond = _rated_until(windows)
    ordered = [lines[key] for key in sorted(lines)]
    payables = largest_remainder([line.amount_nano for line in ordered], minor_unit_nano(tenant.currency))
    for line, payable_nano in zip(ordered, payables, strict=True):
        line.payable_nano = payable_nano
    return Invoice(
        tenant=tenant.tenant,
        currency=tenant.currency,
        first_date=first_date,
        last_date=last_date,
        lines=tuple(ordered),
        rated_until_us=rated_until_us,
        is_rated_beyond=is_rated_beyond,
        settled=all(window is not None and window.state != "open" for window in windows.values()),
        covered_seconds=covered,
        coverable_seconds=coverable,
    )


def _rated_until(windows: Mapping[tuple[str, int], Window | None]) -> tuple[int | None, bool]:
    """Where the first window that is not rated to its end stops, and whether another goes beyond that."""
    rated_us = [each.rated_until_us for each in windows.values() if each and each.rated_until_us > each.start_us]
    if not rated_us:
        return None, False
    unfinished_us = [
        window.rated_until_us if window else start_us
        for (_, start_us), window in windows.items()
        if window is None or window.state == "open"
    ]
    until_us = min(unfinished_us, default=max(rated_us))
    return until_us, until_us < max(rated_us)
