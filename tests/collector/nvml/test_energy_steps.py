"""An energy counter that moves in steps, as real ones do, is told as it stands, and no power is made of it."""

from domain.samples import Basis, FieldState
from domain.series import GPU_ENERGY, GPU_POWER, GPU_POWER_INSTANT
from domain.units import GIB
from tests.collector.nvml.value_rig import START_S, START_US, ValueRig, number, state_of
from tests.fakes.nvml.driver import Can
from tests.fakes.nvml.truth import GroundTruth, Work

SECOND_US = 1_000_000
SECONDS = 20
# No divisor of a second, so that it takes in three steps or four.
STEP_US = 300_000


def test_energy_lags_by_a_step_at_most_and_power_that_is_not_told_is_missing(values: ValueRig) -> None:
    """R9: between two seconds the counter moves by three steps or by four: a power made of that would jump by a third.

    Over any number of seconds energy is right to the one step that has not come yet.
    """
    uuid = values.fake.card(0)
    values.fake.deny(uuid, Can.POWER | Can.POWER_FIELDS)
    truth = GroundTruth(values.fake, START_US)
    truth.simulate(uuid, energy_step_us=STEP_US)
    truth.run(uuid, Work(7, GIB, START_US, None, 100_000, 0, 100_000))
    card = values.card(uuid)
    steps = []
    before = number(values.after(card), GPU_ENERGY)

    for second in range(2, SECONDS):
        said = values.after(card)
        told = number(said, GPU_ENERGY)
        steps.append(told - before)
        before = told
        assert said.bases[GPU_ENERGY] == Basis("nvml", "counter")
        assert state_of(said, GPU_POWER) is state_of(said, GPU_POWER_INSTANT) is FieldState.UNSUPPORTED
        true = truth.true_span(uuid, START_US, START_US + second * SECOND_US).joules
        assert true is not None
        lag = float(true) - told
        assert 0 <= lag < 450 * STEP_US / SECOND_US, "450 W, all of the card"

    assert (min(steps), max(steps)) == (3 * 135, 4 * 135)
    assert truth.true_second(uuid, START_S).joules == 450
