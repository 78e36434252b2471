"""What each granted second is worth when it was not sampled: measured, bridged, on record, or free."""

from collections.abc import Iterable
from enum import StrEnum
from functools import cache
from itertools import groupby

from domain.prices import GapPolicy, GapRules
from meter.evidence.presence import Presence

# A second with a sample, and one in which the card was said to be lost.
_NO_HOLE = (Presence.SAMPLED, Presence.LOST)


class GapClass(StrEnum):
    """The class of one granted second; all but FREE are billed."""

    MEASURED = "measured"
    BRIDGED = "bridged"
    ON_RECORD = "on_record"
    FREE = "free"


def classify(presence: Iterable[tuple[int, int, int]], rules: GapRules) -> list[tuple[int, int, GapClass]]:
    """The runs (start_s, end_s, value) of a device's presence (`Evidence.line`), with a gap class each for the value.

    A hole is every second between two samples; one of up to `bridge_seconds` is bridged. A second in which the
    card was said to be lost is no hole, and neither is what runs off the end of what is known.
    """
    classes = _classes(rules)
    stretches = [list(runs) for _, runs in groupby(presence, key=lambda run: run[2] == Presence.SAMPLED)]
    found: list[tuple[int, int, GapClass]] = []
    for number, runs in enumerate(stretches):
        # Of two neighbours one is sampled, so what has one on both sides lies between two samples or is one.
        is_hole = 0 < number < len(stretches) - 1 and all(run[2] not in _NO_HOLE for run in runs)
        is_bridged = is_hole and runs[-1][1] - runs[0][0] <= rules.bridge_seconds
        found += (
            (start_s, end_s, GapClass.BRIDGED if is_bridged else classes[value]) for start_s, end_s, value in runs
        )
    return found


@cache
def _classes(rules: GapRules) -> dict[int, GapClass]:
    """By presence, but for what is bridged."""
    return {
        Presence.SAMPLED: GapClass.MEASURED,
        Presence.LOST: GapClass.FREE,
        Presence.ABSENT: GapClass.FREE,
        Presence.COLLECTOR_DOWN: _by_policy(rules.collector_down),
        Presence.HOST_UNREACHABLE: _by_policy(rules.host_unreachable),
    }


def _by_policy(policy: GapPolicy) -> GapClass:
    return GapClass.FREE if policy is GapPolicy.FREE else GapClass.ON_RECORD
