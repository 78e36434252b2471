"""The catalogue of every series gputab writes or reads: name, unit, type, meaning, labels.

Base units, the unit in the name, ratios 0..1. No series name is written anywhere else. What a card cannot
measure is a missing series, never 0.
"""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How a value develops in time."""

    GAUGE = "gauge"
    COUNTER = "counter"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Series:
    """One row of the catalogue.

    `labels` are the labels that may be present; `mig_uuid` is absent on a series of a whole card. `whole` marks
    values that must come back from the store exactly: whole numbers below 2^53.
    """

    name: str
    unit: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    whole: bool = False


DEVICE = ("node", "gpu_uuid", "mig_uuid")
OWNER = (*DEVICE, "owner")
GRANT = ("gpu_uuid", "mig_uuid", "allocation", "tenant", "project", "kind")

GPU_UP = Series("gpu_up", "bool", Kind.GAUGE, "1 while the card answers, 0 while it is lost", DEVICE, True)
GPU_BUSY = Series("gpu_busy_ratio", "ratio", Kind.GAUGE, "share of the second in which some kernel ran", DEVICE)
GPU_SM_ACTIVE = Series(
    "gpu_sm_active_ratio", "ratio", Kind.GAUGE, "share of the second an SM had work, averaged over the SMs", DEVICE
)
GPU_SM_OCCUPANCY = Series(
    "gpu_sm_occupancy_ratio", "ratio", Kind.GAUGE, "resident warps as a share of what the SMs can hold", DEVICE
)
GPU_GR_ACTIVE = Series(
    "gpu_gr_active_ratio",
    "ratio",
    Kind.GAUGE,
    "share of the second in which the graphics or compute engine was active; MIG instances have it too",
    DEVICE,
)
GPU_TENSOR_ACTIVE = Series(
    "gpu_tensor_active_ratio", "ratio", Kind.GAUGE, "share of cycles in which the tensor pipe was active", DEVICE
)
GPU_DRAM_ACTIVE = Series(
    "gpu_dram_active_ratio", "ratio", Kind.GAUGE, "share of cycles in which VRAM was read or written", DEVICE
)
GPU_MEMORY_TOTAL = Series("gpu_memory_total_bytes", "bytes", Kind.GAUGE, "VRAM on the card", DEVICE, True)
GPU_MEMORY_RESERVED = Series(
    "gpu_memory_reserved_bytes", "bytes", Kind.GAUGE, "VRAM the driver keeps for itself", DEVICE, True
)
GPU_MEMORY_USED = Series(
    "gpu_memory_used_bytes",
    "bytes",
    Kind.GAUGE,
    "VRAM in use, without what the driver reserves",
    DEVICE,
    True,
)
GPU_POWER = Series("gpu_power_watts", "watts", Kind.GAUGE, "power drawn by the card", DEVICE)
GPU_ENERGY = Series("gpu_energy_joules_total", "joules", Kind.COUNTER, "energy since the driver was loaded", DEVICE)
GPU_TEMPERATURE = Series("gpu_temperature_celsius", "celsius", Kind.GAUGE, "temperature of the core", DEVICE)
GPU_SM_CLOCK = Series("gpu_sm_clock_hertz", "hertz", Kind.GAUGE, "clock of the SMs", DEVICE)
GPU_MEMORY_CLOCK = Series("gpu_memory_clock_hertz", "hertz", Kind.GAUGE, "clock of the memory", DEVICE)
GPU_LAST_XID = Series(
    "gpu_last_xid",
    "code",
    Kind.GAUGE,
    "the last XID error; it stays until the driver is loaded again, so the same one twice does not show",
    DEVICE,
    True,
)
GPU_INFO = Series(
    "gpu_info",
    "info",
    Kind.INFO,
    "1; what is known of a card beside its numbers",
    ("node", "gpu_uuid", "index", "model", "driver_version", "pci_bus_id"),
)
MIG_INFO = Series(
    "mig_info",
    "info",
    Kind.INFO,
    "1; what is known of a MIG instance beside its numbers",
    ("node", "gpu_uuid", "mig_uuid", "gi_id", "profile"),
)

OWNER_MEMORY = Series(
    "gpu_owner_memory_bytes", "bytes", Kind.GAUGE, "VRAM by owner; owners sum to the device", OWNER, True
)
OWNER_COMPUTE = Series(
    "gpu_owner_compute_ratio", "ratio", Kind.GAUGE, "busy ratio by owner; owners sum to the device", OWNER
)

COLLECTOR_COMPLETE_UNTIL = Series(
    "collector_complete_until_timestamp_seconds",
    "seconds",
    Kind.GAUGE,
    "every second before this one was delivered or recorded as a hole",
    ("node",),
    True,
)
COLLECTOR_LATENESS = Series(
    "collector_tick_lateness_seconds", "seconds", Kind.GAUGE, "how late the tick began", ("node",)
)
COLLECTOR_QUEUED = Series(
    "collector_queued_batches",
    "batches",
    Kind.GAUGE,
    "seconds waiting on disk for the store",
    ("node",),
    True,
)
COLLECTOR_HOLES = Series(
    "collector_holes_total", "seconds", Kind.COUNTER, "seconds that were not sampled", ("node",), True
)
COLLECTOR_MISSED = Series(
    "collector_missed_reads_total",
    "seconds",
    Kind.COUNTER,
    "seconds in which one card gave no answer in time, while the others did",
    ("node", "gpu_uuid"),
    True,
)
COLLECTOR_REFUSED = Series(
    "collector_refused_batches_total",
    "batches",
    Kind.COUNTER,
    "seconds the store called unusable, or would not keep; they are set aside on disk",
    ("node",),
    True,
)
COLLECTOR_CLOCK_SKEW = Series(
    "collector_clock_skew_seconds", "seconds", Kind.GAUGE, "the allocator's clock minus the node's", ("node",)
)
COLLECTOR_GARBAGE = Series(
    "collector_garbage_total",
    "readings",
    Kind.COUNTER,
    "readings refused because no card can have such a value",
    ("node", "field"),
    True,
)

GRANT_INFO = Series("gpu_grant_info", "info", Kind.INFO, "1 while the grant is open, 0 once at its end", GRANT)
GRANT_COMPUTE = Series(
    "gpu_grant_compute_ratio", "ratio", Kind.GAUGE, "share of the card's compute that is granted", GRANT
)
GRANT_VRAM = Series("gpu_grant_vram_bytes", "bytes", Kind.GAUGE, "VRAM that is granted", GRANT, True)

ALLOCATOR_REQUESTS = Series(
    "allocator_requests_total",
    "requests",
    Kind.COUNTER,
    "requests answered, by route, method and status",
    ("route", "method", "status"),
    True,
)
ALLOCATOR_REFUSALS = Series(
    "allocator_refusals_total",
    "requests",
    Kind.COUNTER,
    "requests for capacity that no node could take",
    ("kind",),
    True,
)
ALLOCATOR_OPEN_GRANTS = Series(
    "allocator_open_grants", "grants", Kind.GAUGE, "grants that have not ended", ("kind",), True
)

METER_LAG = Series("meter_lag_seconds", "seconds", Kind.GAUGE, "age of the last second the meter has rated", ("node",))
METER_RESIDUAL_COMPUTE = Series(
    "meter_residual_compute_unit_seconds",
    "seconds",
    Kind.GAUGE,
    "compute capacity the last rated window cannot account for; 0 unless something is wrong",
    ("node",),
    True,
)
METER_RESIDUAL_VRAM = Series(
    "meter_residual_vram_byte_seconds",
    "seconds",
    Kind.GAUGE,
    "VRAM capacity the last rated window cannot account for; 0 unless something is wrong",
    ("node",),
)
METER_OLDEST_OPEN = Series(
    "meter_oldest_open_window_timestamp_seconds",
    "seconds",
    Kind.GAUGE,
    "the hour of the oldest window of the node that is still to be rated to its end",
    ("node",),
    True,
)
METER_SPEND_RATE = Series(
    "meter_spend_rate_per_hour",
    "currency units per hour",
    Kind.GAUGE,
    "what the tenant spends, as it did since the hour began",
    ("tenant", "currency"),
)
METER_UNPRICED = Series(
    "meter_unpriced_seconds",
    "seconds",
    Kind.GAUGE,
    "granted seconds without a rate, dimensions added up",
    ("node",),
    True,
)

CATALOGUE: dict[str, Series] = {
    series.name: series for series in list(globals().values()) if isinstance(series, Series)
}
