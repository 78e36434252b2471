"""`gputab meter`: charges out of what was observed and granted."""

import signal
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from threading import Event
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from domain.clock import MICROSECONDS
from domain.errors import InputError, UnavailableError
from domain.money import format_nano
from domain.period import HOUR_US, Period, format_instant, parse_instant
from gputab import composition, ledger
from gputab.commands.balance import balance
from gputab.commands.closing import close, correct
from gputab.commands.proving import charges, diff, explain_charge, verify
from gputab.output import Format, OutputFormat, print_rows, say
from meter.ledger import ledger_store
from meter.ledger.late_store import late_seconds
from meter.ledger.ledger_store import Window
from meter.ledger.unclosed_store import load_skewed
from meter.windows.backlog_store import due_windows
from meter.windows.observing import SKEW_FLAG_US, SKEW_LIMIT_S
from meter.windows.passes import Follower, rate_period
from meter.windows.windows import Outcome, WindowResult
from store.access import Principal
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
    "unpriced_seconds": "unpriced dimension-s",
    "residual_compute": "residual unit-s",
    "residual_vram": "residual byte-s",
    "quarantined_samples": "quarantined",
}
# In a table; in JSON it is the '' that it is everywhere else.
_NO_DEVICE = "(no device)"


@app.command()
def run(
    start: Annotated[str | None, typer.Option("--from", help="first instant; with --to")] = None,
    end: Annotated[str | None, typer.Option("--to", help="the instant after the last; with --from")] = None,
    follow_: Annotated[bool, typer.Option("--follow", help="rate what is due every 5 s until stopped")] = False,
    accept_skew: Annotated[
        bool, typer.Option("--accept-skew", help="settle also hours in which a node's clock was more than 2 s wrong")
    ] = False,
    output: Format = OutputFormat.TABLE,
) -> None:
    """Rate every window that the time touches, each one whole; again, it changes nothing."""
    config, principal, clock = composition.settings(), Principal.local_operator(), composition.clock()
    if (start is None) != (end is None) or follow_ == (start is not None):
        raise InputError("cannot run the meter: give --from and --to, or --follow")
    if accept_skew and follow_:
        raise InputError("cannot accept clock skew unseen: give --accept-skew with --from and --to")
    with ExitStack() as stack:
        database = stack.enter_context(ledger.open_database(config))
        rating = ledger.window_rater(config, database, principal, accepts_skew=accept_skew)
        rater = stack.enter_context(rating)
        if start is None or end is None:
            stopped = Event()
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: stopped.set())
            sink = stack.enter_context(Pusher(composition.sample_store(config)))
            follower = Follower(database, principal, rater, sink, clock, lambda line: say(f"gputab: {line}"))
            follower.follow(_EVERY_S, stopped.is_set)
            return
        period = Period(parse_instant(start), parse_instant(end))
        if period.start_us > clock.now_us():
            raise InputError(
                f"cannot rate from {start!r} on: that is yet to come; now is {format_instant(clock.now_us())}"
            )
        failures: list[str] = []
        rated = rate_period(database, principal, rater, period, clock, failures.append)
        results = _with_progress(rated, period)
    print_rows(_named([_row(result) for result in results], output), _COLUMNS, output)
    for line in failures:
        say(f"gputab: {line}")
    if failures:
        asked = len(results) + len(failures)
        raise UnavailableError(
            f"cannot rate {len(failures)} of {asked} windows: mend what is named above and run again"
        )


