"""Which source tells a series of a card where NVML and DCGM both could: the order, and whether it may ever change."""

from domain.series import GPU_ECC_CORRECTED, GPU_ECC_UNCORRECTED, GPU_ENERGY, Kind, Series

NVML, DCGM = "nvml", "dcgm"

# NVML asks the driver in the very second, knows whose processes there are, and has memory to the byte. DCGM has what
# NVML has not: the profiling of cards before Hopper, the last XID error.
ORDER = (NVML, DCGM)

# Counters that DCGM reads from NVML (energy, and memory errors in the card's life): they stand where those stand. Every
# other counter begins where its own source began to count, so that a change of the source would be traffic, or time,
# that never was.
_SAME_COUNTERS = frozenset({GPU_ENERGY, GPU_ECC_CORRECTED, GPU_ECC_UNCORRECTED})


def may_change(series: Series) -> bool:
    """Whether another source may go on with the series: what it says must mean the same, and go on where it stood."""
    return series.kind is not Kind.COUNTER or series in _SAME_COUNTERS
