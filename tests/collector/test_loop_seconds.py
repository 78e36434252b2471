"""Each wall-clock second is sampled once, in time, or is a hole."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from collector.delivery.holes import HoleReason
from collector.delivery.queue import BatchQueue
from domain.series import (
    COLLECTOR_HOLES,
    COLLECTOR_LATENESS,
    GPU_BUSY,
)
from domain.units import MIB
from tests.collector.rig import SECOND_US, START_S, MakeRig

YEAR_S = 365 * 86_400


def test_missed_seconds_are_holes_and_are_not_filled_with_later_values(make_rig: MakeRig) -> None:
    rig = make_rig()
    rig.run(2)
    rig.clock.advance_us(4 * SECOND_US)

    with capture_logs() as logs:
        rig.run(2)

    sampled = list(rig.values(GPU_BUSY, "GPU-0"))
    assert sampled == [START_S, START_S + 1, START_S + 6, START_S + 7]
    assert rig.holes()[START_S + 6] == rig.values(COLLECTOR_HOLES, "late")[START_S + 6] == 4
    assert rig.queue.holes == 4
    assert [(log["event"], log["reason"]) for log in logs] == [("seconds_missed", "late")]


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
    assert rig.queue.holes == rig.queue.holes_by_reason[HoleReason.CLOCK] == 1


def test_a_clock_that_was_set_forward_for_good_is_believed(make_rig: MakeRig) -> None:
    """As after a start with a wrong clock, or a sleep, in which the monotonic clock stood still."""
    rig = make_rig()
    rig.run(3)
    rig.clock.set_by_us(3_600 * SECOND_US)

    rig.run(3)

    assert list(rig.values(GPU_BUSY, "GPU-0"))[3:] == list(range(START_S + 3_612, START_S + 3_615))
    assert rig.queue.holes == rig.queue.holes_by_reason[HoleReason.CLOCK] == 3_609


def test_each_hole_has_the_reason_of_its_own_time(make_rig: MakeRig) -> None:
    """A step of the clock is no reason for what is missed before it or long after it."""
    rig = make_rig()
    rig.run(3)
    rig.clock.advance_us(2 * SECOND_US)
    rig.run(1)
    rig.clock.set_by_us(30 * SECOND_US)
    with capture_logs() as logs:
        rig.run(2)
        rig.clock.advance_us(5 * SECOND_US)
        rig.run(1)

    holes = {reason: seconds for reason, seconds in rig.queue.holes_by_reason.items() if seconds}
    assert holes == {HoleReason.LATE: 2 + 5, HoleReason.CLOCK: 39}
    said = [(log["reason"], log["seconds"]) for log in logs if log["event"] == "seconds_missed"]
    assert said == [("clock", 39), ("late", 5)]


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
    assert queue.holes_by_reason[HoleReason.CLOCK] >= queue.holes - holes
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

    assert queue.holes == queue.holes_by_reason[HoleReason.NOT_RUNNING] == 8
    assert queue.sampled_until_s == START_S + 11
    assert rig.holes() == {START_S: 0, START_S + 1: 0, START_S + 10: 8}
    queue.close()


def test_a_late_tick_says_by_how_much(make_rig: MakeRig) -> None:
    rig = make_rig()
    rig.clock.advance_us(750_000)

    rig.loop.sample(START_S)

    assert rig.values(COLLECTOR_LATENESS) == {START_S: 0.25}
