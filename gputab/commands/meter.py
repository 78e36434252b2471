"""`gputab meter`: charges out of what was observed and granted."""

import signal
from collections.abc import Iterable
from contextlib import ExitStack
from threading import Event
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from domain.errors import InputError
from domain.money import format_nano
from domain.period import HOUR_US, Period, format_instant, parse_instant
from domain.samples import SampleRun
from gputab import composition
from gputab.output import Format, OutputFormat, print_rows, say
from meter import ledger_store
from meter.passes import follow, rate_due, rate_period
from meter.windows import WindowResult
from store.access import Principal
from victoriametrics.encode import encode
from victoriametrics.push import Pusher

app = typer.Typer(help="Rate windows: evidence x grants x prices -> charges.", no_args_is_help=True)

_EVERY_S = 5.0
_COLUMNS = {
    "window": "hour (UTC)",
    "node": "node",
    "state": "state",
    "rated_until": "rated until",
    "charges": "charges",
    "amount": "amount",
    "unpriced_seconds": "unpriced s",
    "residual": "residual",
}


class _PushedSamples:
    """The meter's own series, to VictoriaMetrics."""

    def __init__(self, pusher: Pusher) -> None:
        self._pusher = pusher

    def send(self, runs: Iterable[SampleRun]) -> None:
        """Push the samples."""
        self._pusher.push(encode(runs))


@app.command()
def run(
    start: Annotated[str | None, typer.Option("--from", help="first instant; with --to")] = None,
    end: Annotated[str | None, typer.Option("--to", help="the instant after the last; with --from")] = None,
    follow_: Annotated[bool, typer.Option("--follow", help="rate what is due every 5 s until stopped")] = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Rate every window that the time touches, each one whole; again, it changes nothing."""
    config, principal, clock = composition.settings(), Principal.local_operator(), composition.clock()
    if follow_ == (start is not None and end is not None):
        raise InputError("cannot run the meter: give --from and --to, or --follow")
    with ExitStack() as stack:
        database = stack.enter_context(composition.open_database(config))
        rater = stack.enter_context(composition.window_rater(config, database, principal))
        if follow_:
            stopped = Event()
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: stopped.set())
            sink = _PushedSamples(stack.enter_context(Pusher(config.victoriametrics_url)))
            follow(
                lambda now_us: rate_due(database, principal, rater, now_us),
                sink,
                clock,
                every_s=_EVERY_S,
                is_stopped=stopped.is_set,
                report=lambda message: say(f"gputab: {message}"),
            )
            return
        period = Period(parse_instant(str(start)), parse_instant(str(end)))
        results = _with_progress(rate_period(database, principal, rater, period, clock.now_us()), period)
    print_rows([_row(result) for result in results], _COLUMNS, output)


@app.command()
def status(output: Format = OutputFormat.TABLE) -> None:
    """How far each node is rated, and what keeps windows open."""
    principal = Principal.local_operator()
    now_us = composition.clock().now_us()
    with composition.open_database(composition.settings()) as database, database.read() as connection:
        rows = []
        for node in sorted(ledger_store.nodes_to_meter(connection, principal)):
            windows = ledger_store.load_windows(connection, principal, node=node)
            due = ledger_store.hours_to_rate(connection, principal, node, now_us)
            last = windows[-1] if windows else None
            rows.append(
                {
                    "node": node or "(no device)",
                    "rated_until": format_instant(last.rated_until_us) if last else None,
                    "lag_seconds": (now_us - last.rated_until_us) // 1_000_000 if last else None,
                    "oldest_open": format_instant(due[0]) if due else None,
                    "open": len(due),
                    "settled": sum(window.state == "settled" for window in windows),
                    "closed": sum(window.state == "closed" for window in windows),
                    "unpriced_seconds": sum(window.unpriced_seconds for window in windows),
                    "residual_compute": _sum(window.residual_compute for window in windows),
                    "residual_vram": _sum(window.residual_vram for window in windows),
                }
            )
    headings = {
        "node": "node",
        "rated_until": "rated until",
        "lag_seconds": "lag s",
        "oldest_open": "oldest open hour",
        "open": "open",
        "settled": "settled",
        "closed": "closed",
        "unpriced_seconds": "unpriced s",
        "residual_compute": "residual unit-s",
        "residual_vram": "residual byte-s",
    }
    print_rows(rows, headings, output)


def _with_progress(results: Iterable[WindowResult], period: Period) -> list[WindowResult]:
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("rating", total=max(1, (period.end_us - period.start_us) // HOUR_US))
        found = []
        for result in results:
            found.append(result)
            progress.update(task, completed=(result.start_us - period.start_us) // HOUR_US)
    kept = sum(result.kept_frozen for result in found)
    if kept:
        say(f"{kept} settled windows were rated from their frozen evidence: the store now holds less than that")
    return found


def _row(result: WindowResult) -> dict[str, Any]:
    window = result.window
    currencies = sorted({charge.currency for charge in result.charges})
    amounts = [
        f"{format_nano(sum(charge.amount_nano for charge in result.charges if charge.currency == currency))} {currency}"
        for currency in currencies
    ]
    known = window is not None and window.residual_compute is not None and window.residual_vram is not None
    return {
        "window": format_instant(result.start_us),
        "node": result.node or "(no device)",
        "state": result.outcome.value,
        "rated_until": format_instant(window.rated_until_us) if window else None,
        "charges": len(result.charges),
        "amount": ", ".join(amounts) or None,
        "unpriced_seconds": window.unpriced_seconds if window else None,
        "residual": (window.residual_compute or window.residual_vram) if window and known else "unknown",
    }


def _sum(values: Iterable[int | None]) -> int | None:
    """None as soon as one is unknown: a sum of what is known would look complete."""
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total
