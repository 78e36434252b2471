"""Each wall-clock second is sampled once, in time, or is a hole."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from threading import Event

import pytest
from structlog.testing import capture_logs

from collector.card_readers import CardReaders, Round
from collector.loop import SamplingLoop
from collector.queue import BatchQueue
from collector.source import ScriptedSource
from collector.steady_clock import SteadyClock
from domain.inventory import Device, MigInstance
from domain.samples import UNATTRIBUTED, DeviceReading, OwnerUse
from domain.series import (
    COLLECTOR_CLOCK_SKEW,
    COLLECTOR_GARBAGE,
    COLLECTOR_HOLES,
    COLLECTOR_LATENESS,
    COLLECTOR_MISSED,
    COLLECTOR_QUEUED,
    GPU_BUSY,
    GPU_INFO,
    GPU_MEMORY_USED,
    GPU_UP,
    MIG_INFO,
    OWNER_MEMORY,
    Series,
)
from domain.units import MIB
from tests.fakes.clock import SettableClock

START_S = 1_700_000_001
SECOND_US = 1_000_000
YEAR_S = 365 * 86_400
DEVICES = tuple(Device(f"GPU-{index}", index, "card", 2**35, 0) for index in range(3))

# (series, gpu_uuid or what else tells it apart) -> second -> value
Pushed = dict[tuple[str, str], dict[int, float]]


def _answer(gpu_uuid: str, second_s: int) -> list[DeviceReading]:
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
        self.loop = SamplingLoop(
            "node-1",
            self.readers,
            queue,
            SteadyClock(self.clock),
            devices=lambda: self.source.devices,
            skew_us=lambda: self.skew_us,
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
                apart = labels.get("gpu_uuid") or labels.get("field", "")
                for millis, value in zip(run["timestamps"], run["values"], strict=True):
                    assert millis == batch.second_s * 1_000, "every sample of a second has its stamp"
                    assert labels["node"] == "node-1"
                    found[labels["__name__"], apart][batch.second_s] = value
        return found

    def values(self, series: Series, apart: str = "") -> dict[int, float]:
        return self.pushed()[series.name, apart]


MakeRig = Callable[..., Rig]


@pytest.fixture
def make_rig(queue: BatchQueue) -> Iterator[MakeRig]:
    made: list[Rig] = []

    def make(answers: Callable[[str, int], list[DeviceReading]] = _answer, queue: BatchQueue = queue) -> Rig:
        made.append(Rig(queue, answers))
        return made[-1]

    yield make
    for rig in made:
        rig.readers.close()


def test_every_card_is_sampled_on_every_second(make_rig: MakeRig) -> None:
    rig = make_rig()

    rig.run(5)

    for device in DEVICES:
        for series in (GPU_UP, GPU_BUSY, GPU_MEMORY_USED, OWNER_MEMORY):
            assert list(rig.values(series, device.uuid)) == list(range(START_S, START_S + 5))
    assert set(rig.values(COLLECTOR_HOLES).values()) == {0}
    assert rig.queue.complete_until_s == START_S


def test_missed_seconds_are_holes_and_are_not_filled_with_later_values(make_rig: MakeRig) -> None:
    rig = make_rig()
    rig.run(2)
    rig.clock.advance_us(4 * SECOND_US)

    with capture_logs() as logs:
        rig.run(2)

    sampled = list(rig.values(GPU_BUSY, "GPU-0"))
    assert sampled == [START_S, START_S + 1, START_S + 6, START_S + 7]
    assert rig.values(COLLECTOR_HOLES)[START_S + 6] == 4
    assert rig.queue.holes == 4
    assert [log["event"] for log in logs] == ["seconds_missed"]


@pytest.mark.parametrize("back_s", [1, 2, 5, 30, 70])
def test_a_clock_that_steps_back_makes_no_second_twice(make_rig: MakeRig, back_s: int) -> None:
    """O5: the loop waits until the clock is past what it has sampled; what that costs is a counted hole."""
    rig = make_rig()
    rig.run(3)
    rig.clock.set_by_us(-back_s * SECOND_US)

    with capture_logs() as logs:
        rig.run(3)

    sampled = list(rig.values(GPU_BUSY, "GPU-0"))
    assert len(sampled) == len(set(sampled)) == 6
    assert sampled == sorted(sampled)
    assert sampled[-1] == rig.clock.now_us() // SECOND_US, "each second is the clock's own"
    assert len(sampled) + rig.queue.holes == sampled[-1] + 1 - START_S
    assert rig.queue.holes <= 10
    assert len(logs) <= 4, "said once, not every second"


@pytest.mark.parametrize("by_s", [YEAR_S, -YEAR_S, 3_600, 5])
def test_a_clock_that_steps_and_comes_back_costs_the_seconds_it_was_away(make_rig: MakeRig, by_s: int) -> None:
    """A year ahead for one second: nothing is sampled at a time that is not there, and all goes on after it."""
    rig = make_rig()
    rig.run(3)
    rig.clock.set_by_us(by_s * SECOND_US)
    rig.loop.tick()
    rig.clock.set_by_us(-by_s * SECOND_US)

    rig.run(3)

    assert list(rig.values(GPU_BUSY, "GPU-0")) == [*range(START_S, START_S + 3), *range(START_S + 4, START_S + 7)]
    assert rig.queue.holes == 1


def test_a_clock_that_was_set_forward_for_good_is_believed(make_rig: MakeRig) -> None:
    """As after a start with a wrong clock, or a sleep, in which the monotonic clock stood still."""
    rig = make_rig()
    rig.run(3)
    rig.clock.set_by_us(3_600 * SECOND_US)

    rig.run(3)

    assert list(rig.values(GPU_BUSY, "GPU-0"))[3:] == list(range(START_S + 3_612, START_S + 3_615))
    assert rig.queue.holes == 3_609


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_clock_that_was_wrong_for_long_does_not_silence_the_collector(
    make_rig: MakeRig, tmp_path: Path, is_restarted: bool
) -> None:
    """A year ahead for an hour, then right again; what was sampled on the wrong clock does not bind the right one."""
    queue = BatchQueue(tmp_path / "wrong.db", 64 * MIB)
    rig = make_rig(queue=queue)
    rig.run(3)
    rig.clock.set_by_us(YEAR_S * SECOND_US)
    rig.run(3)
    if is_restarted:
        queue.close()
        queue = BatchQueue(tmp_path / "wrong.db", 64 * MIB)
        now_us = rig.clock.now_us()
        rig = make_rig(queue=queue)
        rig.clock.set_by_us(now_us - rig.clock.now_us())
    holes = queue.holes
    rig.clock.set_by_us(-YEAR_S * SECOND_US)
    silent_s = rig.clock.monotonic_s()

    with capture_logs() as logs:
        rig.run(3)

    silent_s = rig.clock.monotonic_s() - silent_s
    now_s = rig.clock.now_us() // SECOND_US
    assert now_s < START_S + 200
    sampled = sorted(rig.values(GPU_BUSY, "GPU-0"))
    assert [second_s for second_s in sampled if START_S + 3 <= second_s < START_S + YEAR_S] == [
        now_s - 2,
        now_s - 1,
        now_s,
    ]
    assert silent_s <= 75
    assert queue.sampled_until_s == now_s + 1
    assert silent_s - 4 <= queue.holes - holes <= silent_s, "the silence is recorded"
    assert [log["event"] for log in logs][-1] == "sampling_starts_again"
    queue.close()


def test_a_restart_makes_the_seconds_between_a_hole(make_rig: MakeRig, tmp_path: Path) -> None:
    queue = BatchQueue(tmp_path / "restarted.db", 64 * MIB)
    make_rig(queue=queue).run(2)
    queue.close()

    queue = BatchQueue(tmp_path / "restarted.db", 64 * MIB)
    rig = make_rig(queue=queue)
    rig.clock.advance_us(10 * SECOND_US)
    rig.run(1)

    assert queue.holes == 8
    assert queue.sampled_until_s == START_S + 11
    assert rig.values(COLLECTOR_HOLES) == {START_S: 0, START_S + 1: 0, START_S + 10: 8}
    queue.close()


def test_a_lost_card_says_so_and_its_last_values_are_not_repeated(make_rig: MakeRig) -> None:
    """L1: one card falls off the bus; the others go on."""

    def answers(gpu_uuid: str, second_s: int) -> list[DeviceReading]:
        if gpu_uuid == "GPU-1" and second_s >= START_S + 2:
            return [DeviceReading(gpu_uuid, None, {GPU_UP: 0}, {})]
        return _answer(gpu_uuid, second_s)

    rig = make_rig(answers)
    rig.run(4)

    assert list(rig.values(GPU_UP, "GPU-1").values()) == [1, 1, 0, 0]
    assert list(rig.values(GPU_BUSY, "GPU-1")) == [START_S, START_S + 1]
    assert list(rig.values(OWNER_MEMORY, "GPU-1")) == [START_S, START_S + 1]
    assert len(rig.values(GPU_BUSY, "GPU-0")) == 4


def test_a_card_without_an_answer_is_counted_and_said_once(make_rig: MakeRig) -> None:
    def answers(gpu_uuid: str, second_s: int) -> list[DeviceReading]:
        if gpu_uuid == "GPU-2" and second_s in (START_S + 1, START_S + 2):
            raise OSError("no answer")
        return _answer(gpu_uuid, second_s)

    rig = make_rig(answers)
    with capture_logs() as logs:
        rig.run(4)

    assert list(rig.values(GPU_UP, "GPU-2")) == [START_S, START_S + 3], "mute is not lost: nothing is said of it"
    assert rig.values(COLLECTOR_MISSED, "GPU-2") == {START_S + 1: 1, START_S + 2: 2, START_S + 3: 2}
    assert [log["event"] for log in logs] == ["card_mute", "card_answers"]
    assert rig.queue.holes == 0, "the other cards have the second"


def test_garbage_leaves_a_gap_and_is_counted(make_rig: MakeRig) -> None:
    def answers(gpu_uuid: str, second_s: int) -> list[DeviceReading]:
        busy = 42_949_672.95 if second_s == START_S + 1 else 0.5
        return [DeviceReading(gpu_uuid, None, {GPU_UP: 1, GPU_BUSY: busy}, {})]

    rig = make_rig(answers)
    with capture_logs() as logs:
        rig.run(3)

    assert rig.values(GPU_BUSY, "GPU-0") == {START_S: 0.5, START_S + 2: 0.5}
    assert rig.values(COLLECTOR_GARBAGE, GPU_BUSY.name) == {START_S + 1: 3, START_S + 2: 3}
    assert [log["event"] for log in logs] == ["garbage_refused"]


def test_cards_are_described_at_the_start_on_each_minute_and_on_a_change(make_rig: MakeRig) -> None:
    rig = make_rig()
    rig.run(3)
    instance = MigInstance("MIG-1", 3, "1g.10gb", 0, 1, 16, 2**33)
    rig.source.devices = (Device("GPU-0", 0, "card", 2**35, 0, True, 132, instances=(instance,)), *DEVICES[1:])
    rig.run(70)

    minutes = [second_s for second_s in range(START_S + 4, START_S + 73) if second_s % 60 == 0]
    assert list(rig.values(GPU_INFO, "GPU-0")) == [START_S, START_S + 3, *minutes]
    assert list(rig.values(MIG_INFO, "GPU-0")) == [START_S + 3, *minutes]


def test_the_collector_says_how_late_it_is_what_waits_and_how_its_clock_stands(make_rig: MakeRig) -> None:
    rig = make_rig()
    rig.run(1)
    rig.skew_us = -1_500_000
    rig.run(1)

    assert rig.values(COLLECTOR_LATENESS) == {START_S: 0, START_S + 1: 0}
    assert rig.values(COLLECTOR_QUEUED) == {START_S: 0, START_S + 1: 1}
    assert rig.values(COLLECTOR_CLOCK_SKEW) == {START_S + 1: -1.5}


def test_a_late_tick_says_by_how_much(make_rig: MakeRig) -> None:
    rig = make_rig()
    rig.clock.advance_us(750_000)

    rig.loop.sample(START_S)

    assert rig.values(COLLECTOR_LATENESS) == {START_S: 0.25}
