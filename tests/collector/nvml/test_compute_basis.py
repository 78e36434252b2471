"""Which series stands for how much a device computed, and when it is another."""

import pytest

from collector.compute_basis import CARD_CANDIDATES, ComputeBasis
from collector.telling import Said, Telling
from domain.inventory import MigInstance
from domain.samples import Basis, FieldState
from domain.series import GPU_BUSY, GPU_COMPUTE, GPU_GR_ACTIVE, GPU_SM_ACTIVE
from domain.units import GIB
from tests.collector.nvml.value_rig import ValueRig, state_of

H100 = "NVIDIA H100 80GB HBM3"
BUSY, SM_ACTIVE, INSTANCES = (Basis("nvml", basis) for basis in ("busy", "sm_active", "instances"))
WATCHED = Basis("dcgm_engine", "watched")


def _told(sm_active: float | FieldState, busy: float = 1.0) -> Telling:
    telling = Telling()
    telling.tell(GPU_BUSY, busy)
    telling.tell(GPU_SM_ACTIVE, sm_active)
    return telling


@pytest.mark.parametrize(
    "state", [FieldState.UNSUPPORTED, FieldState.NO_PERMISSION, FieldState.PROFILER_BUSY, FieldState.SUSPECT]
)
def test_busy_stands_in_for_what_stays_missing(state: FieldState) -> None:
    """L8, R3: at once, and with its basis."""
    basis, telling = ComputeBasis(CARD_CANDIDATES), _told(state, 0.6)

    basis.tell(telling, 0)

    assert (telling.values[GPU_COMPUTE], telling.bases[GPU_COMPUTE]) == (0.6, BUSY)


@pytest.mark.parametrize("state", [FieldState.NOT_READY, FieldState.ERROR])
def test_what_is_missing_for_a_moment_is_waited_for(state: FieldState) -> None:
    """R15: one second by another measure would be charged at three times as much; ten are a card like any other."""
    basis = ComputeBasis(CARD_CANDIDATES)
    basis.tell(_told(0.3), 100)
    for now_s in (101, 105, 109.5):
        telling = _told(state)
        basis.tell(telling, now_s)
        assert telling.missing[GPU_COMPUTE] is state
        assert GPU_COMPUTE not in telling.bases
    telling = _told(state)
    basis.tell(telling, 110)
    assert (telling.values[GPU_COMPUTE], telling.bases[GPU_COMPUTE]) == (1, BUSY)

    telling = _told(0.3)
    basis.tell(telling, 111)
    assert (telling.values[GPU_COMPUTE], telling.bases[GPU_COMPUTE]) == (0.3, SM_ACTIVE)


def test_compute_comes_from_where_that_comes_from_which_it_is_measured_by() -> None:
    telling = Telling()
    telling.tell(GPU_BUSY, 0.6, basis=Basis("nvml", "sampled"))
    telling.tell(GPU_SM_ACTIVE, 0.3, basis=WATCHED)

    ComputeBasis(CARD_CANDIDATES).tell(telling, 0)

    assert telling.bases[GPU_COMPUTE] == Basis("dcgm_engine", "sm_active")


def test_what_is_found_missing_after_all_has_no_basis_and_what_is_found_after_all_is_not_missing() -> None:
    """R3: an SM-active that turns out to be suspect comes from nowhere."""
    telling = Telling()
    telling.tell(GPU_SM_ACTIVE, 0.0, basis=WATCHED)
    telling.tell(GPU_SM_ACTIVE, FieldState.SUSPECT)
    assert (telling.missing, telling.bases) == ({GPU_SM_ACTIVE: FieldState.SUSPECT}, {})

    telling.tell(GPU_SM_ACTIVE, 0.5, basis=WATCHED)
    assert (telling.missing, telling.bases) == ({}, {GPU_SM_ACTIVE: WATCHED})


