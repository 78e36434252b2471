"""What is known of a device in each second: sampled, lost, or why there is no sample."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum

from domain.clock import MICROSECONDS
from domain.inventory import CONTACT_SECONDS
from domain.period import Period

Device = tuple[str, str]
"""(gpu_uuid, mig_uuid or ''); both '' for the node itself."""
Stretches = Sequence[tuple[int, int]]
"""Half-open stretches of seconds, in any order; they may overlap."""

NODE: Device = ("", "")


class Presence(IntEnum):
    """What is known of a device (or, for a node, of its collector) in one second."""

    SAMPLED = 0
    LOST = 1
    """The card was said to be lost: `gpu_up` 0."""
    ABSENT = 2
    """Other cards of the node were sampled in that second and this one was not."""
    COLLECTOR_DOWN = 3
    """Nothing of the node was sampled, but it was heard from."""
    HOST_UNREACHABLE = 4
    """Neither a sample nor a heartbeat."""


# One byte again and again: an expression scans that faster than a loop, and than one that looks back.
_RUN = re.compile(b"|".join(re.escape(bytes([value])) + b"+" for value in Presence))


class Timeline:
    """The value of a `Presence` for each second of [from_s, to_s)."""

    def __init__(self, from_s: int, to_s: int, value: int = 0) -> None:
        """All of it is `value` until something else is marked."""
        self._from_s = from_s
        self._values = bytearray([value]) * max(0, to_s - from_s)

    def mark(self, stretches: Iterable[tuple[int, int]], value: int) -> None:
        """Set the seconds of the stretches; what lies outside the timeline is left out."""
        end = len(self._values)
        for start_s, end_s in stretches:
            first, last = max(0, start_s - self._from_s), min(end, end_s - self._from_s)
            if first < last:
                self._values[first:last] = bytes([value]) * (last - first)

    def replaced(self, value: int, other: int) -> "Timeline":
        """A copy with another number in the place of one."""
        copy = Timeline(self._from_s, self._from_s)
        # The same as to replace the one by the other, and quicker where there are many of them.
        copy._values = self._values.translate(bytes.maketrans(bytes([value]), bytes([other])))
        return copy

    def runs(self) -> Iterator[tuple[int, int, int]]:
        """(start_s, end_s, value) of each stretch of equal numbers, in order."""
        for found in _RUN.finditer(self._values):
            yield self._from_s + found.start(), self._from_s + found.end(), found[0][0]


def presence(
    from_s: int,
    to_s: int,
    sampled: Mapping[Device, Stretches],
    lost: Mapping[Device, Stretches],
    contacts: Iterable[Period],
) -> Iterator[tuple[Device, Timeline]]:
    """What is known of every device of `sampled`, and of the node itself, second by second (`Presence`).

    `sampled` says when there was a sample, whatever it told, and of the node also samples that are of no device;
    `lost` when a device was said to be lost, `contacts` from which heartbeat to which the node kept reporting.
    """
    node = Timeline(from_s, to_s, Presence.HOST_UNREACHABLE)
    # Most devices say the same.
    heard = {stretch for stretches in sampled.values() for stretch in stretches}
    # Within `CONTACT_SECONDS` after some sample or heartbeat; a stretch ends one second after its last sample.
    node.mark(((start_s, end_s + CONTACT_SECONDS - 1) for start_s, end_s in heard), Presence.COLLECTOR_DOWN)
    beats = ((each.start_us // MICROSECONDS, each.end_us // MICROSECONDS) for each in contacts)
    node.mark(((first_s, last_s + CONTACT_SECONDS) for first_s, last_s in beats), Presence.COLLECTOR_DOWN)
    node.mark(heard, Presence.SAMPLED)
    yield NODE, node
    for device, stretches in sampled.items():
        if device[0]:
            timeline = node.replaced(Presence.SAMPLED, Presence.ABSENT)
            timeline.mark(stretches, Presence.SAMPLED)
            timeline.mark(lost.get(device, ()), Presence.LOST)
            yield device, timeline
