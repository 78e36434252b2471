"""Random faults by a seed: whatever strikes, every second that was read is in the store once, and the rest is counted.

Holes are holes with a count, and nothing is there that was not true: what a card used in a second is known from the
ground truth of the fake driver, not from the collector.
"""

import secrets
from pathlib import Path

import polars as pl
import pytest

from domain.series import COLLECTOR_LATENESS, GPU_MEMORY_USED, GPU_UP
from tests.collector.faults.node import Node, running_node
from tests.collector.faults.schedule import Struck, strike
from tests.collector.patience import now_s, wait_until
from tests.collector.stores import OwnStore

# As long after a fault as a card may need to be read again: an earlier call has to come back, a driver to be opened.
_AFTER_SECONDS = 15


@pytest.mark.long
@pytest.mark.timeout(1_200)
@pytest.mark.xdist_group("faults")
def test_whatever_strikes_no_second_is_lost_doubled_or_made_up(
    tmp_path: Path, own_store: OwnStore, *, is_soak: bool
) -> None:
    seed = secrets.randbelow(10**6)
    seconds = 600 if is_soak else 60
    began_s = now_s()
    with running_node(tmp_path, own_store) as node:
        node.work(range(began_s - 40, began_s + seconds + 180))
        node.begin()
        wait_until(lambda: "collector_started" in node.log())
        struck = strike(node, seed, seconds)
        node.end()
        samples = node.stored(began_s - 60)
        holes = node.holes()
    story = f"seed {seed}: {struck}\n{node.log()}"

    sampled = samples.filter(pl.col("series") == COLLECTOR_LATENESS.name)["second_s"].sort()
    assert sampled.n_unique() == sampled.len(), story
    span = range(sampled[0], sampled[-1] + 1)
    assert sampled.len() + holes == len(span), story
    assert sampled.len() > seconds / 4, story
    for uuid in node.uuids:
        _check_card(node, uuid, samples.filter(pl.col("gpu_uuid") == uuid), set(sampled), struck, story)


def _check_card(
    node: Node, uuid: str, samples: pl.DataFrame, sampled: set[int], struck: list[Struck], story: str
) -> None:
    """What the store has of one card is true; what it lacks of a sampled second was kept back by a fault."""
    used = samples.filter(pl.col("series") == GPU_MEMORY_USED.name)
    assert used["second_s"].n_unique() == used.height, story
    for second_s, value in used.select("second_s", "value").iter_rows():
        assert value == sum(node.truth.true_second(uuid, second_s).memory_bytes.values()), (second_s, story)
    up = dict(samples.filter(pl.col("series") == GPU_UP.name).select("second_s", "value").iter_rows())
    assert set(used["second_s"]) <= {second_s for second_s, value in up.items() if value == 1}, story
    excused = _seconds_of(struck, {"card_hangs", "card_lost", "driver_unloaded", "collector_killed", "clock_set"})
    lost = {second_s for second_s, value in up.items() if value == 0}
    assert (sampled - up.keys()) | lost <= excused, (sorted((sampled - up.keys()) | lost - excused), story)


def _seconds_of(struck: list[Struck], names: set[str]) -> set[int]:
    """The seconds in which one of these was there, or shortly before, also by a clock that was set meanwhile."""
    return {
        second_s + shift_s
        for name, seconds in struck
        if name in names
        for second_s in range(seconds.start, seconds.stop + _AFTER_SECONDS)
        for shift_s in (0, -5, 30)
    }
