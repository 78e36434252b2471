"""What is sold at all: a wish beyond it is refused for good, since waiting would not help."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from allocator.request import AllocationRequest
from allocator.stock import Card
from domain.errors import InputError
from domain.grants import GrantKind
from domain.mig import geometry_of
from domain.units import MIB


class Product(NamedTuple):
    """What some card is, or has been: its model as the driver names it, and its SKU without a profile."""

    model: str
    sku: str


def refuse_impossible(request: AllocationRequest, cards: Sequence[Card], known: Collection[Product]) -> None:
    """Raise InputError where no card could take the request even if all were free.

    `known` is what every card ever was; where it is empty nothing can be told yet, and nothing is refused.
    """
    if not known:
        return
    _refuse_unknown(request, known)
    fitting = [card for card in cards if request.takes_model(card.model) and request.takes_sku(card.sku)]
    if request.kind is GrantKind.SHARE:
        _refuse_size(request, fitting)
    if request.kind is GrantKind.MIG:
        _refuse_profile(request, fitting)
    most = max(Counter(card.node for card in fitting).values(), default=request.count)
    if request.count > most:
        raise InputError(
            f"cannot ever grant {request.count} whole cards of one node: no node has more than {most} such; ask for "
            "less at a time"
        )


def _refuse_unknown(request: AllocationRequest, known: Collection[Product]) -> None:
    if any(request.takes_model(each.model) and request.takes_sku(each.sku) for each in known):
        return
    if not any(request.takes_model(each.model) for each in known):
        raise InputError(
            f"cannot ever grant the model {request.model!r}: no card has been one; the models here are "
            f"{_listed(each.model for each in known)}"
        )
    if not any(request.takes_sku(each.sku) for each in known):
        raise InputError(
            f"cannot ever grant the SKU {request.sku!r} as {request.kind}: no card has had it; the SKUs here are "
            f"{_listed(each.sku for each in known)}"
        )
    raise InputError(
        f"cannot ever grant the model {request.model!r} as the SKU {request.sku!r}: no card has been both; leave one "
        "out"
    )


def _refuse_size(request: AllocationRequest, cards: Iterable[Card]) -> None:
    """`cards` are those that the wishes leave; one in MIG mode may be taken out of it, and be sold in shares then."""
    sold = [(card, card.share_grain) for card in cards if card.share_grain is not None]
    if request.milli_gpu is None:
        return
    if not sold:
        if not any(card.mig_enabled for card in cards):
            raise InputError(
                f"cannot ever grant a share of {request.milli_gpu} milli-GPU: no such card is sold in shares; ask for "
                "a whole one"
            )
        return
    least_milli = min(grain.min_milli for _, grain in sold)
    if request.milli_gpu < least_milli:
        raise InputError(
            f"cannot ever grant a share of {request.milli_gpu} milli-GPU: the smallest one sold is {least_milli}; ask "
            "for that or more"
        )
    if request.vram_bytes is None:
        return
    least_bytes = min(grain.min_vram_bytes for _, grain in sold)
    most_bytes = max(card.vram_usable_bytes for card, _ in sold)
    if not least_bytes <= request.vram_bytes <= most_bytes:
        raise InputError(
            f"cannot ever grant a share with {request.vram_bytes // MIB} MiB: it is sold with "
            f"{-(-least_bytes // MIB)} to {most_bytes // MIB} MiB; ask for as much"
        )


def _refuse_profile(request: AllocationRequest, cards: Iterable[Card]) -> None:
    """`cards` are those that the wishes leave. Of a model whose profiles are not known nothing can be told while it is
    in MIG mode; one that is not, and has no known profiles, has none."""
    profiles: set[str] = set()
    for card in cards:
        geometry = geometry_of(card.model, None)
        if geometry is None and card.mig_enabled:
            return
        profiles |= {each.profile for each in card.instances}
        profiles |= {each.name for each in geometry.profiles} if geometry else set()
    if request.mig_profile not in profiles:
        raise InputError(
            f"cannot ever grant the MIG profile {request.mig_profile!r}: no such card is known to have it; "
            + (f"the profiles here are {_listed(profiles)}" if profiles else "none can be cut into MIG instances")
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names)))
