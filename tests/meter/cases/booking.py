"""A tenant with prices of its own in the test's ledger, records as others export them, and what is left of capacity."""

import io
from collections.abc import Iterable

from allocator.records.csv_rows import Problems, read_rows, write_rows
from allocator.records.store import ImportOutcome, import_records
from domain.allocation_csv import COLUMNS
from domain.clock import FrozenClock
from domain.period import format_instant
from domain.prices import GapRules, PriceBook, Rate, VramBasis
from domain.skus import load_skus
from meter.prices.price_store import load_book
from meter.rating.charges import Charge
from meter.windows.passes import rate_period
from meter.windows.windows import WindowRater, WindowResult
from store.access import Principal
from store.database import Database
from store.tenants import assign_book, create_project, create_tenant
from tests.meter.charges import gpu_charges
from tests.meter.facts import make_rate
from tests.meter.hour import instant_us, stretch
from tests.meter.ledgers import charges_of

OPERATOR = Principal.local_operator()
# So that a bill is of compute alone, and nothing is unpriced.
FREE_MEMORY = make_rate("vram", "0", "GiB-hour", basis=VramBasis.GRANTED)


def add_customer(ledger: Database, *rates: Rate, tenant: str = "beta", zone: str = "UTC") -> None:
    """A tenant with the project p, rated by these and nothing else."""
    with ledger.write() as connection:
        create_tenant(connection, OPERATOR, tenant=tenant, zone=zone, currency="CNY", now_us=0)
        create_project(connection, OPERATOR, tenant=tenant, project="p", now_us=0)
        load_book(connection, OPERATOR, PriceBook(tenant, "CNY", GapRules(), rates), now_us=0)
        assign_book(connection, OPERATOR, tenant=tenant, book=tenant, start_us=0, now_us=0)


def add_rates(ledger: Database, *rates: Rate, book: str = "beta", now: float = 0) -> None:
    """More rates of a book, said at an offset into the hour."""
    with ledger.write() as connection:
        load_book(connection, OPERATOR, PriceBook(book, "CNY", GapRules(), rates), now_us=instant_us(now))


def csv_of(*rows: dict[str, str]) -> str:
    """Allocation CSV: job-1 of acme on the whole GPU-1 of n1 from the hour on, with these changes row by row."""
    first = {
        "allocation": "job-1",
        "tenant": "acme",
        "project": "p",
        "node": "n1",
        "gpu_uuid": "GPU-1",
        "model": "NVIDIA GeForce RTX 4090",
        "kind": "whole",
        "start": at_offset(0),
    }
    text = io.StringIO()
    write_rows(text, [[{**first, **row}.get(name, "") for name in COLUMNS] for row in rows])
    return text.getvalue()


def at_offset(offset: float) -> str:
    """An offset into the hour as a cell of a CSV."""
    return format_instant(instant_us(offset))


def take_in(ledger: Database, *rows: dict[str, str], source: str = "slurm") -> ImportOutcome:
    """An import of `csv_of` the rows."""
    problems = Problems()
    read = read_rows(io.StringIO(csv_of(*rows)), problems)
    return import_records(ledger, OPERATOR, read, problems, source=source, skus=load_skus(), new_tenants=None)


def rate_hours(
    ledger: Database,
    rater: WindowRater,
    hours: range,
    now_us: int,
) -> list[WindowResult]:
    """One pass over hours after the hour, at an instant that the ledger's clock must show; none of them may fail."""
    period = stretch(hours.start * 3_600, hours.stop * 3_600)
    return list(rate_period(ledger, OPERATOR, rater, period, FrozenClock(now_us), _fail))


def billed_seconds(ledger: Database) -> dict[tuple[str, int], int]:
    """GPU-seconds of the ledger by (allocation, ordinal), over all windows."""
    return summed(gpu_charges(charges_of(ledger)))


def summed(charges: Iterable[Charge]) -> dict[tuple[str, int], int]:
    """Quantity in wholes by (allocation, ordinal)."""
    sums: dict[tuple[str, int], int] = {}
    for each in charges:
        key = (each.allocation, each.ordinal)
        sums[key] = sums.get(key, 0) + each.quantity // each.quantity_whole
    return sums


def _fail(problem: str) -> None:
    raise AssertionError(problem)
