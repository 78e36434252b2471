"""The sampling loop over scripted cards and a clock that stands still unless the loop sleeps."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from threading import Event

from collector.card_readers import CardReaders, Round
from collector.delivery.queue import BatchQueue
from collector.loop import SamplingLoop
from collector.own_metrics import OwnMetrics, OwnValue
from collector.own_values import clock_values, queue_values
from collector.sampling_record import SamplingRecord
from collector.source import ScriptedSource
from collector.steady_clock import SteadyClock
from domain.inventory import Device
from domain.samples import UNATTRIBUTED, DeviceReading, OwnerUse
from domain.series import (
    COLLECTOR_HOLES,
    GPU_BUSY,
    GPU_MEMORY_USED,
    GPU_UP,
    Series,
)
from domain.units import MIB
from tests.fakes.clock import SettableClock

START_S = 1_700_000_001
SECOND_US = 1_000_000
DEVICES = tuple(Device(f"GPU-{index}", index, "card", 2**35, 0) for index in range(3))

# (series, gpu_uuid or what else tells it apart) -> second -> value
Pushed = dict[tuple[str, str], dict[int, float]]


def answer(gpu_uuid: str, second_s: int) -> list[DeviceReading]:
    """A card that is up, half busy, and used by nobody who is known."""
    owners = {UNATTRIBUTED: OwnerUse(5 * MIB, 0.5)}
    return [DeviceReading(gpu_uuid, None, {GPU_UP: 1, GPU_BUSY: 0.5, GPU_MEMORY_USED: 5 * MIB}, owners)]


class PatientReaders(CardReaders):
    """Where time stands still, a busy machine must not make a card late."""

    def read_all(self, gpu_uuids: Iterable[str], second_s: int, timeout_s: float) -> Round:
        return super().read_all(gpu_uuids, second_s, max(timeout_s, 30))


class Rig:
    """A loop over a clock that stands still unless the loop sleeps."""

    def __init__(self, queue: BatchQueue, answers: Callable[[str, int], list[DeviceReading]]) -> None:
        self.clock = SettableClock(START_S * SECOND_US - 500_000)
        self.queue = queue
        self.source = ScriptedSource(DEVICES, answers)
        self.readers = PatientReaders(self.source)
        self.woken = 0
        self._stop = Event()
        self._until: int | None = None
        self.skew_us: int | None = None
        steady = SteadyClock(self.clock)
        record = SamplingRecord()

        def values() -> Iterator[OwnValue]:
            yield from record.values()
            yield from queue_values(queue, steady, 0.25)
            yield from clock_values(steady, self.skew_us, None)

        self.own = OwnMetrics("node-1", values)
        self.loop = SamplingLoop(
            "node-1",
            self.readers,
            queue,
            steady,
            devices=lambda: self.source.devices,
            record=record,
            own=self.own,
            wake_sender=self._wake,
        )

    def run(self, seconds: int) -> None:
        """Let the loop run until the queue has that many seconds more."""
        self._stop = Event()
        self._until = self.woken + seconds
        self.loop.run(self._stop)

    def _wake(self) -> None:
        self.woken += 1
        if self.woken == self._until:
            self._stop.set()

    def pushed(self) -> Pushed:
        found: Pushed = defaultdict(dict)
        for batch in self.queue.pending(2**30):
            for line in batch.body.splitlines():
                run = json.loads(line)
                labels = run["metric"]
                apart = labels.get("gpu_uuid") or labels.get("field") or labels.get("reason", "")
                for millis, value in zip(run["timestamps"], run["values"], strict=True):
                    assert millis == batch.second_s * 1_000, "every sample of a second has its stamp"
                    assert labels["node"] == "node-1"
                    found[labels["__name__"], apart][batch.second_s] = value
        return found

    def values(self, series: Series, apart: str = "") -> dict[int, float]:
        return self.pushed()[series.name, apart]

    def holes(self) -> dict[int, int]:
        """What each second said of the holes until then, for whatever reason."""
        counts = Counter[int]()
        for (name, _), values in self.pushed().items():
            if name == COLLECTOR_HOLES.name:
                counts.update({second_s: int(value) for second_s, value in values.items()})
        return dict(counts)


MakeRig = Callable[..., Rig]
