"""What tenants spent, day by day, in amounts that add up to their invoices."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from domain.money import largest_remainder, minor_unit_nano


@dataclass(frozen=True, slots=True)
class SpendRow:
    """The charges of one invoice line on one billing date. `rate_id` None is unpriced use.

    `covered_seconds` of `coverable_seconds`, those granted on known devices, had a sample; None: no device is known
    for any of it. `amount_nano` is exact; `payable_nano` is a multiple of the currency's smallest unit.
    """

    billing_date: str
    tenant: str
    project: str
    sku: str
    dimension: str
    rate_id: str | None
    quantity_whole: int
    currency: str
    charges: int
    granted_seconds: int
    covered_seconds: int | None
    coverable_seconds: int
    amount_nano: int
    payable_nano: int = 0


def with_payables(rows: Iterable[SpendRow]) -> list[SpendRow]:
    """The rows, all that some tenants have in a range of dates, with what is payable of each, in their order.

    Each tenant's sum to its draft invoice of these dates, line by line: first the lines are rounded as an invoice
    rounds them, then each line is divided among its days.
    """
    ordered = list(rows)
    lines: dict[str, dict[tuple[str, str, str, str, int], list[int]]] = defaultdict(lambda: defaultdict(list))
    for index, row in enumerate(ordered):
        # As in meter/bills/invoices.py, where the order decides between equal remainders.
        key = (row.project, row.sku, row.dimension, row.rate_id or "", row.quantity_whole)
        lines[row.tenant][key].append(index)
    payables_nano = [0] * len(ordered)
    for its_lines in lines.values():
        places = [its_lines[key] for key in sorted(its_lines)]
        step_nano = minor_unit_nano(ordered[places[0][0]].currency)
        amounts_nano = [[ordered[index].amount_nano for index in line] for line in places]
        totals_nano = largest_remainder([sum(line) for line in amounts_nano], step_nano)
        for line, amounts, total_nano in zip(places, amounts_nano, totals_nano, strict=True):
            for index, payable_nano in zip(line, largest_remainder(amounts, step_nano, total_nano), strict=True):
                payables_nano[index] = payable_nano
    return [replace(row, payable_nano=payable_nano) for row, payable_nano in zip(ordered, payables_nano, strict=True)]


def coverage(rows: Iterable[SpendRow]) -> tuple[int | None, int, int]:
    """Covered, coverable and granted seconds of the rows; covered is None where no device is known for any of them.

    Of the dimension `gpu` alone, as on an invoice: the others are of the same seconds.
    """
    covered: int | None = None
    coverable = granted = 0
    for row in rows:
        if row.dimension == "gpu":
            granted += row.granted_seconds
            coverable += row.coverable_seconds
            if row.covered_seconds is not None:
                covered = (covered or 0) + row.covered_seconds
    return covered, coverable, granted
