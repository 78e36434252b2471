"""What a store has of a node after faults, held against what was true: each second once, or counted, and nothing else.

What a card used in a second is known from the ground truth of the fake driver, not from the collector.
"""

from dataclasses import dataclass
from itertools import pairwise

import polars as pl

from domain.series import (
    COLLECTOR_COMPLETE_UNTIL,
    COLLECTOR_LATENESS,
    COLLECTOR_MISSED,
    GPU_FIELD_STATE,
    GPU_MEMORY_USED,
    GPU_UP,
)
from tests.collector.faults.node import Node


@dataclass(frozen=True)
class CardEvidence:
    """One card by second: whether it was up, of each second that has a reading of it; and where it told its memory."""

    up: dict[int, float]
    told: frozenset[int]

    @property
    def lost(self) -> set[int]:
        """The seconds in which it was down."""
        return {second_s for second_s, value in self.up.items() if value == 0}


class Evidence:
    """Everything there is of a node whose collector has ended and delivered all it had, and vouched for it."""

    def __init__(self, node: Node, start_s: int) -> None:
        """Fails where a second is missing that was not counted, or there twice, or where what is there was not true."""
        self._samples = node.stored(start_s)
        self.holes = node.holes()
        sampled = self._samples.filter(pl.col("series") == COLLECTOR_LATENESS.name)["second_s"].sort()
        assert sampled.n_unique() == sampled.len(), node.log()
        self.sampled = frozenset(sampled)
        self.span = range(sampled[0], sampled[-1] + 1)
        assert len(self.sampled) + self.holes == len(self.span), (sorted(set(self.span) - self.sampled), node.log())
        marks = self._samples.filter(pl.col("series") == COLLECTOR_COMPLETE_UNTIL.name).sort("second_s")["value"]
        assert marks[-1] == self.span.stop, node.log()
        self.cards = {uuid: true_card(node, uuid, self._samples) for uuid in node.uuids}
        for uuid, card in self.cards.items():
            mute = self.sampled - card.up.keys()
            unexplained = mute - self._told_why(uuid, card)
            assert len(unexplained) <= self._counted(uuid) <= len(mute), (uuid, sorted(mute), node.log())

    def untold(self, uuid: str) -> set[int]:
        """The sampled seconds in which that card told nothing, or that it is lost."""
        return set(self.sampled - self.cards[uuid].told)

    def _told_why(self, uuid: str, card: CardEvidence) -> set[int]:
        """The seconds in which the collector said why the card had nothing to say, such as right after a reload."""
        of_card = self._samples.filter(
            (pl.col("series") == GPU_FIELD_STATE.name)
            & (pl.col("gpu_uuid") == uuid)
            & (pl.col("field") == GPU_UP.name)
            & (pl.col("value") == 1)
        )
        told: set[int] = set()
        for second_s in of_card["second_s"]:
            until_s = min((each for each in card.up if each > second_s), default=self.span.stop)
            told.update(range(second_s, until_s))
        return told

    def _counted(self, uuid: str) -> int:
        """How many reads of the card were counted as missed; each collector begins at 0."""
        of_card = self._samples.filter((pl.col("series") == COLLECTOR_MISSED.name) & (pl.col("gpu_uuid") == uuid))
        counts = of_card.sort("second_s")["value"].to_list()
        return int(sum(now - before if now >= before else now for before, now in pairwise([0, *counts])))


def true_card(node: Node, uuid: str, samples: pl.DataFrame) -> CardEvidence:
    """What the store has of one card. Fails where it was not true, or is there twice."""
    of_card = samples.filter(pl.col("gpu_uuid") == uuid)
    used = of_card.filter(pl.col("series") == GPU_MEMORY_USED.name)
    assert used["second_s"].n_unique() == used.height, node.log()
    for second_s, value in used.select("second_s", "value").iter_rows():
        true = node.truth.true_second(uuid, second_s)
        assert value == sum(true.memory_bytes.values()) > 0, (uuid, second_s, node.log())
    up = dict(of_card.filter(pl.col("series") == GPU_UP.name).select("second_s", "value").iter_rows())
    card = CardEvidence(up, frozenset(used["second_s"]))
    assert card.told <= {second_s for second_s, value in up.items() if value == 1}, node.log()
    return card
