"""What tenants do on their cards: how much memory and compute a workload wants at a given age.

Each kind is a short beginning and a cycle that repeats, both tables of whole seconds, so that a workload's use at
any second and its busy time up to it are looked up, never added up. Memory changes in steps that last many
seconds, as training and serving programs do, and as a store compresses well.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from random import Random
from typing import NamedTuple


class Workload(StrEnum):
    """The kinds of work. A notebook holds memory and computes nothing; a memory hog outgrows its memory."""

    TRAINING = "training"
    INFERENCE = "inference"
    NOTEBOOK_IDLE = "notebook-idle"
    MEMORY_HOG = "memory-hog"


class Demand(NamedTuple):
    """What a workload wants in one second, in thousandths of its memory limit (above 1,000: more than its own)
    and of the compute it holds."""

    memory_milli: int
    busy_milli: int


@dataclass(frozen=True)
class Pattern:
    """The demand of one kind of workload over its life; `cycle` begins at `phase_s` and follows the `beginning`."""

    beginning: tuple[Demand, ...]
    cycle: tuple[Demand, ...]
    busy_until: tuple[int, ...]
    beginning_busy: int

    def demand(self, age_s: int, phase_s: int) -> Demand:
        """The demand in the second that begins `age_s` seconds after the start."""
        if age_s < len(self.beginning):
            return self.beginning[age_s]
        return self.cycle[(age_s - len(self.beginning) + phase_s) % len(self.cycle)]

    def busy_milli_seconds(self, age_s: int, phase_s: int) -> int:
        """The sum of `busy_milli` over the first `age_s` seconds, in constant time."""
        if age_s <= len(self.beginning):
            return sum(demand.busy_milli for demand in self.beginning[:age_s])
        return self.beginning_busy + self._cycled(age_s - len(self.beginning) + phase_s) - self._cycled(phase_s)

    def _cycled(self, seconds: int) -> int:
        cycles, rest_s = divmod(seconds, len(self.cycle))
        return cycles * self.busy_until[-1] + self.busy_until[rest_s]


def _pattern(beginning: Iterable[Demand], cycle: Iterable[Demand]) -> Pattern:
    first, repeated = tuple(beginning), tuple(cycle)
    return Pattern(
        beginning=first,
        cycle=repeated,
        busy_until=(0, *accumulate(demand.busy_milli for demand in repeated)),
        beginning_busy=sum(demand.busy_milli for demand in first),
    )


def _hold(seconds: int, memory_milli: int, busy_milli: tuple[int, int], noise: Random) -> Iterator[Demand]:
    for _ in range(seconds):
        yield Demand(memory_milli, noise.randint(*busy_milli))


def _training() -> Pattern:
    noise = Random("training")  # noqa: S311 - a load curve is no secret
    beginning = [
        *_hold(3, 60, (0, 40), noise),
        *_hold(3, 350, (100, 300), noise),
        *_hold(4, 720, (400, 700), noise),
    ]
    steps = [*_hold(290, 900, (930, 1_000), noise)]
    checkpoint = [*_hold(10, 840, (60, 180), noise)]
    return _pattern(beginning, [*steps, *checkpoint])


def _inference() -> Pattern:
    noise = Random("inference")  # noqa: S311 - a load curve is no secret
    beginning = [*_hold(4, 200, (0, 50), noise), *_hold(4, 550, (50, 150), noise)]
    cycle: list[Demand] = []
    for _ in range(8):
        cycle += _hold(noise.randint(20, 50), 550, (20, 160), noise)
        cycle += _hold(noise.randint(12, 30), noise.choice((640, 700, 760)), (550, 920), noise)
    return _pattern(beginning, cycle)


def _notebook_idle() -> Pattern:
    noise = Random("notebook")  # noqa: S311 - a load curve is no secret
    beginning = [*_hold(2, 40, (0, 100), noise), *_hold(6, 220, (150, 400), noise)]
    return _pattern(beginning, [*_hold(60, 310, (0, 0), noise)])


def _memory_hog() -> Pattern:
    noise = Random("hog")  # noqa: S311 - a load curve is no secret
    climb = [*_hold(6, 480, (300, 500), noise)]
    for memory_milli in range(560, 1_180, 80):
        climb += _hold(2, memory_milli, (500, 800), noise)
    high = [*_hold(20, 1_200, (700, 900), noise)]
    relief = [*_hold(18, 420, (200, 400), noise)]
    # The first time, every hog gets to the top.
    return _pattern([*climb, *high], [*relief, *climb, *high])


PATTERNS: dict[Workload, Pattern] = {
    Workload.TRAINING: _training(),
    Workload.INFERENCE: _inference(),
    Workload.NOTEBOOK_IDLE: _notebook_idle(),
    Workload.MEMORY_HOG: _memory_hog(),
}
