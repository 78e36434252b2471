"""What a store has of one card, second by second, held against what was true of it.

Used memory and its owners are exact in every second. So is energy: its counter moves by whole seconds, so that it says
the same whenever within a second it is read, and it is read to the millijoule; only in the second in which the driver
is loaded it stands at 0, which a collector does not take for a count. Rates are told by the driver of periods of 0.1 s
that have ended, of the 1.6 s before the read at most: they are exact where nothing changed in that time, and in all
other seconds the owners sum to the card's.
"""

import math
from collections import defaultdict
from dataclasses import dataclass

import polars as pl
import pytest

from domain.series import GPU_BUSY, GPU_ENERGY, GPU_MEMORY_USED, GPU_UP, OWNER_COMPUTE, OWNER_MEMORY, Series
from tests.collector.faults.work import NodeWork
from tests.fakes.nvml.truth import SECOND_US, TrueSecond

# How many seconds before the one that it is read in a rate may be of.
_RATE_SECONDS = 2
_ROUNDING = 1e-6


@dataclass(frozen=True)
class CardEvidence:
    """One card: whether it was up, of each second that has a reading of it; and when it told what it used."""

    up: dict[int, float]
    told: frozenset[int]

    @property
    def lost(self) -> set[int]:
        """The seconds in which it was down."""
        return {second_s for second_s, value in self.up.items() if value == 0}


def true_card(work: NodeWork, uuid: str, samples: pl.DataFrame) -> CardEvidence:
    """What the store has of one card. Fails where it was not true."""
    of_card = samples.filter(pl.col("gpu_uuid") == uuid)
    up, used, busy, energy = (by_second(of_card, series) for series in (GPU_UP, GPU_MEMORY_USED, GPU_BUSY, GPU_ENERGY))
    memory, compute = by_owner(of_card, OWNER_MEMORY), by_owner(of_card, OWNER_COMPUTE)
    truth = _CardTruth(work, uuid)
    assert used.keys() <= {second_s for second_s, value in up.items() if value == 1}, uuid
    for told in (busy, energy, memory, compute):
        assert told.keys() == used.keys(), (uuid, sorted(told.keys() ^ used.keys()))
    for second_s, used_bytes in used.items():
        true = truth.second(second_s)
        assert used_bytes == sum(true.memory_bytes.values()) > 0, (uuid, second_s)
        assert memory[second_s] == work.by_owner(true.memory_bytes), (uuid, second_s)
        if (told_millijoules := truth.millijoules(second_s)) is not None:
            assert round(energy[second_s] * 1_000) in told_millijoules, (uuid, second_s)
        if truth.is_steady(second_s):
            assert busy[second_s] == pytest.approx(float(true.busy), abs=_ROUNDING), (uuid, second_s)
            assert compute[second_s] == pytest.approx(work.by_owner(true.busy_by_pid), abs=_ROUNDING), (uuid, second_s)
        else:
            assert sum(compute[second_s].values()) == pytest.approx(busy[second_s], abs=_ROUNDING), (uuid, second_s)
            assert min(compute[second_s].values()) >= 0, (uuid, second_s)
    return CardEvidence(up, frozenset(used))


def by_second(of_card: pl.DataFrame, series: Series) -> dict[int, float]:
    """The values of one series of a card or MIG instance, of which alone the frame is, by second."""
    return dict(of_card.filter(pl.col("series") == series.name).select("second_s", "value").iter_rows())


def by_owner(of_card: pl.DataFrame, series: Series) -> dict[int, dict[str, float]]:
    """The same of a series by owner."""
    found: defaultdict[int, dict[str, float]] = defaultdict(dict)
    rows = of_card.filter(pl.col("series") == series.name).select("second_s", "owner", "value")
    for second_s, owner, value in rows.iter_rows():
        found[second_s][owner] = value
    return dict(found)


class _CardTruth:
    """What was true of one card, as its driver can tell it."""

    def __init__(self, work: NodeWork, uuid: str) -> None:
        self._work = work
        self._uuid = uuid
        self._seconds: dict[int, TrueSecond] = {}

    def second(self, second_s: int) -> TrueSecond:
        found = self._seconds.get(second_s)
        if found is None:
            found = self._seconds[second_s] = self._work.truth.true_second(self._uuid, second_s)
        return found

    def is_steady(self, second_s: int) -> bool:
        """Whether all computed alike in all the time that a rate which is told in that second may be of."""
        earlier = range(second_s - _RATE_SECONDS, second_s)
        return all(self.second(each).busy_by_pid == self.second(second_s).busy_by_pid for each in earlier)

    def millijoules(self, second_s: int) -> set[int] | None:
        """What the counter of energy may say in that second: what was drawn since the driver was loaded last.

        One of two numbers where a second ended while it was loaded. None where it was loaded in that very second.
        """
        loads, read_at = self._work.loads, self._work.read_at(second_s)
        if any(at_s in seconds for seconds in loads for at_s in read_at):
            return None
        drawn = self._drawn_millijoules(second_s)
        found: set[int] = set()
        for at_s in read_at:
            before = [seconds for seconds in loads if seconds.stop <= at_s]
            found |= {drawn - self._drawn_millijoules(each) for each in before[-1]} if before else {drawn}
        return found

    def _drawn_millijoules(self, second_s: int) -> int:
        joules = self._work.truth.true_span(self._uuid, self._work.start_us, second_s * SECOND_US).joules
        assert joules is not None
        return math.floor(joules * 1_000)
