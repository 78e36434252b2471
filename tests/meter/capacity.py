"""Cards, instances and the fleet they make, and what their seconds sum to; times are offsets into the hour."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from domain.grants import OPEN_END_US, Grant
from domain.period import Period
from domain.units import GIB, MIB
from meter.conservation.device_spans import device_spans
from meter.conservation.fleet import Fleet
from meter.conservation.residuals import Residuals, residuals
from meter.evidence.evidence import Evidence
from store.capacity import DevicePeriod, DeviceStatePeriod, Hold, MigPeriod
from tests.meter.hour import instant_us

STATES = ("granted", "held", "idle", "stranded", "drained", "lost", "reserved")


def span(start: float = -3_600, end: float | None = None) -> Period:
    """[start, end); no end is for ever."""
    return Period(instant_us(start), OPEN_END_US if end is None else instant_us(end))


def make_card(**changes: Any) -> DevicePeriod:
    """A 24 GiB RTX 4090 of which the driver keeps 1 GiB, sold whole."""
    values: dict[str, Any] = {
        "gpu_uuid": "GPU-1",
        "node": "n1",
        "device_index": 0,
        "model": "NVIDIA GeForce RTX 4090",
        "sku": "rtx4090-24g",
        "compute_units": 1_000,
        "vram_total_bytes": 24 * GIB,
        "vram_reserved_bytes": GIB,
        "mig_enabled": False,
        "offered_profiles": (),
        "share_min_milli": None,
        "share_min_vram_bytes": None,
        "period": span(),
    }
    return DevicePeriod(**{**values, **changes})


def make_h100(**changes: Any) -> DevicePeriod:
    """An H100 in MIG mode, sold as 1g.10gb and 3g.40gb."""
    values = {
        "model": "NVIDIA H100 80GB HBM3",
        "sku": "h100-80g",
        "compute_units": 132,
        "vram_total_bytes": 81_559 * MIB,
        "vram_reserved_bytes": 551 * MIB,
        "mig_enabled": True,
        "offered_profiles": ("1g.10gb", "3g.40gb"),
    }
    return make_card(**{**values, **changes})


def make_instance(
    number: int, profile: str, start_slice: int, slices: int, sms: int, mib: int, **changes: Any
) -> MigPeriod:
    """One of ours on GPU-1, there all the time."""
    made = MigPeriod(f"MIG-{number}", "GPU-1", number, profile, start_slice, slices, sms, mib * MIB, "ours", span())
    return replace(made, **changes)


def make_fleet(
    *devices: DevicePeriod,
    instances: Sequence[MigPeriod] = (),
    holds: Sequence[Hold] = (),
    states: Sequence[DeviceStatePeriod] = (),
) -> Fleet:
    """Of which nothing is granted yet."""
    return Fleet(devices=devices, instances=instances, holds=holds, states=states, grants=())


def residuals_of(fleet: Fleet, grants: Sequence[Grant], evidence: Evidence) -> Residuals:
    """What does not add up once the grants are on it."""
    return residuals(replace(fleet, grants=grants), evidence)


def sums_of(fleet: Fleet, grants: Sequence[Grant], evidence: Evidence) -> dict[str, tuple[int, int]]:
    """Unit-seconds and byte-seconds by state, the empty states left out."""
    sums = dict.fromkeys(STATES, (0, 0))
    for each in device_spans(replace(fleet, grants=grants), evidence):
        seconds = each.end_s - each.start_s
        for state, (compute, vram) in sums.items():
            sums[state] = (
                compute + getattr(each.balance.compute, state) * seconds,
                vram + getattr(each.balance.vram, state) * seconds,
            )
    return {state: both for state, both in sums.items() if any(both)}
