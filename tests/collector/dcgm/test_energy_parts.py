"""R7: the energy of a card in parts, by the rule of docs/owners.md and with the very queries that stand there."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from domain.samples import UNATTRIBUTED, SampleRun
from domain.series import GPU_ENERGY, GPU_GR_ACTIVE, MIG_INFO, OWNER_COMPUTE, Series
from tests.collector.patience import now_s
from victoriametrics.push import Pusher
from victoriametrics.read import Reader

DOCUMENT = Path(__file__).parents[3] / "docs" / "owners.md"
BY_OWNER, BY_INSTANCE = re.findall(r"^```metricsql\n(.*?)^```$", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL)

# The window of the queries.
HOUR_S = 3_600
# Of two instances the profile is told, of the third it is not.
PROFILES = {"MIG-3": "3g.20gb", "MIG-1": "1g.5gb+me"}
SIZES = {"": 1.0, "MIG-3": 3 / 7, "MIG-1": 1 / 7, "MIG-untold": 0.0}
WHOLE = [("", "alloc:a"), ("", "slurm:7"), ("", UNATTRIBUTED)]
SHARED = [(mig_uuid, owner) for mig_uuid in list(SIZES)[1:] for owner in ("alloc:a", "alloc:b", UNATTRIBUTED)]
# Seconds after the window's begin: nothing is told, no owners are, the counter begins anew. The hole takes three of the
# seconds in which profiles are told.
HOLE, UNOWNED, RESET = range(600, 730), range(1_200, 1_220), 2_000

Place = tuple[str, str]


class Card:
    """What a card tells in the hour up to `end_s`: energy, and what each owner computes on it and its instances."""

    def __init__(self, end_s: int, places: list[Place], seed: int) -> None:
        random = Random(seed)
        self.joules: dict[int, int] = {}
        self.ratios: dict[Place, dict[int, float]] = {place: {} for place in places}
        counted = 15_000_000
        for after_s in range(HOUR_S + 1):
            second_s = end_s - HOUR_S + after_s
            counted = 0 if after_s == RESET else counted + random.randrange(60, 701)
            if after_s in HOLE:
                continue
            self.joules[second_s] = counted
            if after_s not in UNOWNED:
                for mig_uuid in {mig_uuid for mig_uuid, _ in places}:
                    owners = [place for place in places if place[0] == mig_uuid]
                    cuts = sorted(random.choice((0, 0.25, 0.5, 1)) for _ in owners)
                    for place, low, high in zip(owners, (0, *cuts), cuts, strict=False):
                        self.ratios[place][second_s] = high - low

    def drawn(self, *, across_holes: bool) -> Iterator[tuple[int, int]]:
        """The joules of each second, by the second that they were read in."""
        for before_s, second_s in pairwise(self.joules):
            if across_holes or second_s == before_s + 1:
                before, now = self.joules[before_s], self.joules[second_s]
                yield second_s, now - before if now >= before else now

    def parts(self) -> dict[Place, float]:
        """The joules of what each owner computed, worked out by hand; those of nobody's work are among them."""
        parts: defaultdict[Place, float] = defaultdict(float)
        for second_s, joules in self.drawn(across_holes=False):
            for (mig_uuid, owner), ratios in self.ratios.items():
                parts[mig_uuid, owner] += joules * ratios.get(second_s, 0) * SIZES[mig_uuid]
        return parts


@pytest.fixture
def end_s() -> int:
    return now_s() // 60 * 60 - 120


@pytest.fixture
def cards(end_s: int, unique_node: str, pusher: Pusher) -> dict[str, Card]:
    """A card, one in MIG mode, and one that nobody uses, in the store."""
    cards = {
        f"{unique_node}-{name}": Card(end_s, places, seed)
        for seed, (name, places) in enumerate({"whole": WHOLE, "mig": SHARED, "idle": []}.items())
    }
    for uuid, card in cards.items():
        pusher.send(_runs({"node": unique_node, "gpu_uuid": uuid}, card))
    pusher.flush()
    return cards


