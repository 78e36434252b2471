"""What the benchmark of the collector found, as the lines of its table."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import httpx

from benchmarks.figures import Line
from benchmarks.pushing import Costs
from benchmarks.watched_run import Watched
from domain.series import COLLECTOR_DELIVERY, COLLECTOR_LATENESS, COLLECTOR_READ, Series

_MILLISECONDS = 1_000
_PUNCTUAL_SECONDS = 0.05


class OwnSamples(NamedTuple):
    """What a collector said of itself in the seconds that were watched, by second."""

    lateness_s: dict[int, float]
    read_s: dict[int, float]
    delivery_s: dict[int, float]


def own_samples(url: str, node: str, stamps_s: Sequence[float]) -> OwnSamples:
    """Read back from the store, for the seconds with those stamps."""
    with httpx.Client(base_url=url, trust_env=False) as client:
        seconds = range(int(min(stamps_s)), int(max(stamps_s)) + 1)
        wanted = (COLLECTOR_LATENESS, COLLECTOR_READ, COLLECTOR_DELIVERY)
        return OwnSamples(*(_by_second(client, series, node, seconds) for series in wanted))


def lines(ours: Watched, own: OwnSamples, theirs: Watched, costs: Costs, letting_go_s: float) -> Iterator[Line]:
    """The table, line by line."""
    punctual = [late_s + own.read_s[second_s] <= _PUNCTUAL_SECONDS for second_s, late_s in own.lateness_s.items()]
    yield Line("processor", "% of a core", 100 * ours.cpu_share, 100 * theirs.cpu_share, at_most=2)
    yield Line("memory (RSS)", "MiB", ours.rss_mib, theirs.rss_mib, at_most=60)
    yield Line("growth of it over the run", "MiB", ours.rss_growth_mib, theirs.rss_growth_mib, at_most=1)
    yield Line("samples", "per second", ours.samples / ours.seconds, theirs.samples / theirs.seconds)
    yield Line("processor by 1,000 samples", "ms", _by_sample(ours), _by_sample(theirs))
    yield Line("processor of the store", "% of a core", 100 * ours.store_cpu_share, 100 * theirs.store_cpu_share)
    yield Line("seconds that are there", "%", _there(ours), _there(theirs), at_least=99.9)
    yield Line("seconds read within 50 ms of their stamp", "%", 100 * _mean(punctual), at_least=99.9)
    yield Line("from reading to the store's answer, p99", "s", _p99(own.delivery_s.values()), at_most=0.3)
    yield Line("until a query sees it, p99", "s", _p99(ours.seen_after_s), _p99(theirs.seen_after_s), at_most=4)
    yield Line("letting go of all cards, the slowest of ten", "s", letting_go_s, at_most=1)
    yield Line("building 160 samples, against text", "us", costs.built, costs.text, at_most=costs.text / 30)
    yield Line("sending them, against a bare POST", "us", costs.pushed, costs.posted, at_most=costs.posted * 1.5)


def _by_second(client: httpx.Client, series: Series, node: str, seconds: range) -> dict[int, float]:
    parameters: dict[str, str | int] = {
        "match[]": f'{series.name}{{node="{node}"}}',
        "start": seconds.start,
        "end": seconds.stop,
    }
    found: dict[int, float] = {}
    for line in client.get("/api/v1/export", params=parameters).text.splitlines():
        block = json.loads(line)
        for stamp_ms, value in zip(block["timestamps"], block["values"], strict=True):
            if stamp_ms // _MILLISECONDS in seconds:
                found[stamp_ms // _MILLISECONDS] = value
    return found


def _by_sample(watched: Watched) -> float:
    return watched.cpu_share * watched.seconds * _MILLISECONDS / watched.samples * 1_000


def _there(watched: Watched) -> float:
    first_s, last_s = watched.stamps_s[0], watched.stamps_s[-1]
    return 100 * len(watched.stamps_s) / (round(last_s - first_s) + 1)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _p99(values: Iterable[float]) -> float | None:
    """The value that 99 of a hundred do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-99 * len(ordered) // 100) - 1)] if ordered else None
