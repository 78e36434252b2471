"""A card that answers in some seconds only: what it said stands, the rest is missing, and the share is told."""

from domain.samples import DeviceReading
from domain.series import COLLECTOR_COVERAGE, COLLECTOR_EXPECTED_CARDS, COLLECTOR_MISSED, GPU_BUSY, GPU_UP
from tests.collector.rig import START_S, MakeRig, answer

SECONDS = 100


def _is_lost(second_s: int) -> bool:
    """Whether the samples of that second are lost: of five, the last two."""
    return (second_s - START_S) % 5 >= 3


def test_forty_of_a_hundred_seconds_that_are_lost_are_told_as_a_coverage_of_three_fifths(make_rig: MakeRig) -> None:
    """L5: DCGM 313 drops 40 % of an hour's samples. L7: cards 1 and 2 are missing in those seconds, each is counted.

    Nothing is repeated in place of what was lost, the other card has every second, and all are expected on.
    """

    def answers(gpu_uuid: str, second_s: int) -> list[DeviceReading]:
        if gpu_uuid != "GPU-0" and _is_lost(second_s):
            raise OSError("it left the card out")
        return answer(gpu_uuid, second_s)

    rig = make_rig(answers)
    rig.run(SECONDS)

    seconds = range(START_S, START_S + SECONDS)
    told = [second_s for second_s in seconds if not _is_lost(second_s)]
    for gpu_uuid in ("GPU-1", "GPU-2"):
        assert rig.values(COLLECTOR_COVERAGE, gpu_uuid)[seconds[-1]] == 0.6
        assert rig.values(COLLECTOR_MISSED, gpu_uuid)[seconds[-1]] == 40
        assert list(rig.values(GPU_BUSY, gpu_uuid)) == list(rig.values(GPU_UP, gpu_uuid)) == told
    assert rig.values(COLLECTOR_COVERAGE, "GPU-0")[seconds[-1]] == 1
    assert list(rig.values(GPU_BUSY, "GPU-0")) == list(seconds)
    assert set(rig.values(COLLECTOR_EXPECTED_CARDS).values()) == {3}
    assert rig.queue.holes == 0, "the seconds themselves were sampled"
