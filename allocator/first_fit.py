"""Placement: the first node, in name order, that can take the request; on it the first cards by index."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from allocator.request import AllocationRequest
from allocator.stock import Card, StockInstance
from domain.capacity import OUT_OF_SERVICE
from domain.errors import CapacityError
from domain.grants import GrantKind


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a part of a request goes, and what it takes there; `instance` is set for the kind mig only."""

    card: Card
    instance: StockInstance | None
    compute_units: int
    vram_bytes: int


def choose(request: AllocationRequest, cards: Sequence[Card]) -> list[Slot]:
    """The slots of the request, all on one node. `cards` are in (node, index) order.

    Raises CapacityError with a reason for every node where none can take it now.
    """
    reasons: dict[str, str] = {}
    for node, on_node in groupby(cards, key=lambda card: card.node):
        slots, refused = _offers(request, on_node)
        if len(slots) >= request.count:
            return slots[: request.count]
        reasons[node] = _explain(request, len(slots), refused)
    if not reasons:
        raise CapacityError("cannot grant anything: no card is known; let a collector report its inventory", {})
    raise CapacityError(
        f"cannot grant {_describe(request)} now: none of {len(reasons)} nodes can take it; release something, ask "
        "for less, or try again later",
        reasons,
    )


def _offers(request: AllocationRequest, cards: Iterable[Card]) -> tuple[list[Slot], Counter[str]]:
    """What the cards offer, and why the others do not."""
    slots: list[Slot] = []
    refused: Counter[str] = Counter()
    for card in cards:
        offer = _why_closed(request, card) or _OFFER[request.kind](request, card)
        if isinstance(offer, Slot):
            slots.append(offer)
        else:
            refused[offer] += 1
    return slots, refused


def _why_closed(request: AllocationRequest, card: Card) -> str | None:
    """Why the card takes nothing of this request, whatever is free on it."""
    if not request.takes_model(card.model):
        return f"model is {card.model}"
    if not request.takes_sku(card.sku):
        return f"SKU is {card.sku}"
    if card.is_silent:
        return "no heartbeat of the node"
    if card.state in OUT_OF_SERVICE:
        return f"{card.state} ({card.state_reason})" if card.state_reason else card.state.value
    if min(card.free) < 0:
        return "more is granted than the card has"
    return None


def _whole(_request: AllocationRequest, card: Card) -> Slot | str:
    if card.mig_enabled:
        return "in MIG mode"
    if card.takes:
        return "in use"
    return Slot(card, None, card.compute_units, card.vram_usable_bytes)


def _share(request: AllocationRequest, card: Card) -> Slot | str:
    if card.mig_enabled:
        return "in MIG mode"
    if card.share_grain is None or request.milli_gpu is None:
        return "not sold in shares"
    if any(take.mig_uuid is not None for take in card.takes):
        return "a MIG instance of it is still held"
    vram_bytes = card.share_vram_bytes(request.milli_gpu) if request.vram_bytes is None else request.vram_bytes
    if request.milli_gpu < card.share_grain.min_milli:
        return f"sold from {card.share_grain.min_milli} milli-GPU on"
    if vram_bytes < card.share_grain.min_vram_bytes:
        return f"sold from {card.share_grain.min_vram_bytes} bytes of VRAM on"
    # A card without MIG has as many units as a whole has thousandths, so a share is a whole number of units.
    if request.milli_gpu > card.free.compute_units:
        return "too little compute free"
    if vram_bytes > card.free.vram_bytes:
        return "too little VRAM free"
    return Slot(card, None, request.milli_gpu, vram_bytes)


def _mig(request: AllocationRequest, card: Card) -> Slot | str:
    if not card.mig_enabled:
        return "not in MIG mode"
    for instance in card.free_instances:
        if instance.profile == request.mig_profile:
            return Slot(card, instance, instance.sm_count, instance.vram_bytes)
    if any(each.profile == request.mig_profile and each.is_foreign for each in card.instances):
        return "the instance is foreign: adopt it first"
    if any(each.profile == request.mig_profile for each in card.instances):
        return "every such instance is in use"
    return "no such instance exists"


_OFFER = {GrantKind.WHOLE: _whole, GrantKind.SHARE: _share, GrantKind.MIG: _mig}


def _explain(request: AllocationRequest, fitting: int, refused: Mapping[str, int]) -> str:
    why = "; ".join(f"{count} × {reason}" for reason, count in sorted(refused.items()))
    return f"needs {request.count}, has {fitting}: {why or 'no further card'}"


def _describe(request: AllocationRequest) -> str:
    if request.kind is GrantKind.SHARE:
        return f"a share of {request.milli_gpu} milli-GPU"
    if request.kind is GrantKind.MIG:
        return f"a MIG instance {request.mig_profile!r}"
    return "a whole card" if request.count == 1 else f"{request.count} whole cards of one node"
