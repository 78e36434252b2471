"""Readings on their way from a card to the store."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

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


class FieldState(StrEnum):
    """Why a device has no value of a series: five things that none of is a 0, nor any other."""

    UNSUPPORTED = "unsupported"
    NO_PERMISSION = "no_permission"
    NOT_READY = "not_ready"
    LOST = "lost"
    ERROR = "error"
    GARBAGE = "garbage"
    STALE = "stale"
    SUSPECT = "suspect"
    PROFILER_BUSY = "profiler_busy"
    QUIESCED = "quiesced"
    ATTRIBUTION_UNAVAILABLE = "attribution_unavailable"


class Basis(NamedTuple):
    """Where values of a series come from, such as `nvml`, and what they mean there, such as `sampled`."""

    source: str
    basis: str


class ComputeSplit(NamedTuple):
    """How what a device computes is split, however much it is: the part of each owner, in all 1, and on what basis.

    `unattributed` is always among them; another owner without a part is one of whom none is told, not 0.
    """

    parts: Mapping[str, float]
    basis: Basis

    def of(self, ratio: float) -> dict[str, float]:
        """A ratio of the device by owner."""
        return {owner: ratio * part for owner, part in self.parts.items()}


_NONE: Mapping[Any, Any] = MappingProxyType({})


def _none() -> Mapping[Any, Any]:
    return _NONE


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """What one card or MIG instance said in one second; None is "this card cannot tell", never 0.

    `mig_uuid` is None for the card itself. Bytes, watts, joules, celsius, hertz; ratios 0..1. `owners` maps an
    owner to its bytes and its busy ratio; what is told of either sums to the device. Empty where owners cannot be told.

    `parts` has the series of which a device has several values at a time, by their label (`Series.part`). `missing`
    says why a series has no value, `bases` where the values of one come from, where there is more than one way.
    Those two are told anew only where they change, so a source may hand out the same mapping each second.

    `split` is how the owners of a MIG instance share its ratio, whatever that is: another source may know it. None
    where that is not known, and of cards.
    """

    gpu_uuid: str
    mig_uuid: str | None
    values: Mapping[Series, int | float | None]
    owners: Mapping[str, "OwnerUse"]
    parts: Mapping[Series, Mapping[str, int | float]] = field(default_factory=_none)
    missing: Mapping[Series, FieldState] = field(default_factory=_none)
    bases: Mapping[Series, Basis] = field(default_factory=_none)
    split: ComputeSplit | None = None


@dataclass(frozen=True, slots=True)
class OwnerUse:
    """One owner's part of a device in one second.

    `memory_bytes` is None where the driver says of none of the owner's processes how much they use: then that is among
    what is `unattributed`. `compute_ratio` is None where it is not told, as of each who shares what nothing splits:
    then that is, too.
    """

    memory_bytes: int | None
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
