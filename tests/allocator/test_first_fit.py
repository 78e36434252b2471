"""Placement: the first node that can, the first cards on it, and a reason from every node where none can."""

from typing import Any

import pytest

from allocator.first_fit import choose
from allocator.request import AllocationRequest
from allocator.stock import Card, StockInstance
from domain.capacity import DeviceState, ShareGrain, Take
from domain.errors import CapacityError, InputError
from domain.grants import GrantKind
from domain.units import GIB, MIB

MODEL = "NVIDIA GeForce RTX 4090"
USABLE_BYTES = 24_052 * MIB
WHOLE = Take(1_000, USABLE_BYTES)


def card(
    node: str,
    index: int,
    *takes: Take,
    model: str = MODEL,
    sku: str = "rtx4090-24g",
    grain: ShareGrain | None = ShareGrain(100, GIB),  # noqa: B008 - a tuple
    state: DeviceState = DeviceState.OK,
    reason: str = "",
    is_silent: bool = False,
) -> Card:
    uuid = f"GPU-{node}-{index}"
    return Card(uuid, node, index, model, sku, 1_000, USABLE_BYTES, False, grain, state, reason, is_silent, takes, ())


def mig_card(node: str, index: int, *takes: Take, foreign: tuple[str, ...] = ()) -> Card:
    instances = [
        StockInstance(uuid, "1g.10gb", start, 16, 9_984 * MIB, uuid in foreign)
        for start, uuid in enumerate(("MIG-0", "MIG-1"))
    ]
    uuid = f"GPU-{node}-{index}"
    total_bytes = 81_559 * MIB
    return Card(
        uuid, node, index, "H100", "h100-80g", 132, total_bytes, True, None, DeviceState.OK, "", False, takes, instances
    )


def ask(kind: GrantKind = GrantKind.WHOLE, **wishes: Any) -> AllocationRequest:
    return AllocationRequest("acme", "lab", kind, **wishes)


def share(milli: int, **wishes: Any) -> AllocationRequest:
    return ask(GrantKind.SHARE, milli_gpu=milli, **wishes)


def reasons(request: AllocationRequest, *cards: Card) -> dict[str, str]:
    with pytest.raises(CapacityError) as refused:
        choose(request, cards)
    return refused.value.reasons


def test_the_first_node_in_order_with_enough_free_cards_is_taken() -> None:
    cards = [card("a", 0, WHOLE), card("a", 1), card("b", 0), card("b", 1, WHOLE), card("b", 2), card("c", 0)]
    assert [slot.card.gpu_uuid for slot in choose(ask(count=2), cards)] == ["GPU-b-0", "GPU-b-2"]
    assert [slot.card.gpu_uuid for slot in choose(ask(), cards)] == ["GPU-a-1"]


def test_cards_of_two_nodes_are_never_one_allocation() -> None:
    """A node sum would say that two are free."""
    assert reasons(ask(count=2), card("a", 0), card("b", 0)) == {
        "a": "needs 2, has 1: no further card",
        "b": "needs 2, has 1: no further card",
    }


def test_a_share_fits_on_one_card_or_not_at_all() -> None:
    """Ray #52133: five of 0.18 on each card leave 0.1 on each; the node's sum of 0.8 is no card."""
    busy = [card("a", index, *[Take(180, GIB)] * 5) for index in range(8)]
    assert reasons(share(180), *busy) == {"a": "needs 1, has 0: 8 × too little compute free"}
    (slot,) = choose(share(100), busy)
    assert (slot.card.gpu_uuid, slot.compute_units) == ("GPU-a-0", 100)


def test_a_whole_and_a_share_are_never_on_one_card() -> None:
    """Ray #52915: 1.0 and 0.25 of a GPU on one device."""
    assert reasons(ask(), card("a", 0, Take(250, GIB))) == {"a": "needs 1, has 0: 1 × in use"}
    assert reasons(share(250), card("a", 0, WHOLE)) == {"a": "needs 1, has 0: 1 × too little compute free"}


def test_vram_is_looked_at_apart_from_compute() -> None:
    """Volcano #3616: three of 12 GiB on one card of 24."""
    one = card("a", 0, Take(100, 12 * GIB))
    assert reasons(share(100, vram_bytes=12 * GIB), one) == {"a": "needs 1, has 0: 1 × too little VRAM free"}


def test_more_granted_than_there_is_counts_as_a_fault_and_not_as_free() -> None:
    """Volcano #2859: used above total wrapped to a huge free number."""
    over = card("a", 0, WHOLE, Take(1, 1))
    assert reasons(share(100), over) == {"a": "needs 1, has 0: 1 × more is granted than the card has"}


def test_a_share_takes_the_same_proportion_of_vram_down_to_whole_mib() -> None:
    (slot,) = choose(share(333), [card("a", 0)])
    assert slot.vram_bytes == USABLE_BYTES * 333 // 1_000 // MIB * MIB
    assert slot.vram_bytes % MIB == 0


def test_a_share_below_the_grain_is_refused_in_either_dimension() -> None:
    assert reasons(share(99), card("a", 0)) == {"a": "needs 1, has 0: 1 × sold from 100 milli-GPU on"}
    assert "bytes of VRAM on" in reasons(share(100, vram_bytes=GIB - 1), card("a", 0))["a"]
    assert reasons(share(500), card("a", 0, grain=None)) == {"a": "needs 1, has 0: 1 × not sold in shares"}


