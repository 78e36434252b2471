"""What a store has of a node after faults, held against what was true: each second once, or counted, and nothing else.

What a card used in a second is known from the ground truth of the fake driver, not from the collector: see
`card_evidence.py`.
"""

from collections.abc import Iterable
from itertools import pairwise

import polars as pl

from collector.delivery.holes import HoleReason
from domain.series import (
    COLLECTOR_COMPLETE_UNTIL,
    COLLECTOR_HOLES,
    COLLECTOR_LATENESS,
    COLLECTOR_MISSED,
    GPU_FIELD_STATE,
    GPU_UP,
)
from tests.collector.faults.card_evidence import CardEvidence, true_card
from tests.collector.faults.node import Node


class Evidence:
    """Everything there is of a node whose collector has ended and delivered all it had, and vouched for it."""

    def __init__(self, node: Node, start_s: int, in_place: Iterable[str] = ()) -> None:
        """Fails where a second is missing that was not counted, or there twice, or where what is there was not true.

        `in_place` are the queues' folders of those that told of the node in its collector's place for a while.
        """
        self._samples = node.stored(start_s)
        self.holes_by_reason = node.holes()
        self.holes = sum(self.holes_by_reason.values())
        sampled = self._samples.filter(pl.col("series") == COLLECTOR_LATENESS.name)["second_s"].sort()
        assert sampled.n_unique() == sampled.len(), node.log()
        self.sampled = frozenset(sampled)
        self.span = range(sampled[0], sampled[-1] + 1)
        others = sum(node.sampled_in_place(data) for data in in_place)
        missing = sorted(set(self.span) - self.sampled)
        assert len(self.sampled) == len(self.span) - self.holes + others, (missing, self.holes_by_reason, node.log())
        assert self._told_holes() == self.holes_by_reason, node.log()
        assert not self.holes_by_reason[HoleReason.UNRECORDED], "each has a reason"
        marks = self._samples.filter(pl.col("series") == COLLECTOR_COMPLETE_UNTIL.name).sort("second_s")["value"]
        assert marks[-1] == self.span.stop, node.log()
        self.cards = _true_cards(node, self._samples)
        for uuid, card in self.cards.items():
            mute = self.sampled - card.up.keys()
            unexplained = mute - self._told_why(uuid, card)
            assert len(unexplained) <= self._counted(uuid) <= len(mute), (uuid, sorted(mute), node.log())

    def untold(self, uuid: str) -> set[int]:
        """The sampled seconds in which that card told nothing, or that it is lost."""
        return set(self.sampled - self.cards[uuid].told)

    def _told_holes(self) -> dict[HoleReason, int]:
        """How many holes the last second that was sampled tells, for each reason."""
        last = self._samples.filter(
            (pl.col("series") == COLLECTOR_HOLES.name) & (pl.col("second_s") == self.span.stop - 1)
        )
        return {HoleReason(reason): int(value) for reason, value in last.select("reason", "value").iter_rows()}

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


def _true_cards(node: Node, samples: pl.DataFrame) -> dict[str, CardEvidence]:
    """What the store has of each card: see `true_card`. A failure has what the collectors said."""
    try:
        return {uuid: true_card(node.work, uuid, samples) for uuid in node.uuids}
    except AssertionError as failure:
        failure.add_note(node.log())
        raise
