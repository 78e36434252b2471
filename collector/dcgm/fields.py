"""What the fields of DCGM mean: their names through the ages, their units, their blanks, and our series for them.

Names, units and blanks are those of `dcgm_fields.h` and `dcgm_structs.h` (NVIDIA/DCGM) and of the counter files of
NVIDIA/dcgm-exporter, `default-counters.csv` and `1.x-compatibility-metrics.csv`. DCGM 4.6 renamed fields and kept what
they say: its `GPU_UTIL_RATIO` is percent, as `GPU_UTIL` was.
"""

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from domain.series import (
    GPU_BUSY,
    GPU_DRAM_ACTIVE,
    GPU_ENERGY,
    GPU_GR_ACTIVE,
    GPU_LAST_XID,
    GPU_MEMORY_CLOCK,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_SM_ACTIVE,
    GPU_SM_CLOCK,
    GPU_SM_OCCUPANCY,
    GPU_TEMPERATURE,
    GPU_TENSOR_ACTIVE,
    Series,
)
from domain.units import MIB

_MEGAHERTZ = 1_000_000
# A blank is at least its constant: what is above it says why (+1 not found, +2 not supported, +3 no permission).
_BLANK_32_BITS = range(0x7FFFFFF0, 0x80000000)
_BLANK_DOUBLE = 2**47


class Scope(Enum):
    """Of what a field can be told."""

    ANY = "card and MIG instance"
    CARD = "card"
    CARD_WITHOUT_MIG = "card without MIG"


@dataclass(frozen=True, slots=True)
class DcgmField:
    """A field: every name it had, in upper case, newest last; the series it is, None where it only helps another.

    `unit` is what one of the text's units is in ours. `is_long` marks what grows beyond 32 bits, so that such blanks
    are numbers there.
    """

    names: tuple[str, ...]
    series: Series | None
    unit: Fraction = Fraction(1)
    scope: Scope = Scope.ANY
    is_long: bool = False

    def exact(self, value: int | float) -> int | Fraction | None:
        """The value in base units, exactly as written; None for a blank. What is counted in wholes is an `int`."""
        if value >= _BLANK_DOUBLE or (value in _BLANK_32_BITS and not self.is_long):
            return None
        # A float's shortest text is what was written: the exporter prints six decimals.
        exact = Fraction(str(value)) * self.unit
        return int(exact) if self.series is None or self.series.whole else exact


BUSY = DcgmField(
    ("DCGM_GPU_UTILIZATION", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO"),
    GPU_BUSY,
    Fraction(1, 100),
    # On an instance, and on a card that has some, it is 0 under full load (dcgm-exporter 216).
    Scope.CARD_WITHOUT_MIG,
)
ENERGY = DcgmField(
    ("DCGM_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"),
    GPU_ENERGY,
    Fraction(1, 1_000),
    Scope.CARD,
    is_long=True,
)
MEMORY_TOTAL = DcgmField(("DCGM_FI_DEV_FB_TOTAL",), GPU_MEMORY_TOTAL, Fraction(MIB))
MEMORY_FREE = DcgmField(("DCGM_FB_FREE", "DCGM_FI_DEV_FB_FREE"), None, Fraction(MIB))
MEMORY_USED = DcgmField(("DCGM_FB_USED", "DCGM_FI_DEV_FB_USED"), GPU_MEMORY_USED, Fraction(MIB))
MEMORY_RESERVED = DcgmField(("DCGM_FI_DEV_FB_RESERVED",), GPU_MEMORY_RESERVED, Fraction(MIB))

FIELDS = (
    BUSY,
    DcgmField(("DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_UTIL_RATIO"), GPU_SM_ACTIVE),
    DcgmField(("DCGM_FI_PROF_SM_OCCUPANCY", "DCGM_FI_PROF_SM_OCCUPANCY_RATIO"), GPU_SM_OCCUPANCY),
    DcgmField(("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"), GPU_GR_ACTIVE),
    DcgmField(("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_TENSOR_UTIL_RATIO"), GPU_TENSOR_ACTIVE),
    DcgmField(("DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_DRAM_UTIL_RATIO"), GPU_DRAM_ACTIVE),
    MEMORY_TOTAL,
    MEMORY_RESERVED,
    MEMORY_USED,
    MEMORY_FREE,
    DcgmField(
        ("DCGM_POWER_USAGE", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS"), GPU_POWER, scope=Scope.CARD
    ),
    ENERGY,
    DcgmField(
        ("DCGM_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS"), GPU_TEMPERATURE, scope=Scope.CARD
    ),
    DcgmField(("DCGM_SM_CLOCK", "DCGM_FI_DEV_SM_CLOCK"), GPU_SM_CLOCK, Fraction(_MEGAHERTZ), Scope.CARD),
    DcgmField(("DCGM_MEMORY_CLOCK", "DCGM_FI_DEV_MEM_CLOCK"), GPU_MEMORY_CLOCK, Fraction(_MEGAHERTZ), Scope.CARD),
    DcgmField(("DCGM_XID_ERRORS", "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR"), GPU_LAST_XID),
)

FIELD_OF_NAME = {name: each for each in FIELDS for name in each.names}
