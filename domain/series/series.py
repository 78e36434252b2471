"""What a row of the catalogue is, and the labels that rows share."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How a value develops in time."""

    GAUGE = "gauge"
    COUNTER = "counter"
    INFO = "info"


# Rows are compared as objects: a collector looks some hundred of them up in each second.
@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One row of the catalogue.

    `labels` are the labels that may be present; `mig_uuid` is absent on a series of a whole card. `whole` marks
    values that must come back from the store exactly: whole numbers below 2^53. `part` is the one label, beside
    those of the device, by which a device has several values at a time: a reason, a link.
    """

    name: str
    unit: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    whole: bool = False
    part: str | None = None


GAUGE, COUNTER, INFO = Kind.GAUGE, Kind.COUNTER, Kind.INFO

NODE = ("node",)
DEVICE = ("node", "gpu_uuid", "mig_uuid")
OWNER = (*DEVICE, "owner")
GRANT = ("gpu_uuid", "mig_uuid", "allocation", "tenant", "project", "kind")


def by_part(name: str, unit: str, kind: Kind, part: str, text: str, *, whole: bool = False) -> Series:
    """A series of a device that has several values at a time, told apart by the label `part`."""
    return Series(name, unit, kind, text, (*DEVICE, part), whole, part)