def _runs(device: dict[str, str], card: Card) -> Iterator[SampleRun]:
    yield _run(GPU_ENERGY, device, card.joules)
    active: dict[str, dict[int, float]] = {}
    for (mig_uuid, owner), ratios in card.ratios.items():
        yield _run(OWNER_COMPUTE, device | {"mig_uuid": mig_uuid, "owner": owner}, ratios)
        of_instance = active.setdefault(mig_uuid, dict.fromkeys(ratios, 0))
        active[mig_uuid] = {second_s: of_instance[second_s] + ratio for second_s, ratio in ratios.items()}
    for mig_uuid, by_second in active.items():
        yield _run(GPU_GR_ACTIVE, device | {"mig_uuid": mig_uuid}, by_second)
        if mig_uuid in PROFILES:
            named = {"mig_uuid": mig_uuid, "gi_id": "1", "generation": "1", "profile": PROFILES[mig_uuid]}
            yield _run(MIG_INFO, device | named, {second_s: 1 for second_s in card.joules if second_s % 60 == 0})


def _run(series: Series, labels: dict[str, str], values: Mapping[int, float]) -> SampleRun:
    return SampleRun(series, labels, tuple(values), tuple(values.values()))


def _told(reader: Reader, query: str, end_s: int, label: str) -> dict[str, dict[str, float]]:
    """What the query says of each card, by that label."""
    told: dict[str, dict[str, float]] = {}
    for line in reader.instant(query, end_s):
        told.setdefault(line.labels["gpu_uuid"], {})[line.labels.get(label, "")] = line.values[0]
    return told


def test_r7_parts_by_owner_are_those_of_the_rule_and_sum_to_the_card(
    cards: dict[str, Card], end_s: int, reader: Reader
) -> None:
    """R7: what is nobody's, of idle slices or of seconds that are not known is `unattributed`, and never below 0."""
    told = _told(reader, BY_OWNER, end_s, "owner")

    for uuid, card in cards.items():
        expected: defaultdict[str, float] = defaultdict(float)
        for (_, owner), joules in card.parts().items():
            expected[owner] += joules
        total = sum(joules for _, joules in card.drawn(across_holes=True))
        expected[UNATTRIBUTED] = total - sum(joules for owner, joules in expected.items() if owner != UNATTRIBUTED)
        assert told[uuid] == pytest.approx(expected, rel=1e-9)
        assert sum(told[uuid].values()) == pytest.approx(total, rel=1e-12)
        assert min(told[uuid].values()) > 0
    assert [len(told[uuid]) for uuid in cards] == [3, 3, 1]


def test_r7_parts_by_instance_are_their_owners_and_sum_to_the_card(
    cards: dict[str, Card], end_s: int, reader: Reader
) -> None:
    """R7: an instance whose size is not told is the card's own, and so is all of a card without instances."""
    told = _told(reader, BY_INSTANCE, end_s, "mig_uuid")

    for uuid, card in cards.items():
        total = sum(joules for _, joules in card.drawn(across_holes=True))
        expected: defaultdict[str, float] = defaultdict(float)
        for (mig_uuid, _), joules in card.parts().items():
            expected[mig_uuid] += joules if mig_uuid in PROFILES else 0
        expected[""] = total - sum(expected.values())
        assert told[uuid] == pytest.approx({name: joules for name, joules in expected.items() if joules}, rel=1e-9)
        assert sum(told[uuid].values()) == pytest.approx(total, rel=1e-12)
    assert [len(told[uuid]) for uuid in cards] == [1, 3, 1]


def test_r7_a_card_that_computes_all_the_time_is_its_owners(
    end_s: int, unique_node: str, pusher: Pusher, reader: Reader
) -> None:
    """R7: nothing is left over, nor taken from anybody, where one has all of the card."""
    seconds = range(end_s - HOUR_S, end_s + 1)
    device = {"node": unique_node, "gpu_uuid": f"{unique_node}-0"}
    energy = {second_s: 7_000_000 + 700 * number for number, second_s in enumerate(seconds)}
    pusher.send(
        [
            _run(GPU_ENERGY, device, energy),
            _run(OWNER_COMPUTE, device | {"owner": "alloc:a"}, dict.fromkeys(seconds, 1.0)),
        ]
    )
    pusher.flush()

    (parts,) = (told for uuid, told in _told(reader, BY_OWNER, end_s, "owner").items() if uuid == device["gpu_uuid"])

    assert parts == {"alloc:a": 700 * HOUR_S, UNATTRIBUTED: 0}
