"""What the allocator and the meter say: grants, requests, spend and how far behind they are."""

from domain.series.series import COUNTER, GAUGE, GRANT, INFO, NODE, Series

GRANT_INFO = Series("gpu_grant_info", "info", INFO, "1 while the grant is open, 0 once at its end", GRANT)
GRANT_COMPUTE = Series("gpu_grant_compute_ratio", "ratio", GAUGE, "share of the card's compute that is granted", GRANT)
GRANT_VRAM = Series("gpu_grant_vram_bytes", "bytes", GAUGE, "VRAM that is granted", GRANT, True)

ALLOCATOR_REQUESTS = Series(
    "allocator_requests_total",
    "requests",
    COUNTER,
    "requests answered, by route, method and status",
    ("route", "method", "status"),
    True,
)
ALLOCATOR_REFUSALS = Series(
    "allocator_refusals_total",
    "requests",
    COUNTER,
    "requests for capacity that no node could take",
    ("kind",),
    True,
)
ALLOCATOR_OPEN_GRANTS = Series("allocator_open_grants", "grants", GAUGE, "grants that have not ended", ("kind",), True)

METER_LAG = Series("meter_lag_seconds", "seconds", GAUGE, "age of the last second the meter has rated", NODE)
METER_RESIDUAL_COMPUTE = Series(
    "meter_residual_compute_unit_seconds",
    "seconds",
    GAUGE,
    "compute capacity that windows not yet closed cannot account for; 0 unless something is wrong",
    NODE,
    True,
)
METER_RESIDUAL_VRAM = Series(
    "meter_residual_vram_byte_seconds",
    "seconds",
    GAUGE,
    "VRAM capacity that windows not yet closed cannot account for; 0 unless something is wrong",
    NODE,
)
METER_OLDEST_OPEN = Series(
    "meter_oldest_open_window_timestamp_seconds",
    "seconds",
    GAUGE,
    "the hour of the oldest window of the node that is still to be rated to its end",
    NODE,
    True,
)
METER_SPEND_RATE = Series(
    "meter_spend_rate_per_hour",
    "currency units per hour",
    GAUGE,
    "what the tenant spends, as it did since the hour began",
    ("tenant", "currency"),
)
METER_UNPRICED = Series(
    "meter_unpriced_seconds",
    "seconds",
    GAUGE,
    "granted seconds without a rate in windows not yet closed, dimensions added up",
    NODE,
    True,
)
METER_UNKNOWN = Series(
    "meter_unknown_windows",
    "windows",
    GAUGE,
    "rated windows, not yet closed, whose capacity is not known",
    NODE,
    True,
)
METER_QUARANTINED = Series(
    "meter_quarantined_samples",
    "samples",
    GAUGE,
    "readings of the last rated window that no card can have made",
    NODE,
    True,
)
METER_LATE = Series(
    "meter_late_device_seconds",
    "seconds",
    GAUGE,
    "device-seconds of closed windows whose samples came after the close, and that no correction has used",
    NODE,
    True,
)
METER_CORRECTIONS = Series("meter_corrections_total", "corrections", COUNTER, "corrections of closed windows", (), True)
