"""What the store holds already where a log is to go: of two values for one second it keeps the larger."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from domain.clock import MICROSECONDS, Clock
from domain.errors import ConflictError
from domain.period import format_instant
from domain.samples import SampleRun
from domain.series import Series
from victoriametrics.push import VISIBLE_S

# Fractions do not survive the store to the last digit.
_ROUNDING = 1e-6
_TRY_SECONDS = 1


class StoredSamples(Protocol):
    """Samples in the store, of whole seconds in [start_s, end_s); what was pushed since the last flush may lack."""

    def count(self, series: tuple[Series, ...], node: str, start_s: int, end_s: int) -> int:
        """How many samples of these series and this node there are."""
        ...

    def values(self, series: Series, labels: Mapping[str, str], start_s: int, end_s: int) -> Mapping[int, float]:
        """By second, the samples of the one series with these labels; a label with an empty value is absent."""
        ...


def refuse_larger(runs: Iterable[SampleRun], stored: StoredSamples) -> None:
    """Raise ConflictError at the first sample of which the store holds a larger value: sending it changes nothing."""
    for run in runs:
        labels = {label: run.labels[label] for label in run.series.labels}
        held = stored.values(run.series, labels, run.seconds[0], run.seconds[-1] + 1)
        for second_s, value in zip(run.seconds, run.values, strict=True):
            held_value = held.get(second_s)
            if held_value is not None and _is_larger(run.series, held_value, value):
                raise ConflictError(
                    f"cannot import {value!r} at {format_instant(second_s * MICROSECONDS)!r}: {run.series.name} of "
                    f"{labels['gpu_uuid']!r} is {held_value:.15g} in the store for {labels['node']!r}, above "
                    f"{value!r}, and of two values for one second the store keeps the larger. Nothing was sent; delete "
                    "the series of this node from the store (/api/v1/admin/tsdb/delete_series), then import all of it "
                    "again"
                )


def seen_in_time(kept: Callable[[], int], expected: int, clock: Clock) -> int:
    """How many samples the store has, asked again until all can be seen where that is less than expected."""
    until_s = clock.monotonic_s() + VISIBLE_S
    while (found := kept()) < expected and clock.monotonic_s() < until_s:
        clock.sleep_s(_TRY_SECONDS)
    return found


def _is_larger(series: Series, held: float, value: float) -> bool:
    return held - value > (0 if series.whole else _ROUNDING * abs(held))
