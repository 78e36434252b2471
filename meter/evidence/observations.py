"""What the meter asks of the sample store."""

from typing import Protocol

import polars as pl

# What `samples` returns; `mig_uuid` and `owner` are '' where a series has no such label.
SAMPLE_COLUMNS = {
    "series": pl.String,
    "gpu_uuid": pl.String,
    "mig_uuid": pl.String,
    "owner": pl.String,
    "second_s": pl.Int64,
    "value": pl.Float64,
}


class Observations(Protocol):
    """Where samples come from; VictoriaMetrics in service, a list in tests."""

    def samples(self, node: str, start_s: int, end_s: int) -> pl.DataFrame:
        """Every sample of the node's cards at seconds in [start_s, end_s), one row per series and second.

        Raises UnavailableError where the store does not answer, so that a window is never taken for empty.
        """
        ...

    def complete_until_s(self, node: str) -> int | None:
        """The second before which everything was delivered or recorded as a hole; None if that was never said."""
        ...

    def clock_skew_s(self, node: str, start_s: int, end_s: int) -> float | None:
        """The largest difference, without its sign, between the node's clock and the allocator's; None: not said."""
        ...


class RecordedObservations:
    """Observations held in memory, for tests and for logs that never went through a store."""

    def __init__(
        self,
        samples: dict[str, pl.DataFrame],
        complete_until_s: dict[str, int],
        clock_skew_s: dict[str, float] | None = None,
    ) -> None:
        """All by node; frames have the columns of `SAMPLE_COLUMNS`."""
        self._samples = samples
        self._complete_until_s = complete_until_s
        self._clock_skew_s = clock_skew_s or {}

    def samples(self, node: str, start_s: int, end_s: int) -> pl.DataFrame:
        """The recorded samples of that stretch."""
        frame = self._samples.get(node, pl.DataFrame(schema=SAMPLE_COLUMNS))
        return frame.filter(pl.col("second_s").is_between(start_s, end_s, closed="left"))

    def complete_until_s(self, node: str) -> int | None:
        """The recorded mark."""
        return self._complete_until_s.get(node)

    def clock_skew_s(self, node: str, start_s: int, end_s: int) -> float | None:  # noqa: ARG002 - one for all times
        """The recorded skew."""
        return self._clock_skew_s.get(node)
