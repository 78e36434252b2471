"""`gputab meter balance`: in which of seven states each part of a node's cards was in one second."""

from typing import Annotated

import typer

from domain.clock import MICROSECONDS
from domain.errors import InputError, NotFoundError
from domain.period import CALENDAR_END_US, HOUR_US, Period, ceil_second, format_instant, parse_instant
from gputab import composition, ledger
from gputab.balance_blocks import print_second
from gputab.balance_rows import card_rows, second_columns
from gputab.output import Format, OutputFormat, print_rows
from meter.conservation.second import NodeSecond, node_second
from meter.ledger.ledger_store import NO_NODE
from meter.windows.observing import Observer
from store.access import Principal
from store.capacity import load_device_periods
from store.database import Database

_EVER = Period(0, CALENDAR_END_US)
_NAMED_NODES = 10
_SEEN = {"frozen": "the frozen evidence of its hour", "store": "what the store has so far"}


def balance(
    node: Annotated[str, typer.Option(help="the node whose cards to show")],
    at: Annotated[str, typer.Option(help="an instant of the second, ISO 8601 with offset or epoch seconds")],
    output: Format = OutputFormat.TABLE,
) -> None:
    """Show the cards of a node in one second: what was granted, held, idle, stranded, drained, lost or reserved.

    What was lost is told by the frozen evidence of an hour that has settled, else by what the store has so far.
    """
    second_s, now_us = parse_instant(at) // MICROSECONDS, composition.clock().now_us()
    if second_s * MICROSECONDS > now_us:
        raise InputError(f"cannot balance the second of {at!r}: it is yet to come; now is {format_instant(now_us)}")
    if node == NO_NODE:
        raise InputError("cannot balance a node without a name: grants without a device are on no card; give --node")
    config, principal = composition.settings(), Principal.local_operator()
    with (
        ledger.open_database(config) as database,
        ledger.observer(config, database, principal) as observer,
    ):
        second, seen = _read(database, principal, observer, node, second_s)
    if output is OutputFormat.JSON:
        print_rows(card_rows(second), {}, output, extra={**second_columns(second), "evidence": seen})
    else:
        print_second(second, _SEEN[seen])


def _read(
    database: Database, principal: Principal, observer: Observer, node: str, second_s: int
) -> tuple[NodeSecond, str]:
    """The second, and by which evidence."""
    second_us = second_s * MICROSECONDS
    hour_us = second_us // HOUR_US * HOUR_US
    hour = Period(hour_us, hour_us + HOUR_US)
    record = observer.record(node, hour)
    # A grant on a card that nobody reported is an answer too: its capacity is not known.
    if not record.grants:
        _refuse_unrecorded(database, principal, node, second_s)
    if record.frozen is not None:
        return node_second(record.fleet, observer.frozen(record.frozen, node, hour), second_s), "frozen"
    observed = observer.observe(node, Period(second_us, second_us + MICROSECONDS), record)
    return node_second(record.fleet, observed.evidence, second_s), "store"


def _refuse_unrecorded(database: Database, principal: Principal, node: str, second_s: int) -> None:
    """Raise NotFoundError for a node of which no card was ever on record, InputError for a second before the first."""
    with database.read() as connection:
        periods = load_device_periods(connection, principal, _EVER, node=node)
        known = {each.node for each in load_device_periods(connection, principal, _EVER)} if not periods else set()
    if not periods:
        if not known:
            raise NotFoundError(
                f"cannot find a card of the node {node!r}: no node has reported its cards yet; start its collector"
            )
        named = [*sorted(known)[:_NAMED_NODES], *(["..."] if len(known) > _NAMED_NODES else [])]
        raise NotFoundError(f"cannot find a card of the node {node!r}: use one of {', '.join(named)}")
    first_s = min(ceil_second(each.period.start_us) for each in periods)
    if second_s < first_s:
        at, since = (format_instant(each * MICROSECONDS) for each in (second_s, first_s))
        raise InputError(
            f"cannot balance {node!r} at {at}: its first card is on record since {since}; ask from then on"
        )
