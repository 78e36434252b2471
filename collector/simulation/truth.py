"""What a grant used in truth: sums over the simulated world, second by second, in whole numbers.

It shares no code with the meter: that bills agree with it is what the demo and the tests prove.
"""

from collections.abc import Set
from typing import NamedTuple

from collector.simulation.world import World


class Span(NamedTuple):
    """The whole seconds [start_s, end_s) of one grant.

    `allocation` is None where the grant has the card or MIG instance to itself; where it holds a share, only what
    the allocation itself used counts, which is 0 while nothing of it runs.
    """

    gpu_uuid: str
    mig_uuid: str | None
    allocation: str | None
    start_s: int
    end_s: int


class Truth(NamedTuple):
    """The seconds of a span by what became of them, which sum to its length, and the VRAM of those covered.

    Overuse is what was used beyond the bytes granted, in each second by itself.
    """

    covered_seconds: int
    lost_seconds: int
    hole_seconds: int
    used_vram_byte_seconds: int
    overuse_byte_seconds: int


def truth(
    world: World, span: Span, step_s: int = 1, granted_bytes: int = 0, unsampled: Set[int] = frozenset()
) -> Truth:
    """The truth of a span; it adds over spans cut anywhere.

    `step_s` is 1 for what collectors saw live. For a log of coarser steps, each reading stands for the `step_s`
    seconds that begin with it, counted from the second the world began. Seconds in `unsampled` are holes, also
    where the card was lost: nobody looked.
    """
    covered_seconds = lost_seconds = used = overuse = 0
    second_s = span.start_s
    while second_s < span.end_s:
        read_s = world.started_s + (second_s - world.started_s) // step_s * step_s
        until_s = min(span.end_s, read_s + step_s)
        seconds = sum(1 for each_s in range(second_s, until_s) if each_s not in unsampled)
        if world.is_lost(span.gpu_uuid, read_s):
            lost_seconds += seconds
        elif seconds:
            used_bytes = world.used_bytes(span.gpu_uuid, span.mig_uuid, span.allocation, read_s)
            covered_seconds += seconds
            used += used_bytes * seconds
            overuse += max(0, used_bytes - granted_bytes) * seconds
        second_s = until_s
    hole_seconds = span.end_s - span.start_s - covered_seconds - lost_seconds
    return Truth(covered_seconds, lost_seconds, hole_seconds, used, overuse)