def test_profiling_that_is_stuck_is_suspect_and_busy_stands_in(values: ValueRig) -> None:
    """R3: SM-active 0 while the card is busy at 90 % of its power."""
    uuid = values.fake.card(0, H100, busy_percent=100, milliwatts=630_000)
    values.fake.process(uuid, 7, 1)
    card = values.card(uuid)
    values.after(card)
    for _ in range(30):
        said = values.after(card)
        assert said.values[GPU_SM_ACTIVE] == 0, "half a minute of it may be true"
    said = values.after(card)
    assert state_of(said, GPU_SM_ACTIVE) is FieldState.SUSPECT
    assert (said.values[GPU_COMPUTE], said.bases[GPU_COMPUTE]) == (1, BUSY)

    values.fake.gpm(uuid, {2: 700})
    said = values.after(card)
    assert said.values[GPU_SM_ACTIVE] == pytest.approx(0.7)
    assert said.bases[GPU_COMPUTE] == SM_ACTIVE


@pytest.mark.parametrize("idle", [{"busy_percent": 0}, {"milliwatts": 90_000}])
def test_a_card_that_is_not_at_work_is_at_0_for_as_long_as_it_likes(values: ValueRig, idle: dict[str, int]) -> None:
    """R3: a memory-bound card without power, or an idle one, is no suspect."""
    uuid = values.fake.card(0, H100, busy_percent=100, milliwatts=630_000)
    values.fake.set(uuid, **idle)
    values.fake.process(uuid, 7, 1)
    card = values.card(uuid)
    values.after(card)
    for _ in range(100):
        said = values.after(card)

    assert said.values[GPU_SM_ACTIVE] == 0
    assert said.bases[GPU_COMPUTE] == SM_ACTIVE


def _instance(gi_id: int, sms: int) -> MigInstance:
    return MigInstance(f"MIG-{gi_id}", gi_id, "1g.10gb", 0, 1, sms, 10 * GIB)


def _said(gr_active: float | FieldState, compute: float | FieldState) -> Said:
    telling = Telling()
    telling.tell(GPU_GR_ACTIVE, gr_active)
    telling.tell(GPU_COMPUTE, compute)
    return telling.said(None)


@pytest.mark.parametrize("is_zero", [0, 1])
def test_a_card_in_mig_mode_is_as_busy_as_its_instances_by_their_sms(values: ValueRig, is_zero: int) -> None:
    """M1: 438 W, and the driver says N/A or 0: the mean over the SMs, those of no instance being idle."""
    with values.fake.state.writing() as world:
        world.mig_busy_is_zero = is_zero
    uuid = values.fake.card(0, H100, mig_mode=1, milliwatts=438_000)
    card = values.card(uuid, is_mig=True)
    alone = values.after(card)
    assert state_of(alone, GPU_BUSY) is FieldState.UNSUPPORTED
    instances = [(_instance(1, 60), _said(1.0, 0.5)), (_instance(2, 16), _said(0.5, 0.25))]

    values.advance()
    said = card.read(instances, 132)

    assert said.values[GPU_BUSY] == pytest.approx((60 + 8) / 132)
    assert said.values[GPU_COMPUTE] == pytest.approx((30 + 4) / 132)
    assert said.bases[GPU_BUSY] == said.bases[GPU_COMPUTE] == INSTANCES
    assert GPU_BUSY not in said.missing
    values.advance()
    again = card.read(instances, 132)
    assert (again.bases, again.missing) == (said.bases, said.missing)
    assert again.bases is said.bases
    assert again.missing is said.missing


@pytest.mark.parametrize("state", [FieldState.NOT_READY, FieldState.UNSUPPORTED])
def test_a_card_cannot_tell_what_one_of_its_instances_does_not(values: ValueRig, state: FieldState) -> None:
    """M1: a sum without one of them would be too low."""
    card = values.card(values.fake.card(0, H100, mig_mode=1), is_mig=True)
    values.advance()

    said = card.read([(_instance(1, 60), _said(1.0, 0.5)), (_instance(2, 16), _said(state, state))], 132)

    assert state_of(said, GPU_BUSY) is state


def test_an_instance_that_tells_garbage_is_not_averaged_away(values: ValueRig) -> None:
    card = values.card(values.fake.card(0, H100, mig_mode=1), is_mig=True)
    values.advance()

    said = card.read([(_instance(1, 60), _said(1.294, 0.5))], 132)

    assert state_of(said, GPU_BUSY) is FieldState.GARBAGE
