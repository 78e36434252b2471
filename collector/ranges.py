"""What no card can say: driver sentinels and values out of range, refused before they leave the node.

A refused value is dropped and counted, never clamped: 4294967295 % is no reading, not 100 %. One sentinel in the
store would also bend its neighbours, since a block of samples shares one decimal exponent (VictoriaMetrics 9448).
"""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple, TypeVar

from domain.samples import UNATTRIBUTED, DeviceReading, FieldState, OwnerUse
from domain.series import (
    GPU_BUSY,
    GPU_CLOCK_EVENT,
    GPU_COMPUTE,
    GPU_DECODER_BUSY,
    GPU_DRAM_ACTIVE,
    GPU_ECC_CORRECTED,
    GPU_ECC_UNCORRECTED,
    GPU_ENCODER_BUSY,
    GPU_ENERGY,
    GPU_FP16_ACTIVE,
    GPU_FP32_ACTIVE,
    GPU_FP64_ACTIVE,
    GPU_GR_ACTIVE,
    GPU_JPEG_BUSY,
    GPU_LAST_XID,
    GPU_MEMORY_BUSY,
    GPU_MEMORY_CLOCK,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_TEMPERATURE,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_NVLINK_RECEIVED,
    GPU_NVLINK_TRANSMITTED,
    GPU_OFA_BUSY,
    GPU_PCIE_RECEIVED,
    GPU_PCIE_TRANSMITTED,
    GPU_POWER,
    GPU_POWER_INSTANT,
    GPU_RECOVERY_ACTION,
    GPU_REMAPPED_ROWS,
    GPU_ROW_REMAP_FAILED,
    GPU_ROW_REMAP_PENDING,
    GPU_SM_ACTIVE,
    GPU_SM_ACTIVE_CYCLES,
    GPU_SM_CLOCK,
    GPU_SM_ELAPSED_CYCLES,
    GPU_SM_OCCUPANCY,
    GPU_TEMPERATURE,
    GPU_TENSOR_ACTIVE,
    GPU_THROTTLE,
    GPU_UP,
    GPU_VGPU_BUSY,
    GPU_VGPU_MEMORY,
    GPU_XID_EVENTS,
    OWNER_COMPUTE,
    OWNER_MEMORY,
    Series,
)
from domain.units import GIB

Ratio = TypeVar("Ratio", float, Fraction)

_VRAM_BYTES = 4_096 * GIB
# 1 kW for four years. DCGM's blank of a double, 2^47, is above it even when read as millijoules.
_ENERGY_JOULES = 2**37

_RATIO = (0, 1)
_VRAM = (0, _VRAM_BYTES)
# The driver's own "cannot tell" is 2^64 - 1, and its counters of bytes have 64 bits.
_TRAFFIC_BYTES = (0, 2**62)
# DCGM's blank is 2^63 - 16; the SMs of one card count 2^62 cycles in 200 days.
_CYCLES = (0, 2**63 - 2**32)
_COUNT = (0, 2**53 - 1)

# Lowest and highest value that any card can have, both included.
_RANGES: dict[Series, tuple[float, float]] = {
    GPU_UP: _RATIO,
    GPU_BUSY: _RATIO,
    GPU_COMPUTE: _RATIO,
    GPU_SM_ACTIVE: _RATIO,
    GPU_SM_OCCUPANCY: _RATIO,
    GPU_GR_ACTIVE: _RATIO,
    GPU_TENSOR_ACTIVE: _RATIO,
    GPU_FP64_ACTIVE: _RATIO,
    GPU_FP32_ACTIVE: _RATIO,
    GPU_FP16_ACTIVE: _RATIO,
    GPU_DRAM_ACTIVE: _RATIO,
    GPU_MEMORY_BUSY: _RATIO,
    GPU_ENCODER_BUSY: _RATIO,
    GPU_DECODER_BUSY: _RATIO,
    GPU_JPEG_BUSY: _RATIO,
    GPU_OFA_BUSY: _RATIO,
    GPU_SM_ACTIVE_CYCLES: _CYCLES,
    GPU_SM_ELAPSED_CYCLES: _CYCLES,
    GPU_MEMORY_TOTAL: (1, _VRAM_BYTES),
    GPU_MEMORY_RESERVED: _VRAM,
    GPU_MEMORY_USED: _VRAM,
    GPU_POWER: (0, 5_000),
    GPU_POWER_INSTANT: (0, 5_000),
    GPU_ENERGY: (0, _ENERGY_JOULES),
    GPU_TEMPERATURE: (-40, 150),
    GPU_MEMORY_TEMPERATURE: (-40, 150),
    GPU_SM_CLOCK: (0, 20e9),
    GPU_MEMORY_CLOCK: (0, 20e9),
    GPU_PCIE_RECEIVED: _TRAFFIC_BYTES,
    GPU_PCIE_TRANSMITTED: _TRAFFIC_BYTES,
    GPU_NVLINK_RECEIVED: _TRAFFIC_BYTES,
    GPU_NVLINK_TRANSMITTED: _TRAFFIC_BYTES,
    GPU_VGPU_BUSY: _RATIO,
    GPU_VGPU_MEMORY: _VRAM,
    GPU_LAST_XID: (0, 9_999),
    GPU_XID_EVENTS: _COUNT,
    GPU_CLOCK_EVENT: _RATIO,
    # A hundred years.
    GPU_THROTTLE: (0, 3_200_000_000),
    GPU_ECC_CORRECTED: _COUNT,
    GPU_ECC_UNCORRECTED: _COUNT,
    GPU_REMAPPED_ROWS: (0, 1_000_000),
    GPU_ROW_REMAP_PENDING: _RATIO,
    GPU_ROW_REMAP_FAILED: _RATIO,
    GPU_RECOVERY_ACTION: (0, 99),
    OWNER_MEMORY: _VRAM,
    OWNER_COMPUTE: _RATIO,
}
_WITHIN_THE_CARD = (GPU_MEMORY_RESERVED, GPU_MEMORY_USED)
_COUNTED_RATIO_MAX = 1.05
# Sums of ratios are floats; a real excess is larger.
_ROUNDING = 1e-6


