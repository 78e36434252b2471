"""A second of a node on a terminal: each card's compute and memory as a line of blocks, and who holds what of it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from domain.capacity import Balance
from domain.clock import MICROSECONDS
from domain.grants import Grant
from domain.period import format_instant
from domain.units import MIB
from gputab.balance_rows import STATES, way_sold
from meter.conservation.fleet import is_foreign
from meter.conservation.second import CardSecond, NodeSecond
from meter.evidence.presence import Presence
from store.capacity import Hold, MigPeriod

# What is granted or held beyond what there is; no state of the seven.
_BEYOND = "beyond"
# State -> (block, the same where the terminal has none, colour). They differ without colour, and darker is more taken.
_LOOKS = {
    "granted": ("█", "#", "green"),
    "held": ("▓", "+", "yellow"),
    _BEYOND: ("!", "!", "bold red"),
    "idle": ("░", ".", "cyan"),
    "stranded": ("▒", "%", "magenta"),
    "drained": ("-", "-", "blue"),
    "lost": ("x", "x", "red"),
    "reserved": ("=", "=", "bright_black"),
}
_NAMES = MappingProxyType({"reserved": "reserved by the driver", _BEYOND: "beyond what there is"})
_SEEN = {
    Presence.SAMPLED: "sampled",
    Presence.LOST: "lost",
    Presence.ABSENT: "not sampled",
    Presence.COLLECTOR_DOWN: "collector down",
    Presence.HOST_UNREACHABLE: "host unreachable",
}
_BLOCKS_MAX = 96
_INDENT = 2
_LABEL_CELLS = 9


def print_second(second: NodeSecond, seen: str) -> None:
    """Print the cards of the second, what no inventory covers, the residual and the legend.

    `seen` says by which evidence a card is lost or not.
    """
    console = Console(highlight=False, emoji=False)
    console.print(Text(f"{second.node} at {format_instant(second.second_s * MICROSECONDS)}", "bold"), soft_wrap=True)
    _flow(console, [Text(f"seen in {seen}"), *_residuals(second)], 0)
    for card in second.cards:
        console.print()
        _print_card(console, card)
    if not second.cards and not second.uncovered:
        _flow(console, [Text("no card of the node is on record in that second")], 0)
    if second.uncovered:
        console.print()
        _flow(console, [Text("not known: granted on a card that no inventory covers", "bold red")], 0)
        _print_grid(console, ((*_grant_cells(each, "units"), Text(each.gpu_uuid or "")) for each in second.uncovered))
    console.print()
    _flow(console, list(_legend(console, second)), 0)


def blocks(balance: Balance, width: int) -> dict[str, int]:
    """How many of `width` blocks each state gets, by largest remainder; whatever there is of a state shows as one.

    What is taken beyond what there is has blocks of its own, so that the line is then longer than the card.
    """
    beyond = max(0, -balance.residual)
    amounts = {state: getattr(balance, state) for state in STATES} | {_BEYOND: beyond}
    # Held before granted: a grant is what somebody pays for.
    from_held = min(beyond, balance.held)
    amounts["held"] -= from_held
    amounts["granted"] -= beyond - from_held
    there = {state: amounts[state] for state in _LOOKS if amounts[state]}
    whole = sum(there.values())
    shares = {state: divmod(amount * width, whole) for state, amount in there.items()}
    cells = {state: floor for state, (floor, _) in shares.items()}
    by_rest = sorted(shares, key=lambda state: shares[state][1], reverse=True)
    for state in by_rest[: width - sum(cells.values())]:
        cells[state] += 1
    for state in cells:
        if not cells[state]:
            cells[state] = 1
            cells[max(cells, key=lambda each: cells[each])] -= 1
    return cells


def _print_card(console: Console, card: CardSecond) -> None:
    device = card.device
    seen = "not observed" if card.presence is None else _SEEN[card.presence]
    heading = [
        Text(f"GPU {device.device_index}", "bold"),
        Text(device.model, "bold"),
        *(Text(each) for each in (device.sku, f"sold {way_sold(device)}", card.there.state.value, seen)),
    ]
    _flow(console, heading, 0)
    console.print(Text(" " * _INDENT + device.gpu_uuid), soft_wrap=True)
    unit = "SMs" if device.mig_enabled else "units"
    if card.balance is None:
        _flow(console, [Text(f"not known: {card.why_unknown}", "bold red")], _INDENT)
    else:
        compute, vram = card.balance
        totals = (f"{compute.total:,} {unit}", _size(vram.total))
        room = console.width - _INDENT - _LABEL_CELLS - 1 - max(map(len, totals))
        width = max(len(_LOOKS), min(room, _BLOCKS_MAX))
        _print_dimension(console, "compute", compute, totals[0], width, {n: f"{n:,}" for n in _amounts(compute)})
        _print_dimension(console, "VRAM", vram, totals[1], width, {n: _size(n) for n in _amounts(vram)})
    _print_grid(console, _holders(card, unit))


def _print_dimension(
    console: Console, label: str, balance: Balance, total: str, width: int, written: Mapping[int, str]
) -> None:
    line = Text(" " * _INDENT + label.ljust(_LABEL_CELLS))
    for state, count in blocks(balance, width).items():
        line.append(_block(console, state) * count, _LOOKS[state][2])
    console.print(line.append(f" {total}"), soft_wrap=True)
    said = [
        Text(f"{state} {written[getattr(balance, state)]}", _LOOKS[state][2])
        for state in STATES
        if getattr(balance, state)
    ]
    residual = Text(f"residual {written[balance.residual]}", "bold red" if balance.residual else "")
    _flow(console, [*said, residual], _INDENT + _LABEL_CELLS)


def _amounts(balance: Balance) -> Iterator[int]:
    yield from (getattr(balance, state) for state in STATES)
    yield balance.residual


def _holders(card: CardSecond, unit: str) -> Iterator[Sequence[Text]]:
    """A line for every instance and who is on it, and then for what is on none that exists."""
    there = card.there
    takes: list[Grant | Hold] = [*there.grants, *there.holds]
    for instance in there.instances:
        on_it = [each for each in takes if each.mig_uuid == instance.mig_uuid]
        place = _place(instance)
        if not on_it:
            word = "foreign: cannot be granted" if is_foreign(instance) else "not granted"
            size = (Text(f"{instance.sm_count:,} {unit}"), Text(_size(instance.vram_bytes)))
            yield (place, *size, Text(word))
        yield from ((place, *_take_cells(each, unit)) for each in on_it)
    uuids = {instance.mig_uuid for instance in there.instances}
    for each in takes:
        if each.mig_uuid not in uuids:
            place = Text("the card") if each.mig_uuid is None else Text(f"no such instance: {each.mig_uuid}", "red")
            yield (place, *_take_cells(each, unit))


def _place(instance: MigPeriod) -> Text:
    last = instance.start_slice + instance.slices - 1
    slices = f"slice {last}" if instance.slices == 1 else f"slices {instance.start_slice}-{last}"
    return Text(f"MIG {instance.gi_id}  {instance.profile}  {slices}")


def _take_cells(take: Grant | Hold, unit: str) -> tuple[Text, ...]:
    if isinstance(take, Grant):
        return _grant_cells(take, unit)
    return Text(f"{take.compute_units:,} {unit}"), Text(_size(take.vram_bytes)), Text("held", _LOOKS["held"][2])


def _grant_cells(grant: Grant, unit: str) -> tuple[Text, ...]:
    who = Text("granted ", _LOOKS["granted"][2]).append(f"{grant.allocation} ({grant.tenant}/{grant.project})", "")
    return Text(f"{grant.compute_units:,} {unit}"), Text(_size(grant.vram_bytes)), who


def _print_grid(console: Console, rows: Iterable[Sequence[Text]]) -> None:
    grid = Table.grid(padding=(0, 2))
    for number, cells in enumerate(rows):
        if not number:
            for column in range(len(cells)):
                grid.add_column(justify="right" if _is_size(cells[column]) else "left", overflow="fold")
        grid.add_row(*cells)
    if grid.rows:
        console.print(Padding(grid, (0, 0, 0, _INDENT)))


def _is_size(cell: Text) -> bool:
    return cell.plain[:1].isdigit()


def _residuals(second: NodeSecond) -> Iterator[Text]:
    left = second.residuals
    if left.compute_unit_seconds is None or left.vram_byte_seconds is None:
        yield Text("residual not known", "bold red")
    else:
        style = "bold red" if left.compute_unit_seconds or left.vram_byte_seconds else ""
        yield Text(f"residual {left.compute_unit_seconds:,} compute units, {_size(left.vram_byte_seconds)}", style)


def _legend(console: Console, second: NodeSecond) -> Iterator[Text]:
    is_beyond = any(each.residual < 0 for card in second.cards if card.balance for each in card.balance)
    for state, (_, _, style) in _LOOKS.items():
        if state != _BEYOND or is_beyond:
            yield Text(_block(console, state), style).append(f" {_NAMES.get(state, state)}", "")


def _block(console: Console, state: str) -> str:
    return _LOOKS[state][1 if console.options.ascii_only else 0]


def _flow(console: Console, phrases: Sequence[Text], indent: int) -> None:
    """Phrases side by side, broken between two of them where the terminal ends; a longer one is wrapped."""
    line = Text()
    for phrase in phrases:
        if line and indent + line.cell_len + 2 + phrase.cell_len > console.width:
            console.print(Padding(line, (0, 0, 0, indent), expand=False))
            line = Text()
        line = Text.assemble(line, "  ", phrase) if line else phrase.copy()
    console.print(Padding(line, (0, 0, 0, indent), expand=False))


def _size(vram_bytes: int) -> str:
    """In MiB as cards are, or to the byte where it is none."""
    mib, rest = divmod(vram_bytes, MIB)
    return f"{vram_bytes:,} B" if rest else f"{mib:,} MiB"
