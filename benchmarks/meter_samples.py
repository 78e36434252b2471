"""What the collectors of the fleet would have sent: levels of VRAM, busy phases, owners, holes and lost cards.

Every (card, hour) is made by itself out of its own number, so that any part of it is the same as in the whole.
"""

import random
from collections.abc import Iterable, Iterator
from itertools import compress
from typing import NamedTuple

from benchmarks.meter_fleet import START_S, Card, Fleet, Part
from domain.grants import Grant, GrantKind
from domain.period import HOUR_S, ceil_second
from domain.samples import UNATTRIBUTED, SampleRun, allocation_owner
from domain.series import (
    COLLECTOR_COMPLETE_UNTIL,
    COLLECTOR_LATENESS,
    GPU_BUSY,
    GPU_MEMORY_USED,
    GPU_UP,
    OWNER_COMPUTE,
    OWNER_MEMORY,
    Series,
)
from domain.units import MIB

# A level lasts so long on average; it is of 2 MiB steps, as drivers give memory out.
_LEVEL_SECONDS = 60
_STEP_BYTES = 2 * MIB
# One level in so many of an instance or a share is above what is granted; of a whole card there is no more.
_OVERUSED_ONE_IN = 12
_PHASE_SECONDS = 120
# Of an hour: a node misses some seconds in a row, each of its cards a few by themselves. Together 0.2 %.
_NODE_HOLE_SECONDS = 4
_CARD_HOLES, _CARD_HOLE_SECONDS_MAX = 2, 3
# Each fourth hour one card of a node is lost for so long.
_LOST_EVERY_HOURS, _LOST_SECONDS = 4, 30
# The mark is past the end of the last hour by more than what is read of the next.
_MARKED_AFTER_S = 120


class _Hour(NamedTuple):
    """The seconds of a card in an hour, as offsets into it: of which there are samples, and when it was lost."""

    sampled: list[int]
    lost: range


def samples_of(fleet: Fleet, node: str, hour: int) -> Iterator[SampleRun]:
    """What the node sent in the hour (0 is the first), by card and series."""
    start_s = START_S + hour * HOUR_S
    hole = _node_hole(node, hour)
    ticks = [offset for offset in range(HOUR_S) if offset not in hole]
    chance = _chance("ticks", node, hour)
    lateness = [chance.randrange(1, 30) / 1_000 for _ in ticks]
    yield SampleRun(COLLECTOR_LATENESS, {"node": node}, [start_s + offset for offset in ticks], lateness)
    for card in fleet.cards_of(node):
        yield from _of_card(fleet, card, hour, hole)


def marks_of(fleet: Fleet) -> Iterator[SampleRun]:
    """Every node's word that all of it was delivered."""
    end_s = START_S + fleet.hours * HOUR_S
    for node in fleet.nodes:
        yield SampleRun(COLLECTOR_COMPLETE_UNTIL, {"node": node}, [end_s], [end_s + _MARKED_AFTER_S])


def _chance(*words: object) -> random.Random:
    return random.Random(" ".join(map(str, words)))  # noqa: S311 - deterministic data, no secret


def _node_hole(node: str, hour: int) -> range:
    start = _chance("hole", node, hour).randrange(HOUR_S - _NODE_HOLE_SECONDS)
    return range(start, start + _NODE_HOLE_SECONDS)


def _seconds(card: Card, hour: int, hole: range) -> _Hour:
    chance = _chance("seconds", card.number, hour)
    is_there = [1] * HOUR_S
    holes = [hole]
    for _ in range(_CARD_HOLES):
        start = chance.randrange(HOUR_S)
        holes.append(range(start, min(HOUR_S, start + chance.randint(1, _CARD_HOLE_SECONDS_MAX))))
    lost = range(0)
    if hour % _LOST_EVERY_HOURS == card.number % _LOST_EVERY_HOURS and hour // _LOST_EVERY_HOURS == card.index:
        start = chance.randrange(HOUR_S - _LOST_SECONDS)
        lost = range(start, start + _LOST_SECONDS)
    for each in (*holes, lost):
        is_there[each.start : each.stop] = bytes(len(each))
    return _Hour(list(compress(range(HOUR_S), is_there)), lost)