class Checked(NamedTuple):
    """A reading without what no card can say, and the series of each value that was taken out."""

    reading: DeviceReading
    refused: tuple[Series, ...]


def counted_ratio(ratio: Ratio) -> Ratio:
    """A ratio of two counters, read one after the other: what is above 1 by at most 5 % is 1, more is no ratio."""
    return type(ratio)(1) if 1 < ratio <= _COUNTED_RATIO_MAX else ratio


def is_possible(series: Series, value: float | Fraction) -> bool:
    """Whether some card can have this value; False for NaN, and for a fraction of what is counted in wholes."""
    low, high = _RANGES[series]
    return low <= value <= high and not (series.whole and value % 1)


def is_measurable(series: Series) -> bool:
    """Whether the series is a value of a card, an instance or an owner, with a known range."""
    return series in _RANGES


def refuse_garbage(reading: DeviceReading) -> Checked:
    """The reading without impossible values.

    Bytes are held against the card's own total where it says it. Owners go together: where one is impossible, or
    they do not sum to the device's used memory, none of them can be believed and all of it is `unattributed`.
    """
    refused = [
        series for series, value in reading.values.items() if value is not None and not is_possible(series, value)
    ]
    values = {series: value for series, value in reading.values.items() if series not in refused}
    total_bytes = values.get(GPU_MEMORY_TOTAL)
    for series in _WITHIN_THE_CARD:
        value = values.get(series)
        if value is not None and total_bytes is not None and value > total_bytes:
            refused.append(series)
            del values[series]
    parts, refused_parts = _possible_parts(reading.parts)
    refused += refused_parts
    owners = reading.owners
    used_bytes = values.get(GPU_MEMORY_USED)
    if owners and not _are_owners_possible(owners, used_bytes):
        refused.append(OWNER_MEMORY)
        owners = {} if used_bytes is None else {UNATTRIBUTED: OwnerUse(int(used_bytes), None)}
    if owners and not _are_ratios_possible(owners, values.get(GPU_BUSY)):
        refused.append(OWNER_COMPUTE)
        owners = {owner: OwnerUse(use.memory_bytes, None) for owner, use in owners.items()}
    if not refused:
        return Checked(reading, ())
    missing = {**reading.missing, **dict.fromkeys(refused, FieldState.GARBAGE)}
    return Checked(replace(reading, values=values, owners=owners, parts=parts, missing=missing), tuple(refused))


def _possible_parts(
    parts: Mapping[Series, Mapping[str, int | float]],
) -> tuple[Mapping[Series, Mapping[str, int | float]], list[Series]]:
    """The parts that a device can have, and the series of each that was taken out."""
    refused = [
        series for series, by_part in parts.items() for value in by_part.values() if not is_possible(series, value)
    ]
    if not refused:
        return parts, refused
    possible = {
        series: {part: value for part, value in by_part.items() if is_possible(series, value)}
        for series, by_part in parts.items()
    }
    return possible, refused


def _are_owners_possible(owners: Mapping[str, OwnerUse], used_bytes: int | float | None) -> bool:
    told = [use.memory_bytes for use in owners.values() if use.memory_bytes is not None]
    return not told or (sum(told) == used_bytes and all(is_possible(OWNER_MEMORY, each) for each in told))


def _are_ratios_possible(owners: Mapping[str, OwnerUse], busy_ratio: int | float | None) -> bool:
    ratios = [use.compute_ratio for use in owners.values() if use.compute_ratio is not None]
    if not all(is_possible(OWNER_COMPUTE, ratio) for ratio in ratios):
        return False
    return busy_ratio is None or sum(ratios) <= busy_ratio + _ROUNDING
