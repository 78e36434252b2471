"""What evidence says, second by second and run by run; seconds are offsets into the hour."""

import polars as pl
from hypothesis import strategies as st

from meter.evidence.evidence import Evidence
from meter.evidence.presence import Presence
from tests.meter.hour import HOUR_S

# Any samples of two cards and an instance around the first minute of the hour.
SAMPLES = st.lists(
    st.tuples(
        st.sampled_from(["gpu_up", "gpu_memory_used_bytes", "gpu_busy_ratio", "gpu_owner_memory_bytes"]),
        st.sampled_from(["GPU-1", "GPU-2"]),
        st.sampled_from(["", "MIG-1"]),
        st.just(""),
        st.integers(-40, 60),
        st.sampled_from([0.0, 1.0]),
    ),
    max_size=60,
    unique_by=lambda row: row[:5],
).map(lambda rows: [(*row[:3], "alloc:a1" if "owner" in row[0] else "", *row[4:]) for row in rows])


def presence_of(evidence: Evidence, gpu: str = "GPU-1", mig: str = "") -> dict[int, Presence]:
    """By second, of a card ('' for the node)."""
    runs = evidence.presence().filter((pl.col("gpu_uuid") == gpu) & (pl.col("mig_uuid") == mig))
    return {
        second - HOUR_S: Presence(run["value"])
        for run in runs.iter_rows(named=True)
        for second in range(run["start_s"], run["start_s"] + run["seconds"])
    }


def values_of(evidence: Evidence, quantity: str) -> list[tuple[str, str, str, int, int, int]]:
    """(gpu_uuid, mig_uuid, owner, first second, seconds, value) of each run."""
    return [
        (run["gpu_uuid"], run["mig_uuid"], run["owner"], run["start_s"] - HOUR_S, run["seconds"], run["value"])
        for run in evidence.quantity(quantity).iter_rows(named=True)
    ]


def known_seconds(evidence: Evidence) -> dict[tuple[str, str], int]:
    """Known seconds of GPU-1 by quantity and owner."""
    rows = evidence.known_seconds().filter(gpu_uuid="GPU-1").iter_rows(named=True)
    return {(row["quantity"], row["owner"]): row["seconds"] for row in rows}
