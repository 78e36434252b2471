"""Seconds and bytes of stretches of grants: intervals joined with the runs of evidence, in whole numbers."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import TypeVar

from domain.grants import Grant, GrantKind
from domain.owners import divide_owner, owners_of
from domain.prices import GapRules
from meter.evidence.evidence import Evidence, Run
from meter.evidence.presence import NODE, Device, Presence
from meter.rating.gaps import GapClass, classify

_Value = TypeVar("_Value")
_start_of, _end_of = itemgetter(0), itemgetter(1)


@dataclass(frozen=True, slots=True)
class Stretch:
    """The whole seconds [start_s, end_s) of a grant, and the rules by which its gaps are judged."""

    grant: Grant
    rules: GapRules
    start_s: int
    end_s: int

    @property
    def seconds(self) -> int:
        """How many."""
        return self.end_s - self.start_s


@dataclass(slots=True)
class Sums:
    """Seconds and bytes of a stretch, in whole numbers; used and overuse are byte-seconds.

    Each `GapClass` has its seconds here under its own name.
    """

    measured: int = 0
    bridged: int = 0
    on_record: int = 0
    free: int = 0
    covered: int = 0
    used: int = 0
    overuse: int = 0

    def add(self, other: "Sums") -> None:
        """Add another stretch's sums to these."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    @property
    def billed(self) -> int:
        """Seconds that cost money."""
        return self.measured + self.bridged + self.on_record


def measure(evidence: Evidence, stretches: list[Stretch]) -> list[Sums]:
    """The sums of each stretch, in the same order.

    What a tenant used of a whole card or MIG instance is what the device used; of a share, or of an instance that
    the record does not name, what the node proved to be of its owners, all of them together. Grants that name one owner
    divide it (domain/owners.py), so the stretches must be of every grant on the device. A grant without a device is on
    record for all its seconds.
    """
    held: dict[tuple[Grant, GapRules], list[Stretch]] = defaultdict(list)
    # Dimensions that are priced over the same seconds measure the same.
    for each in dict.fromkeys(stretches):
        held[each.grant, each.rules].append(each)
    used = _used_by_grants(evidence, dict.fromkeys(grant for grant, _ in held if not grant.is_record_only))
    measured: dict[Stretch, Sums] = {}
    for (grant, rules), several in held.items():
        if grant.is_record_only:
            measured |= {each: Sums(on_record=each.seconds) for each in several}
            continue
        device = _device_of(grant)
        gaps = classify(_presence_of(evidence, device), rules)
        # A share is covered where the device's owners were told apart.
        covering = evidence.line(device, "attributed") if _is_part(grant) else used[grant]
        for each in several:
            measured[each] = _sums(each, gaps, covering, used[grant])
    return [replace(measured[each]) for each in stretches]


def _sums(
    stretch: Stretch, gaps: Sequence[tuple[int, int, GapClass]], covering: Sequence[Run], used: Sequence[Run]
) -> Sums:
    within = stretch.start_s, stretch.end_s
    by_gap: dict[str, int] = defaultdict(int)
    for start_s, end_s, gap in _cut(gaps, *within):
        by_gap[gap.value] += end_s - start_s
    granted = stretch.grant.vram_bytes
    its_use = _cut(used, *within)
    return Sums(
        **by_gap,
        covered=sum(end_s - start_s for start_s, end_s, _ in _cut(covering, *within)),
        used=sum((end_s - start_s) * value for start_s, end_s, value in its_use),
        overuse=sum((end_s - start_s) * (value - granted) for start_s, end_s, value in its_use if value > granted),
    )


def _used_by_grants(evidence: Evidence, grants: Iterable[Grant]) -> dict[Grant, Sequence[Run]]:
    """Runs of what each grant used, its owners together; those of a whole device are what the device used."""
    found: dict[Grant, Sequence[Run]] = {}
    sharing: dict[tuple[Device, str], list[Grant]] = defaultdict(list)
    for grant in sorted(grants, key=lambda each: (each.allocation, each.ordinal)):
        device = _device_of(grant)
        if _is_part(grant):
            found[grant] = []
            for owner in owners_of(grant):
                sharing[device, owner].append(grant)
        else:
            found[grant] = evidence.line(device, "vram_used")
    steps: dict[Grant, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for (device, owner), several in sharing.items():
        line = evidence.line(device, "vram_used", owner)
        # The parts of one owner sum to its value, since each begins where the one before ends.
        for grant, from_s, to_s, before, upto, whole in divide_owner(several):
            its_steps = steps[grant]
            for start_s, end_s, value in _cut(line, from_s, to_s):
                part = value * upto // whole - value * before // whole
                its_steps[start_s] += part
                its_steps[end_s] -= part
    for grant, its_steps in steps.items():
        seconds = sorted(its_steps)
        values = accumulate(its_steps[second_s] for second_s in seconds)
        found[grant] = [(*span, value) for span, value in zip(pairwise(seconds), values, strict=False)]
    return found


def _device_of(grant: Grant) -> Device:
    return grant.gpu_uuid or "", grant.mig_uuid or ""


def _is_part(grant: Grant) -> bool:
    """Whether the grant is less than the device it is joined with, so that the device's use is not all its own."""
    return grant.kind is GrantKind.SHARE or (grant.kind is GrantKind.MIG and grant.mig_uuid is None)


def _presence_of(evidence: Evidence, device: Device) -> Sequence[Run]:
    """Presence of the device; one that evidence does not know shares what is known of the node."""
    if known := evidence.line(device, "presence"):
        return known
    return [
        (start_s, end_s, Presence.ABSENT if value == Presence.SAMPLED else value)
        for start_s, end_s, value in evidence.line(NODE, "presence")
    ]


def _cut(runs: Sequence[tuple[int, int, _Value]], from_s: int, to_s: int) -> list[tuple[int, int, _Value]]:
    """What of the runs, which are in order and do not overlap, lies inside [from_s, to_s)."""
    inside = list(runs[bisect_right(runs, from_s, key=_end_of) : bisect_left(runs, to_s, key=_start_of)])
    if inside:
        start_s, end_s, value = inside[0]
        inside[0] = (max(start_s, from_s), end_s, value)
        start_s, end_s, value = inside[-1]
        inside[-1] = (start_s, min(end_s, to_s), value)
    return inside
