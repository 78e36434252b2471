"""A sample stamped s was read in s: where a tick comes so late that it would not be, the second is a hole."""

import pytest
from structlog.testing import capture_logs

from collector.delivery.holes import HoleReason
from collector.delivery.queue import BatchQueue
from domain.samples import DeviceReading
from domain.series import GPU_BUSY
from tests.collector.rig import SECOND_US, START_S, MakeRig, Rig, answer


@pytest.mark.parametrize("late_us", [905_000, 985_000, 999_999, 1_000_000, 1_500_000, 70_000_000])
def test_a_second_of_which_too_little_is_left_is_a_hole(make_rig: MakeRig, late_us: int) -> None:
    rig = make_rig()
    rig.run(1)
    second_s = START_S + 1
    rig.clock.advance_us(second_s * SECOND_US - rig.clock.now_us() + late_us)

    rig.loop.sample(second_s)

    assert list(rig.values(GPU_BUSY, "GPU-0")) == [START_S]
    assert rig.queue.sampled_until_s == second_s
    rig.run(1)
    next_s = second_s + late_us // SECOND_US + 1
    with capture_logs():
        assert rig.holes()[next_s] == next_s - second_s
    assert rig.queue.holes == rig.queue.holes_by_reason[HoleReason.LATE] == next_s - second_s


def test_a_second_that_ends_while_the_cards_are_read_is_a_hole(make_rig: MakeRig) -> None:
    """As where the machine slept: what came back then was read in another second."""
    rigs: list[Rig] = []

    def answers(gpu_uuid: str, second_s: int) -> list[DeviceReading]:
        if second_s == START_S + 1 and gpu_uuid == "GPU-2":
            rigs[0].clock.advance_us(1_200_000)
        return answer(gpu_uuid, second_s)

    rigs.append(make_rig(answers))
    with capture_logs() as logs:
        rigs[0].run(3)

    assert list(rigs[0].values(GPU_BUSY, "GPU-0")) == [START_S, START_S + 3, START_S + 4]
    assert rigs[0].queue.holes == 2
    assert [log["event"] for log in logs] == ["seconds_missed"]


def test_a_tick_that_is_late_but_in_time_is_sampled(queue: BatchQueue, make_rig: MakeRig) -> None:
    rig = make_rig()
    rig.clock.advance_us(500_000 + 895_000)

    rig.loop.sample(START_S)

    assert list(rig.values(GPU_BUSY, "GPU-0")) == [START_S]
    assert queue.holes == 0
