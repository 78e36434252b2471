"""`gputab allocations`: allocation records of other systems, as CSV."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, TextIO

import typer
from rich.console import Console
from rich.progress import Progress

from allocator.records.csv_rows import Problems, Row, read_rows, write_rows
from allocator.records.store import NewTenants, export_rows, import_records
from domain.errors import InputError, UnavailableError
from gputab import composition, ledger
from gputab.output import say
from store.access import Principal

app = typer.Typer(help="Import and export allocation records as CSV.", no_args_is_help=True)


@app.command("import")
def import_file(
    file: Annotated[Path, typer.Argument(help="the records, in CSV with a header")],
    source: Annotated[str, typer.Option(help="who says so; a source replaces only what it said itself")] = "csv",
    create_tenants: Annotated[bool, typer.Option("--create-tenants", help="make tenants and projects")] = False,
    zone: Annotated[
        str | None, typer.Option(help="with --create-tenants: their billing zone, for ever; default: UTC")
    ] = None,
    currency: Annotated[str | None, typer.Option(help="with --create-tenants: their currency, for ever")] = None,
) -> None:
    """Store the records of a file, all of them or none; the same file again changes nothing."""
    if create_tenants and currency is None:
        raise InputError("cannot create tenants without their currency: give --currency, such as CNY")
    for option, value in (("--zone", zone), ("--currency", currency)):
        if value is not None and not create_tenants:
            raise InputError(f"cannot use {option} {value!r} where no tenants are made: give --create-tenants with it")
    new_tenants = NewTenants(zone or "UTC", currency) if create_tenants and currency is not None else None
    config = composition.settings()
    problems = Problems()
    rows = read_records(file, problems)
    console = Console(stderr=True)
    busy = console.status(f"storing {len(rows)} records") if console.is_terminal else nullcontext()
    with ledger.open_database(config) as database, busy:
        outcome = import_records(
            database,
            Principal.local_operator(),
            rows,
            problems,
            source=source,
            skus=composition.sku_table(config),
            new_tenants=new_tenants,
        )
    say(
        f"{outcome.added} allocations added, {outcome.replaced} replaced, {outcome.unchanged} unchanged; "
        f"{outcome.grants} grants, {outcome.record_only} of them without a device (record-only)"
    )


@app.command("export")
def export_file(
    out: Annotated[Path | None, typer.Option(help="where to; default: standard output")] = None,
) -> None:
    """Write every allocation as CSV, in a form that imports as the same."""
    with ledger.open_database(composition.settings()) as database, database.read() as connection:
        rows = export_rows(connection, Principal.local_operator())
        if out is None:
            write_rows(sys.stdout, rows)
            return
        try:
            with replacing(out) as target:
                write_rows(target, rows)
        except OSError as error:
            raise UnavailableError(f"cannot write {str(out)!r}: {error.strerror}; choose another --out") from error


@contextmanager
def replacing(out: Path) -> Iterator[TextIO]:
    """A new file that takes the place of `out` when it is whole; after an error `out` is as it was."""
    if out.exists() and not out.is_file():
        # A pipe or a device keeps nothing that could be spoiled, and must not become a file.
        with out.open("w", encoding="utf-8", newline="") as target:
            yield target
        return
    # Through a link to the file it names, so that both are still one.
    out = out.resolve()
    partial = out.with_name(f"{out.name}.partial-{os.getpid()}")
    try:
        with partial.open("x", encoding="utf-8", newline="") as target:
            yield target
        partial.replace(out)
    finally:
        partial.unlink(missing_ok=True)


def read_records(file: Path, problems: Problems) -> list[Row]:
    """The rows of the file; what is wrong in them is among the problems. InputError where it cannot be read at all."""
    console = Console(stderr=True)
    try:
        with (
            Progress(console=console, disable=not console.is_terminal, transient=True) as progress,
            progress.open(file, "r", encoding="utf-8-sig", newline="", description=f"reading {file.name}") as lines,
        ):
            return read_rows(lines, problems)
    except OSError as error:
        raise InputError(f"cannot read {str(file)!r}: {error.strerror}; check the path") from error
    except UnicodeDecodeError as error:
        raise InputError(f"cannot read {str(file)!r}: {error}; give a CSV file in UTF-8") from error