def test_the_default_vram_of_a_small_share_is_the_grain() -> None:
    (slot,) = choose(share(100), [card("a", 0, grain=ShareGrain(100, 4 * GIB))])
    assert slot.vram_bytes == 4 * GIB


def test_a_whole_card_has_all_its_compute_and_usable_vram() -> None:
    (slot,) = choose(ask(), [card("a", 0)])
    assert (slot.compute_units, slot.vram_bytes, slot.instance) == (1_000, USABLE_BYTES, None)


def test_a_mig_instance_is_one_that_exists_and_that_nobody_holds() -> None:
    held = mig_card("a", 0, Take(16, 9_984 * MIB, "MIG-0"))
    (slot,) = choose(ask(GrantKind.MIG, mig_profile="1g.10gb"), [held])
    assert slot.instance is not None
    assert (slot.instance.mig_uuid, slot.compute_units, slot.vram_bytes) == ("MIG-1", 16, 9_984 * MIB)


@pytest.mark.parametrize(
    ("one", "profile", "reason"),
    [
        (card("a", 0), "1g.10gb", "not in MIG mode"),
        (mig_card("a", 0), "2g.20gb", "no such instance exists"),
        (mig_card("a", 0, foreign=("MIG-0", "MIG-1")), "1g.10gb", "the instance is foreign: adopt it first"),
        (mig_card("a", 0, Take(16, GIB, "MIG-0"), Take(16, GIB, "MIG-1")), "1g.10gb", "every such instance is in use"),
        (mig_card("a", 0, Take(16, GIB)), "1g.10gb", "every such instance is in use"),
    ],
)
def test_a_mig_instance_that_cannot_be_had_is_refused_with_the_reason(one: Card, profile: str, reason: str) -> None:
    """The last: a record that names no instance may hold any."""
    assert reasons(ask(GrantKind.MIG, mig_profile=profile), one) == {"a": f"needs 1, has 0: 1 × {reason}"}


def test_a_card_in_mig_mode_is_neither_whole_nor_shared() -> None:
    for request in (ask(), share(500)):
        assert reasons(request, mig_card("a", 0)) == {"a": "needs 1, has 0: 1 × in MIG mode"}


def test_every_refusal_has_the_reason_of_every_node() -> None:
    """dstack #4188: a job failed with no reason given."""
    cards = [
        card("a", 0, WHOLE),
        card("a", 1, WHOLE),
        card("a", 2, state=DeviceState.DRAINING, reason="fan"),
        card("b", 0, is_silent=True),
        card("c", 0, model="NVIDIA L4", sku="l4-24g"),
        card("d", 0, state=DeviceState.FAILED, reason="XID 79"),
    ]
    assert reasons(ask(sku="rtx4090-24g"), *cards) == {
        "a": "needs 1, has 0: 1 × draining (fan); 2 × in use",
        "b": "needs 1, has 0: 1 × no heartbeat of the node",
        "c": "needs 1, has 0: 1 × SKU is l4-24g",
        "d": "needs 1, has 0: 1 × failed (XID 79)",
    }


def test_without_any_card_the_refusal_says_so() -> None:
    with pytest.raises(CapacityError, match="no card is known") as refused:
        choose(ask(), [])
    assert refused.value.reasons == {}


def test_a_suspect_card_is_still_granted() -> None:
    """As domain/capacity.py counts it: its free capacity is idle, not drained."""
    assert choose(ask(), [card("a", 0, state=DeviceState.SUSPECT, reason="slow")])


def test_a_model_is_found_in_any_case_and_a_sku_with_its_profile() -> None:
    assert choose(ask(model=MODEL.lower()), [card("a", 0)])
    assert choose(ask(GrantKind.MIG, mig_profile="1g.10gb", sku="h100-80g/1g.10gb"), [mig_card("a", 0)])
    assert reasons(ask(model="L4"), card("a", 0)) == {"a": f"needs 1, has 0: 1 × model is {MODEL}"}


@pytest.mark.parametrize(
    ("kind", "wishes", "message"),
    [
        (GrantKind.WHOLE, {"count": 0}, "cannot grant 0 of kind whole"),
        (GrantKind.SHARE, {"count": 2, "milli_gpu": 100}, "cannot grant 2 of kind share"),
        (GrantKind.SHARE, {}, "the kind share without milli_gpu"),
        (GrantKind.SHARE, {"milli_gpu": 1_000}, "a share of 1000 milli-GPU"),
        (
            GrantKind.WHOLE,
            {"milli_gpu": 500},
            "the kind whole with milli_gpu 500: leave it out, or ask for the kind share",
        ),
        (GrantKind.WHOLE, {"vram_bytes": GIB}, "VRAM is asked for with a share"),
        (GrantKind.MIG, {}, "the kind mig without mig_profile"),
        (GrantKind.WHOLE, {"labels": {str(n): "" for n in range(33)}}, "cannot keep 33 labels"),
        (GrantKind.WHOLE, {"labels": {"": "x"}}, "a label without a name"),
        (GrantKind.WHOLE, {"labels": {"a": "x\n"}}, "cannot keep the label"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(kind: GrantKind, wishes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ask(kind, **wishes)


def test_the_digest_tells_requests_apart_and_equal_ones_not() -> None:
    assert ask(labels={"a": "1", "b": "2"}).digest == ask(labels={"b": "2", "a": "1"}).digest
    assert len({ask().digest, ask(count=2).digest, share(1).digest, ask(model="x").digest}) == 4
