"""The fields of DCGM that are read: their numbers, their names through the ages, their units, our series for them.

Numbers, names and units are those of `dcgm_fields.h` (NVIDIA/DCGM) and of the counter files of NVIDIA/dcgm-exporter,
`default-counters.csv` and `1.x-compatibility-metrics.csv`. DCGM 4.6 renamed fields and kept what they say: its
`GPU_UTIL_RATIO` is percent, as `GPU_UTIL` was. The times of 240-247 are nanoseconds, as NVML's are that they are read
from; the comments of DCGM's Python bindings say microseconds.

Rates are not here (449, 1009-1012): a series of bytes is a total, and no total is made of rates. Nor are memory errors
since the driver was loaded (310, 311), while the series is of the card's life, as NVML tells it; nor the exporter's own
`DCGM_EXP_XID_ERRORS_COUNT`, a count in a window that slides: it counts no event once.
"""

from dataclasses import replace
from fractions import Fraction

from collector.clock_reasons import CLOCK_REASONS
from collector.dcgm.field import DcgmField, Scope, Watch
from domain.samples import FieldState
from domain.series import (
    GPU_BUSY,
    GPU_CLOCK_EVENT,
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
    GPU_LAST_XID,
    GPU_MEMORY_BUSY,
    GPU_MEMORY_CLOCK,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_TEMPERATURE,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_NVLINK_RECEIVED,
    GPU_NVLINK_TRANSMITTED,
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
    Series,
)
from domain.units import MIB

_PERCENT = Fraction(1, 100)
_MEGAHERTZ = Fraction(1_000_000)
_MIB = Fraction(MIB)
_MILLIJOULES = Fraction(1, 1_000)
_NANOSECONDS = Fraction(1, 1_000_000_000)


def _dev(
    number: int,
    names: str,
    series: Series | None,
    unit: Fraction = Fraction(1),
    *,
    scope: Scope = Scope.CARD,
    watch: Watch = Watch.DEVICE,
    is_long: bool = False,
    part: str | None = None,
) -> DcgmField:
    """A field of the device, by its names behind `DCGM_FI_DEV_`; one with a prefix of its own is written out."""
    written = tuple(name if name.startswith("DCGM_") else f"DCGM_FI_DEV_{name}" for name in names.split())
    return DcgmField(number, written, series, unit, scope, watch, is_long, part=part)


def _ratio(number: int, names: str, series: Series) -> DcgmField:
    """A field that is measured by profiling, on MIG instances too."""
    written = tuple(f"DCGM_FI_PROF_{name}" for name in names.split())
    return DcgmField(number, written, series, watch=Watch.PROFILING)


def _total(number: int, name: str, series: Series) -> DcgmField:
    """A counter of the card that is measured by profiling."""
    scope, watch = Scope.CARD, Watch.NEW_PROFILING
    return DcgmField(number, (f"DCGM_FI_PROF_{name}",), series, scope=scope, watch=watch, is_long=True)


def _throttle(number: int, names: str, part: str) -> DcgmField:
    return _dev(number, names, GPU_THROTTLE, _NANOSECONDS, is_long=True, part=part)


# On an instance, and on a card that has some, such a rate is 0 under full load (dcgm-exporter 216).
_NO_MIG = Scope.CARD_WITHOUT_MIG
BUSY = _dev(203, "DCGM_GPU_UTILIZATION GPU_UTIL GPU_UTIL_RATIO", GPU_BUSY, _PERCENT, scope=_NO_MIG)
POWER = _dev(155, "DCGM_POWER_USAGE POWER_USAGE BOARD_POWER_WATTS", GPU_POWER)
# A counter that stands at 0 counts nothing.
ENERGY = replace(
    _dev(156, "DCGM_TOTAL_ENERGY_CONSUMPTION TOTAL_ENERGY_CONSUMPTION", GPU_ENERGY, _MILLIJOULES, is_long=True),
    zero_means=FieldState.UNSUPPORTED,
)
CLOCK_EVENTS = replace(
    _dev(112, "CLOCK_THROTTLE_REASONS CLOCKS_EVENT_REASONS", GPU_CLOCK_EVENT, is_long=True), bits=CLOCK_REASONS
)
MEMORY_TOTAL = _dev(250, "FB_TOTAL", GPU_MEMORY_TOTAL, _MIB, scope=Scope.ANY)
MEMORY_FREE = _dev(251, "DCGM_FB_FREE FB_FREE", None, _MIB, scope=Scope.ANY)
MEMORY_USED = _dev(252, "DCGM_FB_USED FB_USED", GPU_MEMORY_USED, _MIB, scope=Scope.ANY)
MEMORY_RESERVED = _dev(253, "FB_RESERVED", GPU_MEMORY_RESERVED, _MIB, scope=Scope.ANY)
# Told when it happens, and not read in periods. No XID has the number 0: by it DCGM 4.4.1 says what 4.5.3 leaves blank,
# that none is known (dcgm-exporter 700), be it that there was none or that this card tells none.
LAST_XID = replace(
    _dev(230, "DCGM_XID_ERRORS XID_ERRORS XID_ERROR", GPU_LAST_XID, scope=Scope.ANY), zero_means=FieldState.NOT_READY
)

