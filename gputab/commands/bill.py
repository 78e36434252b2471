"""`gputab bill`: logs of cards as usage and money, in memory."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from domain.errors import InputError
from gputab import composition
from gputab.bill import LogPrices, book_prices, flat_prices
from gputab.bill_table import print_bill, remarks
from gputab.billed_log import BilledLog, as_json, bill_log, names_of
from gputab.log_options import Columns, Gpus, Start, Step, Timezone, log_options
from gputab.output import Format, OutputFormat, say
from gputab.progress import progress_bar
from meter.prices.price_book import read_price_book


def bill(
    logs: Annotated[list[Path], typer.Argument(help="logs of nvidia-smi, dmon and pmon, and dcgm-exporter's pages")],
    timezone: Timezone = None,
    start: Start = None,
    step: Step = None,
    gpus: Gpus = None,
    columns: Columns = None,
    prices: Annotated[Path | None, typer.Option(help="a price book")] = None,
    sku: Annotated[str | None, typer.Option(help="what the cards are in it, where the log does not tell")] = None,
    gpu_hour: Annotated[str | None, typer.Option(help="price of an hour of a card")] = None,
    vram_gib_hour: Annotated[str | None, typer.Option(help="price of a GiB of used VRAM for an hour")] = None,
    currency: Annotated[str | None, typer.Option(help="of these two prices, by its ISO 4217 code")] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Usage and cost of the cards in a log.

    Needs no server and no database. Reads what 'nvidia-smi
    --query-gpu=timestamp,index,utilization.gpu,memory.used --format=csv -l 1' writes, with any columns in any order,
    what plain 'nvidia-smi' prints in a loop, and saved pages of dcgm-exporter. A reading stands until the next one of
    its card; a step of more than three times the usual one is a gap, which costs nothing. A card costs its covered
    time at the GPU price, and the memory that was in use at the VRAM price.
    """
    options = log_options(timezone, start, step, gpus, columns)
    for path, times in Counter(logs).items():
        if times > 1:
            raise InputError(f"cannot bill the log {str(path)!r} {times} times: name it once")
    priced = _prices(prices, sku, gpu_hour, vram_gib_hour, currency)
    billed = []
    for path in logs:
        with progress_bar(f"reading {path.name}") as on_progress:
            billed.append(bill_log(path, options, priced, on_progress))
    currency = priced.book.currency if priced else None
    if output is OutputFormat.JSON:
        json.dump(as_json(billed, currency), sys.stdout, indent=1)
        sys.stdout.write("\n")
        names = names_of(logs)
        for log in billed:
            for line in remarks(log):
                say(f"{names[log.path]!r}: {line}")
    else:
        print_bill([log for log in billed if log.error is None], currency)
    if priced is not None and priced.unpriced:
        say(f"not charged, since the prices have none for it: {', '.join(priced.unpriced)}")
    _say_what_was_refused(billed)


def _say_what_was_refused(billed: list[BilledLog]) -> None:
    errors = [log.error for log in billed if log.error is not None]
    for error in errors:
        say(f"gputab: {error}")
    if errors:
        raise typer.Exit(2)


def _prices(
    book: Path | None, sku: str | None, gpu_hour: str | None, vram_gib_hour: str | None, currency: str | None
) -> LogPrices | None:
    flat = flat_prices(gpu_hour, vram_gib_hour, currency)
    if book is None:
        if sku is not None:
            raise InputError("cannot use --sku without a price book: add --prices")
        return flat
    if flat is not None:
        raise InputError("cannot use --prices beside --gpu-hour or --vram-gib-hour: give the one or the others")
    skus = composition.sku_table(composition.settings())
    return book_prices(read_price_book(book, skus), skus, sku)
