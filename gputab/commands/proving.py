"""`gputab meter charges`, `explain`, `diff` and `verify`: what charges are made of, and whether that is so."""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from domain.clock import MICROSECONDS
from domain.errors import GputabError
from domain.money import format_nano
from domain.period import HOUR_US, Period, format_instant, parse_instant
from gputab import composition, ledger
from gputab.output import Format, OutputFormat, print_rows, say
from gputab.progress import steps
from meter.ledger import ledger_store
from meter.rating.charges import Charge
from meter.rating.explaining import ExplainedStretch, explain
from meter.windows.comparing import compare_window
from meter.windows.observing import SKEW_FLAG_US
from meter.windows.verifying import Verifier
from store.access import Principal
from store.tenants import load_tenant

From = Annotated[str, typer.Option("--from", help="first instant")]
Until = Annotated[str, typer.Option("--to", help="the instant after the last")]
_CHARGE_COLUMNS = {
    "charge_id": "charge",
    "window": "hour (UTC)",
    "node": "node",
    "tenant": "tenant",
    "allocation": "allocation",
    "dimension": "dimension",
    "billing_date": "date",
    "granted_seconds": "granted s",
    "amount": "amount",
}


def charges(
    start: From,
    end: Until,
    tenant: Annotated[str | None, typer.Option(help="those of one tenant")] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """List the charges of every hour that the time touches, with the names that `explain` takes."""
    asked, principal = _hours(start, end), Principal.local_operator()
    with ledger.open_database(composition.settings()) as database, database.read() as connection:
        if tenant is not None:
            load_tenant(connection, principal, tenant)
        found = ledger_store.load_charges(connection, principal, tenant=tenant, windows_in=asked)
    print_rows([_charge_row(each) for each in found], _CHARGE_COLUMNS, output)


def explain_charge(
    charge_id: Annotated[str, typer.Argument(metavar="CHARGE", help="its name, as `gputab meter charges` lists it")],
    by_second: Annotated[bool, typer.Option("--seconds", help="a line for each second, not for each stretch")] = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Show what a charge is made of, second by second, in quantities that sum to it.

    Needs no raw samples: an hour that has settled is explained by its frozen evidence.
    """
    config, principal = composition.settings(), Principal.local_operator()
    with (
        ledger.open_database(config) as database,
        ledger.observer(config, database, principal) as observer,
    ):
        with database.read() as connection:
            charge = ledger_store.find_charge(connection, principal, charge_id)
        hour = Period(charge.window_start_us, charge.window_start_us + HOUR_US)
        charged = observer.charged(charge.node, hour)
        record = charged.record
        stretches = explain(charge, charged.evidence, record.grants, record.tenants, record.books, by_second=by_second)
    total = sum(each.quantity for each in stretches)
    rate = stretches[0].rate if stretches else None
    amount_nano = rate.quote.amount_nano(total, whole=charge.quantity_whole) if rate else 0
    about = {
        **_charge_row(charge),
        "project": charge.project,
        "sku": charge.sku,
        "price": f"{rate.quote.price} {charge.currency} per {rate.quote.unit}" if rate else "none: unpriced",
        "quantity": charge.quantity,
        "quantity_whole": charge.quantity_whole,
        "amount_nano": charge.amount_nano,
        "evidence_digest": charged.digest,
        "skew_us": charged.skew_us,
        "explained_quantity": total,
        "explained_amount_nano": amount_nano,
    }
    _print_explained(charge, stretches, about, output)
    if (total, amount_nano) != (charge.quantity, charge.amount_nano):
        raise GputabError(
            f"cannot explain the charge {charge_id!r}: evidence, grants and prices make {total} of quantity and "
            f"{amount_nano} nano-{charge.currency}, not what it says; see `gputab meter diff` and `gputab meter verify`"
        )


def diff(start: From, end: Until, output: Format = OutputFormat.TABLE) -> None:
    """Show what rating every hour that the time touches once more would change; change nothing."""
    config, principal, clock = composition.settings(), Principal.local_operator(), composition.clock()
    rows: list[dict[str, Any]] = []
    new_evidence = 0
    with (
        ledger.open_database(config) as database,
        ledger.observer(config, database, principal) as observer,
    ):
        with database.read() as connection:
            windows = ledger_store.load_windows(connection, principal, _hours(start, end))
        for window in steps(windows, "comparing"):
            compared = compare_window(database, principal, observer, window.node, window.start_us, clock.now_us())
            new_evidence += compared.is_new_evidence and compared.frozen is not None
            rows += [
                {**_charge_row(each), "state": window.state, "amount_nano": each.amount_nano}
                for each in compared.changes
            ]
    print_rows(rows, {**_CHARGE_COLUMNS, "state": "state"}, output, extra={"windows": len(windows)})
    say(
        f"{len(windows)} windows compared: {len(rows)} charges would change; there is more evidence by now of "
        f"{new_evidence} windows that settled; what is closed only `gputab meter correct` adjusts"
    )


def verify(
    start: Annotated[str | None, typer.Option("--from", help="first instant; default: the first hour there is")] = None,
    end: Annotated[str | None, typer.Option("--to", help="the instant after the last; default: now")] = None,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Recompute settled and closed hours from their evidence, and check digests, chain and daily sums."""
    config, principal, clock = composition.settings(), Principal.local_operator(), composition.clock()
    now_us = clock.now_us()
    asked = Period(parse_instant(start) if start is not None else 0, parse_instant(end) if end is not None else now_us)
    with (
        ledger.open_database(config) as database,
        ledger.observer(config, database, principal) as observer,
    ):
        verifier = Verifier(database, principal, observer)
        windows = verifier.windows(asked)
        found = [problem for window in steps(windows, "verifying") for problem in verifier.verify_window(window)]
        found += [*verifier.verify_chain(), *verifier.verify_days()]
    rows = [{"where": each.where, "what": each.what} for each in found]
    if rows or output is OutputFormat.JSON:
        print_rows(rows, {"where": "where", "what": "what is wrong"}, output, extra={"windows": len(windows)})
    if rows:
        raise GputabError(f"cannot vouch for the ledger: {len(rows)} problems in {len(windows)} windows; see above")
    say(f"{len(windows)} windows are what their evidence, grants and prices make them; the chain is whole")


def _hours(start: str, end: str) -> Period:
    asked = Period(parse_instant(start), parse_instant(end))
    return Period(asked.start_us // HOUR_US * HOUR_US, asked.end_us)


def _charge_row(charge: Charge) -> dict[str, Any]:
    return {
        "charge_id": charge.charge_id,
        "window": format_instant(charge.window_start_us),
        "node": charge.node,
        "tenant": charge.tenant,
        "allocation": f"{charge.allocation}.{charge.ordinal}",
        "dimension": charge.dimension,
        "billing_date": charge.billing_date,
        "granted_seconds": charge.granted_seconds,
        "amount": f"{format_nano(charge.amount_nano)} {charge.currency}",
    }


def _change_row(change: Charge, state: str) -> dict[str, Any]:
    """The numbers are differences."""
    return {
        **_charge_row(change),
        "state": state,
        "covered_seconds": change.covered_seconds,
        "quantity": change.quantity,
        "amount_nano": change.amount_nano,
    }


def _print_explained(
    charge: Charge, stretches: Iterable[ExplainedStretch], about: dict[str, Any], output: OutputFormat
) -> None:
    rows = list(_stretch_rows(stretches))
    columns = {
        "from": "from (UTC)",
        "seconds": "seconds",
        "observed": "observed",
        "gap": "class",
        "price": "price",
        "used_bytes": "used bytes",
        "busy_millionths": "busy 1/10^6",
        "owners": "owners",
        "quarantined": "quarantined",
        "quantity": "quantity",
        "sum": "sum",
    }
    if output is OutputFormat.JSON:
        print_rows(rows, columns, output, extra=about)
        return
    for name in ("charge_id", "window", "node", "tenant", "project", "allocation", "sku", "dimension", "price"):
        typer.echo(f"{name.replace('_', ' '):<16}{about[name] or '-'}")
    print_rows(rows, columns, output)
    whole = f" / {charge.quantity_whole:,} to the GPU-second" if charge.dimension == "gpu" else " byte-seconds"
    typer.echo(f"{'quantity':<16}{about['explained_quantity']:,}{whole}")
    typer.echo(f"{'amount':<16}{format_nano(about['explained_amount_nano'])} {charge.currency}")
    if (about["skew_us"] or 0) > SKEW_FLAG_US:
        typer.echo(f"{'clock':<16}off by {about['skew_us'] / MICROSECONDS:g} s: its seconds may be as wrong")
    typer.echo(f"{'evidence':<16}{about['evidence_digest'] or 'not frozen yet: read from the store'}")


def _stretch_rows(stretches: Iterable[ExplainedStretch]) -> Iterator[dict[str, Any]]:
    total = 0
    for each in stretches:
        total += each.quantity
        yield {
            "from": format_instant(each.start_s * MICROSECONDS),
            "seconds": each.seconds,
            "observed": "no device" if each.presence is None else each.presence.name.lower(),
            "gap": each.gap.value,
            "price": f"{each.rate.quote.price} per {each.rate.quote.unit}" if each.rate else None,
            "used_bytes": each.used_bytes,
            "busy_millionths": each.busy_millionths,
            "owners": ", ".join(each.owners),
            "quarantined": each.quarantined or None,
            "quantity": each.quantity,
            "sum": total,
        }