@app.command()
def status(output: Format = OutputFormat.TABLE) -> None:
    """How far each node is rated, since when something of it is to be rated, and what that waits for.

    The lag is since what is rated last, while more is due. Unpriced are granted seconds without a rate, of each
    dimension by itself; late are device-seconds of which samples came after the close. A clock was off in as many hours
    by more than 0.5 s, and what is said of their coverage may be as wrong.
    """
    config, principal, now_us = composition.settings(), Principal.local_operator(), composition.clock().now_us()
    with (
        ledger.open_database(config) as database,
        ledger.observer(config, database, principal) as observer,
    ):
        with database.read() as connection:
            due = dict(reversed(due_windows(connection, principal)))
            late = late_seconds(connection, principal)
            skewed = load_skewed(connection, principal, SKEW_FLAG_US)
            rows = [
                {
                    **_node_row(node, ledger_store.load_windows(connection, principal, node=node), due, now_us),
                    "late_seconds": late.get(node, 0),
                    "skewed": skewed.get(node, 0),
                }
                for node in ledger_store.rated_nodes(connection, principal)
            ]
        for row in rows:
            node = row["node"]
            row["waits_for"] = observer.why_open(node, due[node], now_us) if node in due else None
    headings = {
        "node": "node",
        "rated_until": "rated until",
        "lag_seconds": "lag s",
        "oldest_open": "oldest open hour",
        "open": "open",
        "settled": "settled",
        "closed": "closed",
        "unpriced_seconds": "unpriced dimension-s",
        "residual_compute": "residual unit-s",
        "residual_vram": "residual byte-s",
        "late_seconds": "late s",
        "skewed": "clock off",
        "waits_for": "the oldest waits for",
    }
    print_rows(_named(rows, output), headings, output)


app.command()(close)
app.command()(correct)
app.command()(charges)
app.command("explain")(explain_charge)
app.command()(diff)
app.command()(verify)


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
    skewed = sum(result.outcome is Outcome.SKEWED for result in found)
    if skewed:
        say(
            f"{skewed} windows do not settle by themselves: their node's clock was more than {SKEW_LIMIT_S:g} s wrong; "
            "run with --accept-skew to bill them as they are"
        )
    # One that another meter was at work on comes last.
    return sorted(found, key=lambda result: (result.start_us, result.node))


def _node_row(node: str, windows: Sequence[Window], oldest_due: Mapping[str, int], now_us: int) -> dict[str, Any]:
    # Of a window that was only found nothing is rated.
    until_us = max((each.rated_until_us for each in windows if each.rated_until_us > each.start_us), default=None)
    return {
        "node": node,
        "rated_until": format_instant(until_us) if until_us is not None else None,
        # Where nothing is due nothing lags: a node that is gone, records that have ended.
        "lag_seconds": (now_us - until_us) // MICROSECONDS if until_us is not None and node in oldest_due else None,
        "oldest_open": format_instant(oldest_due[node]) if node in oldest_due else None,
        **{state: sum(window.state == state for window in windows) for state in ("open", "settled", "closed")},
        "unpriced_seconds": sum(window.unpriced_seconds for window in windows),
        "residual_compute": _sum(window.residual_compute for window in windows),
        "residual_vram": _sum(window.residual_vram for window in windows),
    }


def _row(result: WindowResult) -> dict[str, Any]:
    window = result.window
    by_currency: dict[str, int] = defaultdict(int)
    for charge in result.charges:
        by_currency[charge.currency] += charge.amount_nano
    return {
        "window": format_instant(result.start_us),
        "node": result.node,
        "state": result.outcome.value,
        "rated_until": format_instant(window.rated_until_us) if window else None,
        "charges": len(result.charges),
        "amount": ", ".join(f"{format_nano(nano)} {currency}" for currency, nano in sorted(by_currency.items())),
        "unpriced_seconds": window.unpriced_seconds if window else None,
        "residual_compute": window.residual_compute if window else None,
        "residual_vram": window.residual_vram if window else None,
        "quarantined_samples": result.quarantined_samples,
        "clock_off_us": result.skew_us,
    }


def _named(rows: Sequence[dict[str, Any]], output: OutputFormat) -> list[dict[str, Any]]:
    """For people, with a name for the node of grants without a device."""
    return [{**row, "node": row["node"] or _NO_DEVICE} if output is OutputFormat.TABLE else row for row in rows]


def _sum(values: Iterable[int | None]) -> int | None:
    """None as soon as one is unknown: a sum of what is known would look complete."""
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)


app.command()(balance)
