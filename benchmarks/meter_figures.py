"""What the benchmark of the meter found, as the lines of its table."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.figures import Line
from benchmarks.meter_fleet import Fleet
from benchmarks.meter_passes import Passes
from benchmarks.meter_peers import PeerCosts

_HOURS_PER_DAY = 24
_MEMORY_MAX_MIB = 1_000
# How much dearer a card-hour of one size may be than of another, and a second pass than the first: what else runs on
# the machine moves them by as much.
_EVEN_RATIO = 1.25
_AGAIN_RATIO = 1.05
_DUCKDB_RATIO, _PANDAS_RATIO = 3, 25


class Run(NamedTuple):
    """A fleet, and what rating it took."""

    fleet: Fleet
    passes: Passes

    @property
    def card_hours(self) -> int:
        """How much was rated."""
        return self.fleet.cards_count * self.fleet.hours

    @property
    def cpu_ms(self) -> float:
        """Of a core, for each card-hour."""
        return self.passes.cpu_s / self.card_hours * 1_000


def lines(runs: Sequence[Run], costs: PeerCosts) -> Iterator[Line]:
    """The table, line by line; the last run is the largest."""
    yield from _largest(runs[-1])
    for run in runs:
        what = f"{run.fleet.cards_count} cards, {run.fleet.hours} h: processor by card-hour"
        yield Line(what, "ms", run.cpu_ms)
    yield from _growth(runs)
    for name, theirs, at_least in (("DuckDB", costs.duckdb, _DUCKDB_RATIO), ("pandas", costs.pandas, _PANDAS_RATIO)):
        ours, other = (each.cpu_s / costs.samples * 1e9 for each in (costs.ours, theirs))
        yield Line(f"compute step, against {name}: processor", "ns a sample", ours, other)
        yield Line("as many times less", "times", other / ours, at_least=at_least)
        ours, other = (each.wall_s / costs.samples * 1e9 for each in (costs.ours, theirs))
        yield Line(f"compute step, against {name}: time", "ns a sample", ours, other)


def _largest(run: Run) -> Iterator[Line]:
    passes = run.passes
    card_days = run.card_hours / _HOURS_PER_DAY
    yield Line("windows", "", passes.windows)
    yield Line("samples read", "million", passes.samples / 1e6)
    yield Line("charges", "", passes.charges)
    yield Line("time from store to ledger", "s", passes.wall_s)
    yield Line("processor of the meter", "s", passes.cpu_s)
    yield Line("processor by sample", "ns", passes.cpu_s / passes.samples * 1e9)
    yield Line("a second pass, against the first: time", "s", passes.again_wall_s, passes.wall_s)
    at_most = passes.cpu_s * _AGAIN_RATIO
    yield Line("a second pass, against the first: processor", "s", passes.again_cpu_s, passes.cpu_s, at_most=at_most)
    yield Line("memory (RSS) at its peak", "MiB", passes.memory_mib, at_most=_MEMORY_MAX_MIB)
    yield Line("evidence by card-day", "KiB", passes.evidence_bytes / card_days / 1_024)
    for step, seconds in passes.steps_s.items():
        yield Line(f"a window: {step}", "ms", seconds / passes.windows * 1_000)


def _growth(runs: Sequence[Run]) -> Iterator[Line]:
    """Whether a card-hour costs more where there are more cards, or more hours."""
    few, many, all_of_it = runs[0], max(runs, key=lambda run: (run.fleet.cards_count, -run.fleet.hours)), runs[-1]
    for what, one, other in (("cards", few, many), ("hours", many, all_of_it)):
        yield Line(f"a card-hour of the most {what}, against the fewest", "ms", other.cpu_ms, one.cpu_ms)
        yield Line("as many times more", "times", other.cpu_ms / one.cpu_ms, at_most=_EVEN_RATIO)
    memories = [run.passes.memory_mib for run in runs]
    yield Line("most memory of these, against the least", "MiB", max(memories), min(memories))
    yield Line("as many times more", "times", max(memories) / min(memories), at_most=_EVEN_RATIO)
