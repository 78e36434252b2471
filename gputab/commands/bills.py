"""`gputab usage` and `gputab invoice`: quantities of any interval, and what a tenant owes."""

from typing import Annotated, Any

import typer

from domain.money import UNITS, format_nano
from domain.period import Period, format_instant, month_dates, parse_instant
from gputab import composition, ledger
from gputab.output import Format, OutputFormat, print_rows, say
from meter.bills.invoice_store import load_draft
from meter.bills.invoices import Invoice, InvoiceLine
from meter.rating.usage import parse_grouping
from meter.rating.usage import usage as usage_of
from store.access import Principal
from store.capacity import load_grants


def usage(
    start: Annotated[str, typer.Option("--from", help="first instant, ISO 8601 with offset or epoch seconds")],
    end: Annotated[str, typer.Option("--to", help="the instant after the last")],
    by: Annotated[str, typer.Option(help="columns to group by, with commas; none: one total")] = "tenant",
    output: Format = OutputFormat.TABLE,
) -> None:
    """Granted and used quantities of any interval."""
    asked = Period(parse_instant(start), parse_instant(end))
    columns = parse_grouping(by)
    config, principal = composition.settings(), Principal.local_operator()
    now_us = composition.clock().now_us()
    # What is granted without an end has not been used in the future.
    period = Period(min(asked.start_us, now_us), min(asked.end_us, now_us))
    if period.end_us < asked.end_us:
        say(f"up to now, {format_instant(now_us)}")
    with (
        ledger.open_database(config) as database,
        ledger.observer(config, database, principal) as observer,
    ):
        with database.read() as connection:
            grants = load_grants(connection, principal, period)
        found = usage_of(grants, period, columns, lambda node, hour: observer.as_it_stands(node, hour, now_us))
    rows = [
        {
            **row.group,
            "granted_seconds": row.granted_seconds,
            "milli_gpu_seconds": row.milli_gpu_seconds,
            "vram_byte_seconds": row.vram_byte_seconds,
            "used_vram_byte_seconds": row.used_vram_byte_seconds,
            "covered_seconds": row.covered_seconds,
        }
        for row in found
    ]
    headings = {
        **{column: column for column in columns},
        "granted_seconds": "granted s",
        "milli_gpu_seconds": "milli-GPU s",
        "vram_byte_seconds": "VRAM byte s",
        "used_vram_byte_seconds": "used VRAM byte s",
        "covered_seconds": "covered s",
    }
    print_rows(rows, headings, output)


def invoice(
    tenant: str,
    month: Annotated[str, typer.Option(help="YYYY-MM, of the tenant's own days")],
    output: Format = OutputFormat.TABLE,
) -> None:
    """A draft invoice, to the last second that is rated."""
    first, last = month_dates(month)
    with ledger.open_database(composition.settings()) as database, database.read() as connection:
        draft = load_draft(connection, Principal.local_operator(), tenant, first.isoformat(), last.isoformat())
    print_invoice(draft, output)


def print_invoice(draft: Invoice, output: OutputFormat) -> None:
    """An invoice as a table with its coverage and total, or as JSON."""
    until = format_instant(draft.rated_until_us) if draft.rated_until_us is not None else None
    title = f"DRAFT invoice {draft.tenant}, {draft.first_date} to {draft.last_date}, {_rated(draft, until)}"
    total = {
        "project": "total",
        "payable": f"{format_nano(draft.total_nano)} {draft.currency}",
        "covered": _percent(draft.covered_seconds, draft.coverable_seconds),
    }
    lines = [_line(line) for line in draft.lines]
    extra = {
        "tenant": draft.tenant,
        "currency": draft.currency,
        "first_date": draft.first_date,
        "last_date": draft.last_date,
        "rated_until": until,
        "is_rated_beyond": draft.is_rated_beyond,
        "settled": draft.settled,
        "total": format_nano(draft.total_nano),
        "covered_seconds": draft.covered_seconds,
        "coverable_seconds": draft.coverable_seconds,
        "unpriced_seconds": draft.unpriced_seconds,
    }
    headings = {
        "project": "project",
        "sku": "SKU",
        "dimension": "dimension",
        "quantity": "quantity",
        "price": "price",
        "free_seconds": "free s",
        "covered": "covered",
        "payable": "amount",
    }
    print_rows([*lines, total] if output is OutputFormat.TABLE else lines, headings, output, title=title, extra=extra)


def _rated(draft: Invoice, until: str | None) -> str:
    if until is None:
        return "rated in part" if draft.lines else "nothing rated yet"
    return f"rated until {until}" + (", and in part after it" if draft.is_rated_beyond else "")


def _line(line: InvoiceLine) -> dict[str, Any]:
    rate = line.rate
    return {
        "project": line.project,
        "sku": line.sku,
        "dimension": line.dimension,
        "quantity": _quantity(line),
        "price": f"{rate.quote.price} per {rate.quote.unit}" if rate else "UNPRICED",
        "granted_seconds": line.granted_seconds,
        "free_seconds": line.free_seconds,
        "covered_seconds": line.covered_seconds,
        "covered": _percent(line.covered_seconds, line.coverable_seconds),
        "base_quantity": line.quantity,
        "base_quantity_whole": line.quantity_whole,
        "amount_nano": line.amount_nano,
        "payable": format_nano(line.payable_nano),
    }


def _quantity(line: InvoiceLine) -> str:
    """In the unit that the price is quoted per, for people; the exact one is in the JSON."""
    unit = line.rate.quote.unit if line.rate else ("GPU-hour" if line.dimension == "gpu" else "GiB-hour")
    return f"{line.quantity / (UNITS[unit][1] * line.quantity_whole):,.4f} {unit}"


def _percent(part: int | None, whole: int) -> str | None:
    return None if part is None or whole == 0 else f"{100 * part / whole:.2f} %"