FIELDS = (
    BUSY,
    _ratio(1002, "SM_ACTIVE SM_UTIL_RATIO", GPU_SM_ACTIVE),
    _ratio(1003, "SM_OCCUPANCY SM_OCCUPANCY_RATIO", GPU_SM_OCCUPANCY),
    _ratio(1001, "GR_ENGINE_ACTIVE GR_ENGINE_UTIL_RATIO", GPU_GR_ACTIVE),
    _ratio(1004, "PIPE_TENSOR_ACTIVE TENSOR_UTIL_RATIO", GPU_TENSOR_ACTIVE),
    _ratio(1005, "DRAM_ACTIVE DRAM_UTIL_RATIO", GPU_DRAM_ACTIVE),
    _ratio(1006, "PIPE_FP64_ACTIVE FP64_UTIL_RATIO", GPU_FP64_ACTIVE),
    _ratio(1007, "PIPE_FP32_ACTIVE FP32_UTIL_RATIO", GPU_FP32_ACTIVE),
    _ratio(1008, "PIPE_FP16_ACTIVE FP16_UTIL_RATIO", GPU_FP16_ACTIVE),
    _total(1085, "SM_CYCLES_ACTIVE_TOTAL", GPU_SM_ACTIVE_CYCLES),
    _total(1084, "SM_CYCLES_ELAPSED_TOTAL", GPU_SM_ELAPSED_CYCLES),
    _dev(204, "DCGM_MEM_COPY_UTILIZATION MEM_COPY_UTIL", GPU_MEMORY_BUSY, _PERCENT, scope=_NO_MIG),
    _dev(206, "DCGM_ENC_UTILIZATION ENC_UTIL", GPU_ENCODER_BUSY, _PERCENT, scope=_NO_MIG),
    _dev(207, "DCGM_DEC_UTILIZATION DEC_UTIL", GPU_DECODER_BUSY, _PERCENT, scope=_NO_MIG),
    MEMORY_TOTAL,
    MEMORY_RESERVED,
    MEMORY_USED,
    MEMORY_FREE,
    POWER,
    _dev(157, "POWER_USAGE_INSTANT BOARD_POWER_RAW_WATTS", GPU_POWER_INSTANT, watch=Watch.NEW_DEVICE),
    ENERGY,
    _dev(150, "DCGM_GPU_TEMP GPU_TEMP GPU_TEMP_CELSIUS", GPU_TEMPERATURE),
    # Cards whose memory has no sensor say 0 degrees, as an L4 does.
    replace(
        _dev(140, "DCGM_MEMORY_TEMP MEMORY_TEMP MEMORY_TEMP_CELSIUS", GPU_MEMORY_TEMPERATURE),
        zero_means=FieldState.UNSUPPORTED,
    ),
    _dev(100, "DCGM_SM_CLOCK SM_CLOCK", GPU_SM_CLOCK, _MEGAHERTZ),
    _dev(101, "DCGM_MEMORY_CLOCK MEM_CLOCK", GPU_MEMORY_CLOCK, _MEGAHERTZ),
    _total(1092, "PCIE_RX_BYTES_TOTAL", GPU_PCIE_RECEIVED),
    _total(1091, "PCIE_TX_BYTES_TOTAL", GPU_PCIE_TRANSMITTED),
    _dev(
        1203,
        "NVLINK_COUNT_RX_BYTES NVLINK_RX_BYTES_TOTAL",
        GPU_NVLINK_RECEIVED,
        watch=Watch.NEW_DEVICE,
        is_long=True,
        part="all",
    ),
    _dev(
        1201,
        "NVLINK_COUNT_TX_BYTES NVLINK_TX_BYTES_TOTAL",
        GPU_NVLINK_TRANSMITTED,
        watch=Watch.NEW_DEVICE,
        is_long=True,
        part="all",
    ),
    CLOCK_EVENTS,
    _throttle(240, "DCGM_POWER_VIOLATION POWER_VIOLATION", "sw_power_cap"),
    _throttle(241, "DCGM_THERMAL_VIOLATION THERMAL_VIOLATION", "thermal"),
    _throttle(242, "DCGM_SYNC_BOOST_VIOLATION SYNC_BOOST_VIOLATION", "sync_boost"),
    _throttle(243, "DCGM_BOARD_LIMIT_VIOLATION BOARD_LIMIT_VIOLATION", "board_limit"),
    _throttle(244, "DCGM_LOW_UTIL_VIOLATION LOW_UTIL_VIOLATION", "low_utilization"),
    _throttle(245, "DCGM_RELIABILITY_VIOLATION RELIABILITY_VIOLATION", "reliability"),
    _throttle(246, "TOTAL_APP_CLOCKS_VIOLATION", "below_applications_clocks"),
    _throttle(247, "TOTAL_BASE_CLOCKS_VIOLATION", "below_base_clocks"),
    _dev(312, "DCGM_ECC_SBE_AGGREGATE_TOTAL ECC_SBE_AGG_TOTAL", GPU_ECC_CORRECTED, is_long=True),
    _dev(313, "DCGM_ECC_DBE_AGGREGATE_TOTAL ECC_DBE_AGG_TOTAL", GPU_ECC_UNCORRECTED, is_long=True),
    _dev(394, "CORRECTABLE_REMAPPED_ROWS ROW_REMAP_CORRECTABLE_TOTAL", GPU_REMAPPED_ROWS, part="correctable"),
    _dev(393, "UNCORRECTABLE_REMAPPED_ROWS ROW_REMAP_UNCORRECTABLE_TOTAL", GPU_REMAPPED_ROWS, part="uncorrectable"),
    _dev(396, "ROW_REMAP_PENDING", GPU_ROW_REMAP_PENDING),
    _dev(395, "ROW_REMAP_FAILURE ROW_REMAP_FAILED", GPU_ROW_REMAP_FAILED),
    _dev(1523, "GET_GPU_RECOVERY_ACTION GPU_RECOVERY_ACTION", GPU_RECOVERY_ACTION, watch=Watch.NEW_DEVICE),
    LAST_XID,
)

FIELD_OF_NAME = {name: each for each in FIELDS for name in each.names}
FIELD_OF_NUMBER = {each.number: each for each in FIELDS}