def _of_card(fleet: Fleet, card: Card, hour: int, hole: range) -> Iterator[SampleRun]:
    start_s = START_S + hour * HOUR_S
    sampled, lost = _seconds(card, hour, hole)
    seconds = [start_s + offset for offset in sampled]
    labels = {"node": card.node, "gpu_uuid": card.gpu_uuid}
    # A lost card says nothing but that.
    lost_seconds = [start_s + offset for offset in lost]
    up = [*((second, 1) for second in seconds), *((second, 0) for second in lost_seconds)]
    yield SampleRun(GPU_UP, labels, *map(list, zip(*sorted(up), strict=True)))
    total = [0] * HOUR_S
    for place, part in enumerate(card.parts):
        used = _levels(_chance("vram", card.number, place, hour), part)
        total = [min(card.vram_total_bytes, sum(both)) for both in zip(total, used, strict=True)]
        if part.mig_uuid is not None:
            of_part = {**labels, "mig_uuid": part.mig_uuid}
            yield _run(GPU_UP, of_part, seconds, [1] * len(seconds))
            yield _run(GPU_MEMORY_USED, of_part, seconds, [used[offset] for offset in sampled])
            yield _run(OWNER_MEMORY, {**of_part, "owner": UNATTRIBUTED}, seconds, [used[each] for each in sampled])
        elif not card.is_h100:
            yield from _of_owners(labels, fleet.held[card][place], start_s, sampled, used)
    busy = _busy(_chance("busy", card.number, hour))
    yield _run(GPU_MEMORY_USED, labels, seconds, [total[offset] for offset in sampled])
    if card.is_mig:
        return
    yield _run(GPU_BUSY, labels, seconds, [busy[offset] for offset in sampled])
    rest = {**labels, "owner": UNATTRIBUTED}
    # Where owners are told apart, nothing is left over.
    yield _run(OWNER_MEMORY, rest, seconds, [total[each] if card.is_h100 else 0 for each in sampled])
    yield _run(OWNER_COMPUTE, rest, seconds, [busy[each] if card.is_h100 else 0 for each in sampled])


def _of_owners(
    labels: dict[str, str], grants: Iterable[Grant], start_s: int, sampled: list[int], used: list[int]
) -> Iterator[SampleRun]:
    """Each grant's owner for as long as it is there; between two of them what is used is nobody's and left out."""
    for grant in grants:
        held = range(grant.period.first_second - start_s, ceil_second(grant.period.end_us) - start_s)
        if within := [offset for offset in sampled if offset in held]:
            of_owner = {**labels, "owner": allocation_owner(grant.allocation)}
            yield _run(OWNER_MEMORY, of_owner, [start_s + each for each in within], [used[each] for each in within])


def _levels(chance: random.Random, part: Part) -> list[int]:
    levels: list[int] = []
    while len(levels) < HOUR_S:
        level = chance.randrange(part.vram_bytes // _STEP_BYTES) * _STEP_BYTES
        if part.kind is not GrantKind.WHOLE and chance.randrange(_OVERUSED_ONE_IN) == 0:
            level = part.vram_bytes * 9 // 8
        levels += [level] * (1 + int(chance.expovariate(1 / _LEVEL_SECONDS)))
    return levels[:HOUR_S]


def _busy(chance: random.Random) -> list[float]:
    """Phases of work, in which every second is another, and of none; whole percents, as drivers say it."""
    busy: list[float] = []
    while len(busy) < HOUR_S:
        seconds = 1 + int(chance.expovariate(1 / _PHASE_SECONDS))
        middle = chance.choice((0, 60, 95))
        noise = chance.choices(range(-5, 6), k=seconds) if middle else [0] * seconds
        busy += [min(100, middle + each) / 100 for each in noise]
    return busy[:HOUR_S]


def _run(series: Series, labels: dict[str, str], seconds: list[int], values: list[int] | list[float]) -> SampleRun:
    return SampleRun(series, labels, seconds, values)
