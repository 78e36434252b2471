"""The columns of the allocation CSV, by name and in the order they are written.

One row a grant. `start` and `end` are ISO 8601 with an offset or epoch seconds, `end` empty while the grant is open;
`vram_mib` is in MiB (2^20 bytes), `milli_gpu` in thousandths of a card; `gpu_uuid` empty is a device unknown.
"""

REQUIRED_COLUMNS = (
    "allocation",
    "tenant",
    "project",
    "node",
    "gpu_uuid",
    "model",
    "kind",
    "milli_gpu",
    "vram_mib",
    "mig_profile",
    "start",
    "end",
)
OPTIONAL_COLUMNS = ("mig_uuid", "mig_start", "labels", "source_id")
COLUMNS = (*REQUIRED_COLUMNS, *OPTIONAL_COLUMNS)
