"""What of a window's capacity is in no state, or in more than one."""

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

from domain.errors import InputError
from domain.period import Period, ceil_second
from meter.conservation.device_spans import device_spans
from meter.conservation.fleet import Fleet
from meter.evidence.evidence import Evidence
from store.capacity import DevicePeriod


@dataclass(frozen=True, slots=True)
class Residuals:
    """How much capacity a window cannot account for, in unit-seconds and byte-seconds; never negative.

    None: not known, because something is granted on a card that no inventory covers, or the record contradicts
    itself: MIG instances that cannot exist together, a card in two places at once.
    """

    compute_unit_seconds: int | None
    vram_byte_seconds: int | None


def residuals(fleet: Fleet, evidence: Evidence) -> Residuals:
    """What is left over when the seven states of every device-second of the window are summed.

    Sums absolute values, so that too much here never hides too little there.
    """
    if _is_somewhere_twice(fleet, evidence.period) or not _is_covered(fleet, evidence.period):
        return Residuals(None, None)
    try:
        spans = list(device_spans(fleet, evidence))
    except InputError:
        return Residuals(None, None)
    return Residuals(
        sum(abs(span.balance.compute.residual) * (span.end_s - span.start_s) for span in spans),
        sum(abs(span.balance.vram.residual) * (span.end_s - span.start_s) for span in spans),
    )


def _is_somewhere_twice(fleet: Fleet, window: Period) -> bool:
    """Whether two periods of one card share a second, so that its capacity would count twice."""
    by_card: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for device in fleet.devices:
        met = device.period.intersect(window)
        if met is not None and met.seconds > 0:
            by_card[device.gpu_uuid].append((met.first_second, ceil_second(met.end_us)))
    return any(
        before_end_s > start_s
        for stretches in by_card.values()
        for (_, before_end_s), (start_s, _) in pairwise(sorted(stretches))
    )


def _is_covered(fleet: Fleet, window: Period) -> bool:
    """Whether some device period stands behind every second of every grant."""
    for grant in fleet.grants:
        held = grant.period.intersect(window)
        if grant.is_record_only or held is None:
            continue
        seconds = sum(_seconds_of(device, grant.gpu_uuid, held) for device in fleet.devices)
        if seconds < held.seconds:
            return False
    return True


def _seconds_of(device: DevicePeriod, gpu_uuid: str | None, held: Period) -> int:
    met = device.period.intersect(held) if device.gpu_uuid == gpu_uuid else None
    return met.seconds if met else 0
