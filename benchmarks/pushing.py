"""What it costs to make a push of one second, and to send it: against prometheus-client and a bare HTTP client."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import httpx
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from collector.second_body import SecondBody
from domain.samples import DeviceReading
from domain.series import (
    GPU_BUSY,
    GPU_DRAM_ACTIVE,
    GPU_ENCODER_BUSY,
    GPU_ENERGY,
    GPU_GR_ACTIVE,
    GPU_MEMORY_BUSY,
    GPU_MEMORY_CLOCK,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_TEMPERATURE,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_PCIE_RECEIVED,
    GPU_PCIE_TRANSMITTED,
    GPU_POWER,
    GPU_SM_ACTIVE,
    GPU_SM_CLOCK,
    GPU_SM_OCCUPANCY,
    GPU_TEMPERATURE,
    GPU_TENSOR_ACTIVE,
    GPU_UP,
    Series,
)
from victoriametrics.encode import encode
from victoriametrics.push import Pusher

CARDS = 8
NODE, MODEL = "gpu-node-0001.example.com", "NVIDIA H100 80GB HBM3"
# So few seconds that their values are still in the processor's cache, as those are that were just read.
ROUNDS, SECONDS, TIMES = 15, 10, 10
# Told in whole units, and as fractions of one.
_WHOLE = (
    GPU_UP,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_USED,
    GPU_TEMPERATURE,
    GPU_MEMORY_TEMPERATURE,
    GPU_SM_CLOCK,
    GPU_MEMORY_CLOCK,
    GPU_PCIE_RECEIVED,
    GPU_PCIE_TRANSMITTED,
)
_FRACTIONS = (
    GPU_BUSY,
    GPU_MEMORY_BUSY,
    GPU_ENCODER_BUSY,
    GPU_SM_ACTIVE,
    GPU_SM_OCCUPANCY,
    GPU_GR_ACTIVE,
    GPU_TENSOR_ACTIVE,
    GPU_DRAM_ACTIVE,
    GPU_POWER,
    GPU_ENERGY,
)
SERIES = (*_WHOLE, *_FRACTIONS)
_FIRST_S = 1_700_000_000
_MICROSECONDS = 1_000_000

_Each = TypeVar("_Each")


class Costs(NamedTuple):
    """Microseconds; those of building are of the core, those of sending from the call to the answer."""

    built: float
    text: float
    pushed: float
    posted: float


def measure(url: str) -> Costs:
    """Medians of rounds that take turns, so that what else the machine does meets both alike."""
    seconds = [(second_s, _readings(second_s)) for second_s in range(_FIRST_S, _FIRST_S + SECONDS)] * TIMES
    text, body = _PrometheusText(), SecondBody(NODE)

    def build(second: tuple[int, list[DeviceReading]]) -> bytes:
        lines, left = body.encode(*second)
        return lines + encode(left) if left else lines

    bodies = [build(second) for second in seconds]
    with Pusher(url) as pusher, httpx.Client(trust_env=False) as client:

        def post(content: bytes) -> None:
            client.post(f"{url}/api/v1/import", content=content).raise_for_status()

        taken: list[list[float]] = [[], [], [], []]
        for _ in range(ROUNDS):
            taken[0].append(_microseconds(build, seconds, time.process_time))
            taken[1].append(_microseconds(lambda second: text.render(second[1]), seconds, time.process_time))
            taken[2].append(_microseconds(pusher.push, bodies, time.perf_counter))
            taken[3].append(_microseconds(post, bodies, time.perf_counter))
        built, rendered, pushed, posted = (statistics.median(each) for each in taken)
        return Costs(built, rendered, pushed, posted)


class _PrometheusText:
    """The same numbers as a page, under the labels that exporters put on each; children are looked up once."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        labels = ("cluster", "node", "gpu", "uuid", "model")
        gauges = {series: Gauge(series.name, series.help, labels, registry=self._registry) for series in SERIES}
        self._children = {
            (reading.gpu_uuid, series): gauges[series].labels("eu-1", NODE, card, reading.gpu_uuid, MODEL)
            for card, reading in enumerate(_readings(0))
            for series in SERIES
        }

    def render(self, readings: list[DeviceReading]) -> bytes:
        for reading in readings:
            for series, value in reading.values.items():
                self._children[reading.gpu_uuid, series].set(float(value or 0))
        return generate_latest(self._registry)


def _readings(second_s: int) -> list[DeviceReading]:
    """A node's cards in that second, each value another than in the second before."""
    return [
        DeviceReading(
            f"GPU-{card:08d}-0000-4000-8000-000000000000",
            None,
            {series: _value(series, second_s * 31 + card * 7 + number) for number, series in enumerate(SERIES)},
            {},
        )
        for card in range(CARDS)
    ]


def _value(series: Series, number: int) -> int | float:
    if series in _WHOLE:
        return number * 4_096
    # A driver tells thousandths: of the whole, or of a unit.
    return number % 1_000 / 1_000 if series.unit == "ratio" else number % 1_000_000 / 1_000


def _microseconds(act: Callable[[_Each], object], each: Sequence[_Each], clock_s: Callable[[], float]) -> float:
    """How long it takes for one, as the mean of all."""
    began_s = clock_s()
    for one in each:
        act(one)
    return (clock_s() - began_s) / len(each) * _MICROSECONDS
