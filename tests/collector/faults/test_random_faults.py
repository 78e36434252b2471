"""Random faults by a seed: whatever strikes, every second that was read is in the store once, and the rest is counted.

Each fault by itself, at its full length, is in `test_named_faults.py`.
"""

import secrets
from pathlib import Path

import pytest

from domain.series import COLLECTOR_LATENESS
from tests.collector.faults.evidence import Evidence
from tests.collector.faults.node import running_node
from tests.collector.faults.schedule import IN_PLACE, Struck, collector_replaced, down_seconds, strike
from tests.collector.patience import now_s, wait_until
from tests.collector.stores import own_store
from tests.side_by_side import side_by_side


@pytest.mark.long
@side_by_side
def test_whatever_strikes_no_second_is_lost_doubled_or_made_up(
    folder: Path, nvml_library: Path, victoriametrics_binary: Path, *, is_soak: bool
) -> None:
    # That of the slice has each fault, and loses a card while the others may not be down.
    seed = secrets.randbelow(10**6) if is_soak else 9525
    seconds = 600 if is_soak else 60
    began_s = now_s()
    with own_store(victoriametrics_binary, folder) as store, running_node(folder, nvml_library, store) as node:
        node.work.run(range(began_s - 40, began_s + seconds + 180))
        node.begin()
        # Holes are counted from the first second on, which one that is killed before it never had.
        wait_until(lambda: not node.samples(began_s, now_s() + 60, COLLECTOR_LATENESS).is_empty())
        struck = strike(node, seed, seconds)
        node.story = f"seed {seed}: {struck}\n"
        in_place = [IN_PLACE] if any(fault.name == collector_replaced.__name__ for fault in struck) else []
        for data in in_place:
            node.deliver(data)
        node.end()
        evidence = Evidence(node, began_s - 60, in_place)
    assert len(evidence.sampled) > seconds / 4, node.log()
    for uuid in node.uuids:
        down_s = down_seconds(struck, uuid)
        assert evidence.cards[uuid].up.keys() - down_s, "there are seconds in which it may not be down"
        assert evidence.cards[uuid].lost <= down_s, (uuid, sorted(evidence.cards[uuid].lost - down_s), node.log())


def test_a_card_may_be_down_by_what_struck_it_and_by_nothing_else() -> None:
    struck = [
        Struck("card_lost", range(100, 110), ["GPU-1"]),
        Struck("collector_killed", range(120, 130), []),
        Struck("driver_unloaded", range(200, 210), ["GPU-1", "GPU-2"]),
    ]
    assert down_seconds(struck, "GPU-1") == {*range(100, 118), *range(200, 225)}
    assert down_seconds(struck, "GPU-2") == {*range(200, 225)}
