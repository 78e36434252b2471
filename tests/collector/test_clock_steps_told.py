"""A step of the node's clock is an event that is pushed with the seconds beside it."""

import pytest

from collector.delivery.holes import HoleReason
from domain.series import COLLECTOR_CLOCK_STEPS, GPU_BUSY
from tests.collector.rig import SECOND_US, MakeRig


@pytest.mark.parametrize("by_s", [-5, 30])
def test_a_step_is_told_with_the_next_second_that_is_sampled(make_rig: MakeRig, by_s: int) -> None:
    """O5: so that it can be seen why seconds are missing: every one of them is counted, and none is doubled."""
    rig = make_rig()
    rig.run(3)
    assert set(rig.values(COLLECTOR_CLOCK_STEPS).values()) == {0}
    rig.clock.set_by_us(by_s * SECOND_US)
    rig.run(3)

    sampled = list(rig.values(GPU_BUSY, "GPU-0"))
    assert len(sampled) == len(set(sampled)) == 6
    assert list(rig.values(COLLECTOR_CLOCK_STEPS).values()) == [0, 0, 0, 1, 1, 1]
    holes = rig.holes()
    assert rig.queue.holes_by_reason[HoleReason.CLOCK] == rig.queue.holes > 0
    assert [holes[second_s] + place + 1 for place, second_s in enumerate(sampled)] == [
        second_s + 1 - sampled[0] for second_s in sampled
    ]
