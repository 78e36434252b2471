"""The bill on a terminal: a row for each card, and under it what a person should know of how it came about."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Literal, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from domain.clock import MICROSECONDS
from domain.money import format_nano
from domain.period import HOUR_US, Period, format_instant
from domain.units import GIB, format_gib
from gputab.billed_log import BilledCard, BilledLog, names_of
from gputab.load_line import load_line
from gputab.log_usage import covered_by_card_us

_SHOWN_REFUSALS = 3
_LINE_HEADING = "over time"
_LINE_CELLS_MIN, _LINE_CELLS_MAX = len(_LINE_HEADING), 40
# What a column takes beside its content: padding and rule.
_FRAME_CELLS = 2
_WIDEST = 1_000
_UNKNOWN = "-"


def print_bill(logs: Sequence[BilledLog], currency: str | None) -> None:
    """Print the cards of each log, and what all of them come to; `currency` is None where no prices were given."""
    console = Console(highlight=False, emoji=False)
    names = names_of([log.path for log in logs])
    for log in logs:
        console.print(Text(_plain(names[log.path]), "bold"), soft_wrap=True)
        console.print(Text(_heading(log)), soft_wrap=True)
        _print_table(console, log, currency)
        for line in refusals(log):
            console.print(Text(f"  {line}", "yellow"), soft_wrap=True)
        for line in remarks(log):
            console.print(Text(f"  {line}"), soft_wrap=True)
        console.print()
    if len(logs) > 1:
        console.print(Text(_total(logs, currency), "bold"), soft_wrap=True)


def refusals(log: BilledLog) -> Iterator[str]:
    """The first refused rows, and how many more there are."""
    for row in log.refused[:_SHOWN_REFUSALS]:
        yield f"line {row.line:,} refused: {row.reason}"
    if len(log.refused) > _SHOWN_REFUSALS:
        yield f"and {len(log.refused) - _SHOWN_REFUSALS:,} more rows refused; --format json lists them"


def remarks(log: BilledLog) -> Iterator[str]:
    """What a person should know of the figures, beside the refused rows."""
    equal_times = sum(card.usage.equal_times for card in log.cards)
    if equal_times:
        yield f"with the time of another reading of their card: {equal_times:,}, of which the last counts"
    out_of_order = sum(card.usage.out_of_order for card in log.cards)
    if out_of_order:
        yield f"earlier than the row before of their card: {out_of_order:,}, and all are sorted by time"
    once = [card.usage.name for card in log.cards if not card.usage.span_us]
    if once:
        yield f"GPU {_listed(once)}: read at one time only, and a reading covers the time until the next; log in a loop"
    for card in log.cards:
        usage = card.usage
        if usage.has_busy and usage.busy_unknown_us:
            yield f"GPU {_plain(usage.name)}: nothing says for {_duration(usage.busy_unknown_us)} how busy it was"
        if usage.has_vram and usage.vram_unknown_us:
            yield f"GPU {_plain(usage.name)}: nothing says for {_duration(usage.vram_unknown_us)} what VRAM was in use"
    if log.parts:
        yield f"GPU {_listed(sorted(log.parts))}: part of a card that has a row of its own and counts for all of it"
    for reason in sorted({card.amount.reason for card in log.summed if card.amount and card.amount.reason}):
        names = [card.usage.name for card in log.summed if card.amount and card.amount.reason == reason]
        yield f"GPU {_listed(names)}: no amount, since {reason}"
    yield from log.notes


class _Column(NamedTuple):
    """A column of the table; one that no card fills is left out."""

    heading: str
    cell: Callable[[BilledCard], str]
    total: str = ""
    style: str = ""
    is_text: bool = False


def _columns(log: BilledLog, currency: str | None, line_cells: int) -> Iterator[_Column]:
    usages = [card.usage for card in log.cards]
    summed = [card.usage for card in log.summed]
    covered_us = sum(covered_by_card_us(usages))
    busy_us = _sum([usage.busy_us for usage in summed])
    busy_known_us = sum(usage.covered_us - usage.busy_unknown_us for usage in summed)
    yield _Column("GPU", lambda card: _plain(card.usage.name), "all", is_text=True)
    if len({usage.card.model for usage in usages}) > 1:
        yield _Column("model", lambda card: _plain(card.usage.card.model or _UNKNOWN), is_text=True)
    yield _Column("covered", lambda card: _duration(card.usage.covered_us), _duration(covered_us))
    yield _Column("of span", lambda card: _percent(card.usage.covered_us, card.usage.span_us))
    yield _Column("busy", lambda card: _duration(card.usage.busy_us), _duration(busy_us))
    yield _Column("load", _load, _percent(busy_us, busy_known_us))
    if line_cells:
        span = _span(log)
        yield _Column(_LINE_HEADING, lambda card: load_line(card.usage, span, line_cells), style="green", is_text=True)
    yield _Column("VRAM GiB", _mean_gib)
    yield _Column("peak", lambda card: _gib(card.usage.vram_peak_bytes))
    byte_us = _sum([usage.vram_byte_us for usage in summed])
    yield _Column("GiB-h", lambda card: _gib_hours(card.usage.vram_byte_us), _gib_hours(byte_us))
    yield _Column("gaps", lambda card: _gaps(card.usage.gaps), style="yellow")
    if currency:
        total = _total_amount(log.summed)
        decimals = max(len(text.partition(".")[2]) for text in (total, *map(_amount, log.cards)))
        yield _Column(currency, lambda card: _padded(_amount(card), decimals), _padded(total, decimals), style="bold")


def _print_table(console: Console, log: BilledLog, currency: str | None) -> None:
    """As wide as what it holds, and with a line of the load as long as there is room for."""
    narrow_cells = _width(console, _table(log, currency, 0))
    room = console.width - narrow_cells - _FRAME_CELLS
    has_load = any(card.usage.has_busy and card.usage.held for card in log.cards)
    table = _table(log, currency, min(room, _LINE_CELLS_MAX) if has_load and room >= _LINE_CELLS_MIN else 0)
    width = console.width
    # A figure that is cut short is of no use: a narrow terminal wraps its lines.
    console.width = max(width, narrow_cells)
    console.print(table)
    console.width = width


def _table(log: BilledLog, currency: str | None, line_cells: int) -> Table:
    has_total = len(log.cards) > 1
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_footer=has_total, footer_style="bold")
    rows: list[list[str]] = [[] for _ in log.cards]
    for column in _columns(log, currency, line_cells):
        cells = [column.cell(card) for card in log.cards]
        if all(cell == _UNKNOWN for cell in cells):
            continue
        justify: Literal["left", "right"] = "left" if column.is_text else "right"
        table.add_column(column.heading, column.total, justify=justify, style=column.style, no_wrap=True)
        for row, cell in zip(rows, cells, strict=True):
            row.append(cell)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _width(console: Console, table: Table) -> int:
    return table.__rich_measure__(console, console.options.update(width=_WIDEST)).maximum


def _total(logs: Sequence[BilledLog], currency: str | None) -> str:
    covered_us = [time_us for log in logs for time_us in covered_by_card_us(card.usage for card in log.cards)]
    said = f"{len(logs)} logs, {_counted(len(covered_us), 'card')}: {_duration(sum(covered_us))} covered"
    if currency is None:
        return said
    cards = [card for log in logs for card in log.summed]
    lacking = sum(card.amount is None or card.amount.nano is None for card in cards)
    if lacking:
        return f"{said}, no total without the amount of {_counted(lacking, 'card')}"
    return f"{said}, {_total_amount(cards)} {currency}"


def _heading(log: BilledLog) -> str:
    usages = [card.usage for card in log.cards]
    models = {usage.card.model for usage in usages}
    (model,) = models if len(models) == 1 else (None,)
    count, instances = len(covered_by_card_us(usages)), sum(usage.card.mig_uuid is not None for usage in usages)
    cards = f"{count} x {_plain(model)}" if model else _counted(count, "card")
    if instances:
        cards += f" with {_counted(instances, 'MIG instance')}"
    readings = _counted(sum(usage.readings for usage in usages), "reading")
    span = _span(log)
    first, last = _second(span.start_us), _second(span.end_us)
    if first.split()[0] == last.split()[0]:
        last = last.split()[1]
    return f"{cards}, {readings}, {first} to {last} UTC"


def _span(log: BilledLog) -> Period:
    spans = [card.usage.span for card in log.cards]
    return Period(min(span.start_us for span in spans), max(span.end_us for span in spans))


def _second(instant_us: int) -> str:
    return format_instant(instant_us // MICROSECONDS * MICROSECONDS).rstrip("Z").replace("T", " ")


def _duration(time_us: int | Fraction | None) -> str:
    """Seconds with decimals below a minute, else hours, minutes and seconds."""
    if time_us is None:
        return _UNKNOWN
    if time_us < 60 * MICROSECONDS:
        return f"{float(time_us) / MICROSECONDS:.3f} s"
    seconds = round(time_us / MICROSECONDS)
    return f"{seconds // 3_600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _percent(part: int | Fraction | None, whole: int) -> str:
    return _UNKNOWN if part is None or not whole else f"{float(100 * part / whole):.1f} %"


def _load(card: BilledCard) -> str:
    return _percent(card.usage.busy_us, card.usage.covered_us - card.usage.busy_unknown_us)


def _mean_gib(card: BilledCard) -> str:
    byte_us = card.usage.vram_byte_us
    known_us = card.usage.covered_us - card.usage.vram_unknown_us
    return _UNKNOWN if byte_us is None or not known_us else format_gib(Fraction(byte_us, known_us))


def _gib(vram_bytes: int | None) -> str:
    return _UNKNOWN if vram_bytes is None else format_gib(vram_bytes)


def _gib_hours(byte_us: int | Fraction | None) -> str:
    return _UNKNOWN if byte_us is None else f"{float(Fraction(byte_us, GIB * HOUR_US)):,.3f}"


def _gaps(gaps: Sequence[Period]) -> str:
    if not gaps:
        return _UNKNOWN
    return f"{len(gaps):,}, {_duration(sum(gap.end_us - gap.start_us for gap in gaps))}"


def _amount(card: BilledCard) -> str:
    return _UNKNOWN if card.amount is None or card.amount.nano is None else format_nano(card.amount.nano)


def _total_amount(cards: Sequence[BilledCard]) -> str:
    """Of all cards; unknown where that of one is."""
    amounts = [card.amount.nano if card.amount else None for card in cards]
    known = [amount for amount in amounts if amount is not None]
    return format_nano(sum(known)) if len(known) == len(amounts) else _UNKNOWN


def _padded(amount: str, decimals: int) -> str:
    """With that many decimals, so that a column of amounts can be read."""
    whole, point, fraction = amount.partition(".")
    return f"{whole}{point}{fraction:0<{decimals}}" if point else amount


def _sum(quantities: Sequence[int | Fraction | None]) -> int | Fraction | None:
    """Of all of them; unknown where one is."""
    known = [quantity for quantity in quantities if quantity is not None]
    return sum(known) if len(known) == len(quantities) else None


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(_plain, names))


def _plain(text: str) -> str:
    """What a log calls something, without what would steer the terminal."""
    return "".join(character if character.isprintable() else "?" for character in text)
