"""A second of a node for programs: exact integers for each state of each card."""

from typing import Any

from domain.capacity import Balance
from domain.clock import MICROSECONDS
from domain.grants import Grant
from domain.period import format_instant
from meter.conservation.second import CardSecond, NodeSecond
from store.capacity import DevicePeriod, Hold, MigPeriod

STATES = ("granted", "held", "idle", "stranded", "drained", "lost", "reserved")


def card_rows(second: NodeSecond) -> list[dict[str, Any]]:
    """A row for each card; its `compute` is in compute units, its `vram` in bytes, null where they cannot be known."""
    return [_card_row(card) for card in second.cards]


def second_columns(second: NodeSecond) -> dict[str, Any]:
    """What is said of the second as a whole; residuals are sums of absolute values over its cards."""
    left = second.residuals
    return {
        "node": second.node,
        "second": format_instant(second.second_s * MICROSECONDS),
        "residual_compute": left.compute_unit_seconds,
        "residual_vram": left.vram_byte_seconds,
        "uncovered": [{"gpu_uuid": each.gpu_uuid, **_take(each)} for each in second.uncovered],
    }


def way_sold(device: DevicePeriod) -> str:
    """How the card is sold: whole, in shares, or in MIG instances."""
    if device.mig_enabled:
        return "in MIG instances"
    return "whole" if device.share_grain is None else "in shares"


def _card_row(card: CardSecond) -> dict[str, Any]:
    device, there = card.device, card.there
    return {
        "gpu_uuid": device.gpu_uuid,
        "device_index": device.device_index,
        "model": device.model,
        "sku": device.sku,
        "sold": way_sold(device),
        "state": there.state.value,
        "presence": card.presence.name.lower() if card.presence is not None else None,
        "why_unknown": card.why_unknown,
        "compute": _states(card.balance.compute) if card.balance else None,
        "vram": _states(card.balance.vram) if card.balance else None,
        "takes": [*map(_take, there.grants), *map(_take, there.holds)],
        "instances": [_instance(each) for each in there.instances],
    }


def _states(balance: Balance) -> dict[str, int]:
    return {name: getattr(balance, name) for name in ("total", *STATES, "residual")}


def _take(take: Grant | Hold) -> dict[str, Any]:
    of_grant = {
        name: getattr(take, name, None) for name in ("allocation", "ordinal", "tenant", "project", "kind", "node")
    }
    return {
        "state": "granted" if isinstance(take, Grant) else "held",
        **of_grant,
        "mig_uuid": take.mig_uuid,
        "compute_units": take.compute_units,
        "vram_bytes": take.vram_bytes,
    }


def _instance(each: MigPeriod) -> dict[str, Any]:
    names = ("mig_uuid", "gi_id", "profile", "start_slice", "slices", "sm_count", "vram_bytes", "origin")
    return {name: getattr(each, name) for name in names}
