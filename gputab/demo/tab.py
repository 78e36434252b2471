"""The live tab: one line a card, with who is on it and what that has come to so far."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from allocator.bodies import AllocationBody, CardBody
from domain.money import NANO
from domain.units import GIB
from domain.watermarks import reached

_MARK_STYLES = {"warning": "yellow", "high": "bold yellow", "critical": "bold red"}
_BAR_CELLS = 10


@dataclass(frozen=True, slots=True)
class CardNow:
    """What a card said last: ratio 0..1, bytes; None where it did not say. `is_up` None: not heard of."""

    busy_ratio: float | None = None
    used_bytes: int | None = None
    is_up: bool | None = None


@dataclass(frozen=True, slots=True)
class TabView:
    """One picture: cards in order, what each said, who holds what, and nano-units by allocation,
    and by tenant in the present hour."""

    cards: Sequence[CardBody]
    now: Mapping[str, CardNow]
    allocations: Sequence[AllocationBody]
    by_allocation: Mapping[str, int]
    by_tenant: Mapping[str, int]
    currency: str
    remark: str


def draw(view: TabView) -> Group:
    """The table with a line of totals under it."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("card", no_wrap=True)
    table.add_column("SKU", no_wrap=True)
    table.add_column("tenant")
    table.add_column("SM", justify="right", no_wrap=True)
    table.add_column("VRAM used / usable, GiB", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column(f"so far, {view.currency}", justify="right", no_wrap=True)
    for card in view.cards:
        table.add_row(*_cells(card, view))
    sums = ", ".join(f"{tenant} {_money(nano)}" for tenant, nano in sorted(view.by_tenant.items()))
    granted = sum(1 for card in view.cards if card.grants)
    line = f"{granted} of {len(view.cards)} cards in use  |  this hour, {view.currency}: {sums or 'nothing billed yet'}"
    return Group(table, Text(line), Text(view.remark, style="dim"))


def _cells(card: CardBody, view: TabView) -> Iterable[Text]:
    now = view.now.get(card.gpu_uuid, CardNow())
    on_card = [(each, grant) for each in view.allocations for grant in each.grants if grant.gpu_uuid == card.gpu_uuid]
    tenants = ", ".join(dict.fromkeys(each.tenant for each, _ in on_card))
    state, style = _state(card, now, is_held=bool(on_card))
    spent = sum(view.by_allocation.get(each.allocation, 0) // len(each.grants) for each, _ in on_card)
    yield Text(f"{card.node}/{card.device_index}")
    yield Text(card.sku + (" MIG" if card.mig_enabled else ""))
    yield Text(tenants or "-", style="" if tenants else "dim")
    yield Text("-" if now.busy_ratio is None else f"{now.busy_ratio:4.0%}")
    yield _vram(now.used_bytes, card.vram_usable_bytes)
    yield Text(state, style=style)
    yield Text(_money(spent) if on_card else "-")


def _state(card: CardBody, now: CardNow, *, is_held: bool) -> tuple[str, str]:
    if now.is_up is False:
        return "LOST", "bold red"
    if card.state.value != "ok":
        return card.state.value, "yellow"
    mark = None if now.used_bytes is None else reached(now.used_bytes / card.vram_usable_bytes)
    if mark is not None:
        return f"VRAM {mark.level}", _MARK_STYLES[mark.level]
    if now.is_up is None:
        return "no sample", "dim"
    if not is_held:
        return "free", "dim"
    return ("rented", "green") if card.compute_units_free == 0 else ("in part", "cyan")


def _vram(used_bytes: int | None, usable_bytes: int) -> Text:
    if used_bytes is None:
        return Text("-", style="dim")
    ratio = used_bytes / usable_bytes
    filled = min(_BAR_CELLS, round(ratio * _BAR_CELLS))
    mark = reached(ratio)
    style = "green" if mark is None else _MARK_STYLES[mark.level]
    bar = Text("█" * filled, style=style) + Text("░" * (_BAR_CELLS - filled), style="dim")
    return bar + Text(f" {used_bytes / GIB:5.1f} / {usable_bytes / GIB:4.1f}")


def _money(amount_nano: int) -> str:
    return f"{amount_nano / NANO:,.4f}"
