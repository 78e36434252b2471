"""What the doctor found, in the form in which it is printed."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from domain.inventory import Device, MigInstance
from domain.series import Series


class Verdict(StrEnum):
    """Whether something is to be done."""

    GOOD = "good"
    NOTE = "note"
    MEND = "mend"


class Finding(NamedTuple):
    """One thing that was looked at; `remedy` says what helps, where anything is to be done or can be."""

    what: str
    verdict: Verdict
    said: str
    remedy: str = ""


def failure(what: str, error: Exception) -> Finding:
    """What an error says, whose last words are what to do about it."""
    said, _, remedy = str(error).rpartition("; ")
    return Finding(what, Verdict.MEND, said or remedy, remedy if said else "")


class SeriesFinding(NamedTuple):
    """One series of a device: its value now and where that comes from, or why there is none.

    `value` is None where there is none; a series with several values at a time has how many, in `parts`. `state` is
    the reason as `gpu_field_state` gives it, `reason` the same in words; `is_wrong` where that is to be mended.
    """

    series: Series
    value: int | float | None
    parts: int = 0
    source: str = ""
    state: str = ""
    reason: str = ""
    remedy: str = ""
    is_wrong: bool = False

    @property
    def is_told(self) -> bool:
        """Whether there is a value now."""
        return self.value is not None or self.parts > 0


class CardProcess(NamedTuple):
    """A process on a card or MIG instance, and whose it is.

    `sm_percent` is what the driver itself sampled of it lately, 0 to 100: those of processes that take turns may add up
    to more than the card was busy, and no owner's ratio is above that. None where the driver sampled nothing of it.
    Where no cgroup proves an owner, `owner` is None, `place` where its cgroup's names say that it runs, and `hints`
    what its environment claims.
    """

    pid: int
    owner: str | None
    used_bytes: int | None
    sm_percent: int | None
    place: str | None
    hints: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """A card, or a MIG instance on it. `proved_bytes` of `used_bytes` have an owner; None where that is not told."""

    device: Device
    instance: MigInstance | None
    family: str
    series: tuple[SeriesFinding, ...]
    used_bytes: int | None = None
    proved_bytes: int | None = None
    processes: tuple[CardProcess, ...] = ()

    @property
    def uuid(self) -> str:
        """Of the instance, where it is one."""
        return self.device.uuid if self.instance is None else self.instance.uuid

    @property
    def title(self) -> str:
        """What it is called among the others of the node."""
        card = f"card {self.device.index}"
        return card if self.instance is None else f"{card}, instance {self.instance.gi_id} ({self.instance.profile})"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All of one node."""

    node: str
    findings: tuple[Finding, ...]
    devices: tuple[DeviceReport, ...]

    @property
    def is_well(self) -> bool:
        """Whether cards are measured, and nothing is to be mended."""
        return bool(self.devices) and not any(each.verdict is Verdict.MEND for each in self.findings)
