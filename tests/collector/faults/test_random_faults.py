"""Random faults by a seed: whatever strikes, every second that was read is in the store once, and the rest is counted.

Each fault by itself, at its full length, is in `test_named_faults.py`.
"""

import secrets
from pathlib import Path

import pytest

from tests.collector.faults.evidence import Evidence
from tests.collector.faults.node import running_node
from tests.collector.faults.schedule import Struck, strike
from tests.collector.patience import now_s
from tests.collector.stores import own_store
from tests.side_by_side import side_by_side

# As long after a fault as a card may need to be read again: an earlier call has to come back, a driver to be opened.
_AFTER_SECONDS = 15


@pytest.mark.long
@side_by_side
def test_whatever_strikes_no_second_is_lost_doubled_or_made_up(
    folder: Path, nvml_library: Path, victoriametrics_binary: Path, *, is_soak: bool
) -> None:
    seed = secrets.randbelow(10**6) if is_soak else 1
    seconds = 600 if is_soak else 60
    began_s = now_s()
    with own_store(victoriametrics_binary, folder) as store, running_node(folder, nvml_library, store) as node:
        node.work(range(began_s - 40, began_s + seconds + 180))
        node.begin()
        struck = strike(node, seed, seconds)
        node.story = f"seed {seed}: {struck}\n"
        node.end()
        evidence = Evidence(node, began_s - 60)
    assert len(evidence.sampled) > seconds / 4, node.log()
    excused = _seconds_of(struck, {"card_hangs", "card_lost", "driver_unloaded", "collector_killed", "clock_set"})
    for uuid in node.uuids:
        missed = evidence.sampled - evidence.cards[uuid].up.keys() | evidence.cards[uuid].lost
        assert missed <= excused, (sorted(missed - excused), node.log())


def _seconds_of(struck: list[Struck], names: set[str]) -> set[int]:
    """The seconds in which one of these was there, or shortly before, also by a clock that was set meanwhile."""
    return {
        second_s + shift_s
        for name, seconds in struck
        if name in names
        for second_s in range(seconds.start, seconds.stop + _AFTER_SECONDS)
        for shift_s in (0, -5, 30)
    }
