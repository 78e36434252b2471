"""Readings on their way from a card to the store."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from domain.series import Series


@dataclass(frozen=True, slots=True)
class SampleRun:
    """Values of one series at whole seconds.

    `seconds` are epoch seconds in rising order, as long as `values`; the value at s stands for [s, s+1).
    Labels with an empty value are left out, as the store would.
    """

    series: Series
    labels: Mapping[str, str]
    seconds: Sequence[int]
    values: Sequence[int | float]


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """What one card or MIG instance said in one second; None is "this card cannot tell", never 0.

    `mig_uuid` is None for the card itself. Bytes, watts, joules, celsius, hertz; ratios 0..1. `owners` maps an
    owner to its bytes and its busy ratio and sums to the device; empty where owners cannot be told.
    """

    gpu_uuid: str
    mig_uuid: str | None
    values: Mapping[Series, int | float | None]
    owners: Mapping[str, "OwnerUse"]


@dataclass(frozen=True, slots=True)
class OwnerUse:
    """One owner's part of a device in one second; `compute_ratio` is None where the card cannot split it."""

    memory_bytes: int
    compute_ratio: float | None


UNATTRIBUTED = "unattributed"


def allocation_owner(allocation: str) -> str:
    """The owner label of what gputab's own agent started for an allocation."""
    return f"alloc:{allocation}"


class SampleSink(Protocol):
    """Where a program sends samples; VictoriaMetrics in service, a list in tests."""

    def send(self, runs: Iterable[SampleRun]) -> None:
        """Store the samples; UnavailableError where that cannot be done now."""
        ...
