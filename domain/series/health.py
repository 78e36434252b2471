"""Whether a card is well, and why something is not known of it."""

from domain.series.series import COUNTER, DEVICE, GAUGE, INFO, Series, by_part

GPU_LAST_XID = Series(
    "gpu_last_xid",
    "code",
    GAUGE,
    "the last XID error; it stays until the driver is loaded again, so the same one twice does not show",
    DEVICE,
    True,
)
GPU_XID_EVENTS = by_part(
    "gpu_xid_events_total",
    "events",
    COUNTER,
    "xid",
    "XID errors that the driver told while a collector ran",
    whole=True,
)
GPU_CLOCK_EVENT = by_part(
    "gpu_clock_event_active", "bool", GAUGE, "reason", "1 while this keeps the clocks from rising", whole=True
)
GPU_THROTTLE = by_part(
    "gpu_throttle_seconds_total", "seconds", COUNTER, "reason", "for how long this has kept the clocks from rising"
)
GPU_ECC_CORRECTED = Series(
    "gpu_ecc_corrected_errors_total",
    "errors",
    COUNTER,
    "memory errors that were corrected, in the card's life",
    DEVICE,
    True,
)
GPU_ECC_UNCORRECTED = Series(
    "gpu_ecc_uncorrected_errors_total",
    "errors",
    COUNTER,
    "memory errors that could not be corrected, in the card's life",
    DEVICE,
    True,
)
GPU_REMAPPED_ROWS = by_part(
    "gpu_remapped_rows", "rows", GAUGE, "cause", "rows of memory that were replaced by spare ones", whole=True
)
GPU_ROW_REMAP_PENDING = Series(
    "gpu_row_remap_pending", "bool", GAUGE, "1 while a row waits for a reset to be replaced", DEVICE, True
)
GPU_ROW_REMAP_FAILED = Series("gpu_row_remap_failed", "bool", GAUGE, "1 once a row could not be replaced", DEVICE, True)
GPU_RECOVERY_ACTION = Series(
    "gpu_recovery_action",
    "code",
    GAUGE,
    "what the driver asks for: 0 nothing, 1 reset the card, 2 reboot the node, 3 drain its peers, 4 drain and reset",
    DEVICE,
    True,
)
GPU_FIELD_STATE = Series(
    "gpu_field_state",
    "bool",
    GAUGE,
    "1 while the device has no value of the series `field`, and `state` says why; 0 once when that ends",
    (*DEVICE, "field", "state"),
    True,
)
GPU_BASIS_INFO = Series(
    "gpu_basis_info",
    "info",
    INFO,
    "1 while values of the series `field` come from `source` and mean what `basis` says; 0 once when that ends",
    (*DEVICE, "field", "source", "basis"),
    True,
)
