"""`gputab meter close` and `correct`: closing hours for ever, and what may be added to them afterwards."""

from pathlib import Path
from typing import Annotated, Any

import typer

from allocator.records.csv_rows import Problems
from allocator.records.store import import_records
from domain.errors import InputError, NotFoundError
from domain.money import format_nano
from domain.period import Period, format_instant, parse_instant
from gputab import composition, ledger
from gputab.commands.allocations import read_records
from gputab.output import Format, OutputFormat, print_rows, say
from gputab.progress import steps
from meter.ledger import corrections_store, ledger_store
from meter.windows.closing import close_hours
from meter.windows.corrections import Corrected, Corrector
from store.access import Principal


def close(
    until: Annotated[str, typer.Option(help="close every hour that ends by this instant")],
    output: Format = OutputFormat.TABLE,
) -> None:
    """Close settled hours, the oldest first: from then on only corrections are added to them.

    Stops at the first hour that cannot be closed, and says why: something has not settled, has no price, or capacity
    does not add up.
    """
    until_us = parse_instant(until)
    principal = Principal.local_operator()
    if until_us > composition.clock().now_us():
        raise InputError(f"cannot close hours until {until!r}: that is yet to come")
    closed = []
    with ledger.open_database(composition.settings()) as database:
        try:
            for hour in close_hours(database, principal, until_us):
                closed.append(hour)  # noqa: PERF402 - those before one that cannot be closed are shown too
        finally:
            rows = [{"hour": format_instant(each.start_us), "digest": each.digest} for each in closed]
            print_rows(rows, {"hour": "hour (UTC)", "digest": "digest"}, output)


def correct(
    reason: Annotated[str, typer.Option(help="why, for whoever reads it later")],
    start: Annotated[str | None, typer.Option("--from", help="first instant; with --to")] = None,
    end: Annotated[str | None, typer.Option("--to", help="the instant after the last; with --from")] = None,
    node: Annotated[str | None, typer.Option(help="one node's windows only")] = None,
    allocations: Annotated[
        Path | None, typer.Option(help="records of closed hours, in CSV as for `gputab allocations import`")
    ] = None,
    source: Annotated[str | None, typer.Option(help="with --allocations: who says so; default: csv")] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Adjust closed hours to what they come to by now, by late samples or by other records.

    What was closed stays as it was: each adjustment is a row of its own that points at the charge it corrects.
    """
    if not reason.strip():
        raise InputError("cannot correct without a reason: say why by --reason")
    if (start is None) != (end is None) or (start is None) == (allocations is None):
        raise InputError("cannot tell what to correct: give --from and --to, or --allocations")
    if source is not None and allocations is None:
        raise InputError(f"cannot use the source {source!r} without records: give --allocations")
    config, principal, clock = composition.settings(), Principal.local_operator(), composition.clock()
    done: list[Corrected] = []
    with (
        ledger.open_database(config) as database,
        ledger.observer(config, database, principal) as observer,
    ):
        with database.read() as connection:
            known = ledger_store.rated_nodes(connection, principal)
        corrector = Corrector(database, principal, observer)
        if allocations is not None:
            problems = Problems()
            rows = read_records(allocations, problems)
            import_records(
                database,
                principal,
                rows,
                problems,
                source=source or "csv",
                skus=composition.sku_table(config),
                corrects_closed=True,
            )
            with database.read() as connection:
                names = sorted({row.allocation for row in rows})
                places = corrections_store.closed_windows_of(connection, principal, names)
        elif start is not None and end is not None:
            places = corrector.places(Period(parse_instant(start), parse_instant(end)))
        if node is not None and node not in known:
            raise NotFoundError(
                f"cannot find the node {node!r}: use one of {', '.join(map(repr, known)) or 'none yet'}"
            )
        places = [place for place in places if node in (None, place[0])]
        for its_node, start_us in steps(places, "correcting"):
            corrected = corrector.correct(its_node, start_us, reason, clock.now_us())
            if corrected is not None:
                done.append(corrected)
    _print_corrected(done, len(places), output)


def _print_corrected(done: list[Corrected], looked_at: int, output: OutputFormat) -> None:
    rows: list[dict[str, Any]] = [
        {
            "window": format_instant(each.start_us),
            "node": each.node,
            "charge_id": charge.charge_id,
            "tenant": charge.tenant,
            "allocation": f"{charge.allocation}.{charge.ordinal}",
            "dimension": charge.dimension,
            "granted_seconds": charge.granted_seconds,
            "covered_seconds": charge.covered_seconds,
            "amount": f"{format_nano(charge.amount_nano)} {charge.currency}",
            "amount_nano": charge.amount_nano,
        }
        for each in done
        for charge in each.adjusted
    ]
    columns = {
        "window": "hour (UTC)",
        "node": "node",
        "charge_id": "charge",
        "tenant": "tenant",
        "allocation": "allocation",
        "dimension": "dimension",
        "granted_seconds": "granted s",
        "covered_seconds": "covered s",
        "amount": "amount",
    }
    print_rows(rows, columns, output, extra={"windows": looked_at, "corrected": len(done)})
    say(f"{looked_at} closed windows looked at, {len(done)} corrected by {len(rows)} adjustments")
