"""In each device-second every compute unit and every byte is in exactly one state."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from domain.capacity import DeviceBalance
from domain.period import ceil_second
from meter.conservation.fleet import Fleet, card_records
from meter.evidence.evidence import Evidence


@dataclass(frozen=True, slots=True)
class DeviceSpan:
    """A device over [start_s, end_s), in which nothing about its capacity changes."""

    gpu_uuid: str
    start_s: int
    end_s: int
    balance: DeviceBalance


def device_spans(fleet: Fleet, evidence: Evidence) -> Iterable[DeviceSpan]:
    """Every device of the window's node, cut where anything about its capacity changes, with its balance.

    Raises InputError where MIG instances on record cannot exist together.
    """
    for record in card_records(fleet, evidence):
        held = record.device.period.intersect(evidence.period)
        if held is None:
            continue
        cuts = sorted({held.first_second, ceil_second(held.end_us)} | record.cuts(held))
        for start_s, end_s in pairwise(cuts):
            yield DeviceSpan(record.device.gpu_uuid, start_s, end_s, record.balance_at(start_s))
