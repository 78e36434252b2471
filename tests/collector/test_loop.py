"""Every card is sampled on every second, and what one does not say is not made up."""

from structlog.testing import capture_logs

from domain.inventory import Device, MigInstance
from domain.samples import DeviceReading
from domain.series import (
    COLLECTOR_CLOCK_SKEW,
    COLLECTOR_GARBAGE,
    COLLECTOR_LATENESS,
    COLLECTOR_MISSED,
    COLLECTOR_QUEUED,
    GPU_BUSY,
    GPU_INFO,
    GPU_MEMORY_USED,
    GPU_UP,
    MIG_INFO,
    OWNER_MEMORY,
)
from tests.collector.rig import DEVICES, START_S, MakeRig, answer


def test_every_card_is_sampled_on_every_second(make_rig: MakeRig) -> None:
    rig = make_rig()

    rig.run(5)

    for device in DEVICES:
        for series in (GPU_UP, GPU_BUSY, GPU_MEMORY_USED, OWNER_MEMORY):
            assert list(rig.values(series, device.uuid)) == list(range(START_S, START_S + 5))
    assert set(rig.holes().values()) == {0}
    assert rig.queue.complete_until_s == START_S


def test_a_lost_card_says_so_and_its_last_values_are_not_repeated(make_rig: MakeRig) -> None:
    """L1: one card falls off the bus; the others go on."""

    def answers(gpu_uuid: str, second_s: int) -> list[DeviceReading]:
        if gpu_uuid == "GPU-1" and second_s >= START_S + 2:
            return [DeviceReading(gpu_uuid, None, {GPU_UP: 0}, {})]
        return answer(gpu_uuid, second_s)

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
        return answer(gpu_uuid, second_s)

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
