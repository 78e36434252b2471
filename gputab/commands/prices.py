"""`gputab prices`: price books."""

from pathlib import Path
from typing import Annotated

import typer

from domain.period import format_instant
from domain.prices import PriceBook
from gputab import composition, ledger
from gputab.output import Format, OutputFormat, print_rows, say
from meter.prices.price_book import read_price_book
from meter.prices.price_store import load_book, load_named_book
from store.access import Principal
from store.capacity import known_skus
from store.database import now_us

app = typer.Typer(help="Price books: load, show, check.", no_args_is_help=True)

_COLUMNS = {
    "dimension": "dimension",
    "sku": "SKU",
    "tenant": "tenant",
    "project": "project",
    "price": "price",
    "unit": "per",
    "basis": "basis",
    "from": "from",
    "to": "to",
}


@app.command()
def load(file: Annotated[Path, typer.Argument(help="the book, in YAML")]) -> None:
    """Add a book, or what is new in it; all of the file or nothing."""
    config = composition.settings()
    principal = Principal.local_operator()
    with ledger.open_database(config) as database:
        with database.read() as connection:
            known = known_skus(connection, principal)
        # A file may be slow to come, and nobody writes while this does.
        book = read_price_book(file, composition.sku_table(config), known)
        with database.write() as connection:
            added, ended = load_book(connection, principal, book, now_us=now_us(connection))
    say(f"loaded the book {book.book!r}: {added} rates added, {ended} ended")


@app.command()
def check(file: Annotated[Path, typer.Argument(help="the book, in YAML")], output: Format = OutputFormat.TABLE) -> None:
    """Read a book and say what is wrong with it, without a database."""
    book = read_price_book(file, composition.sku_table(composition.settings()))
    _print(book, output)


@app.command()
def show(book: str, output: Format = OutputFormat.TABLE) -> None:
    """Every rate of a loaded book."""
    with ledger.open_database(composition.settings()) as database, database.read() as connection:
        found = load_named_book(connection, Principal.local_operator(), book)
    _print(found, output)


def _print(book: PriceBook, output: OutputFormat) -> None:
    rows = [
        {
            "rate_id": rate.rate_id,
            "dimension": rate.dimension,
            "sku": rate.sku,
            "tenant": rate.tenant,
            "project": rate.project,
            "price": str(rate.quote.price),
            "unit": rate.quote.unit,
            "basis": rate.basis,
            "from": format_instant(rate.start_us),
            "to": format_instant(rate.end_us) if rate.end_us is not None else None,
        }
        for rate in book.rates
    ]
    print_rows(
        rows,
        _COLUMNS,
        output,
        title=f"{book.book} ({book.currency})",
        extra={
            "book": book.book,
            "currency": book.currency,
            "gaps": {
                "bridge_seconds": book.gaps.bridge_seconds,
                "host_unreachable": book.gaps.host_unreachable,
                "collector_down": book.gaps.collector_down,
                "never_ready": book.gaps.never_ready,
            },
        },
    )
