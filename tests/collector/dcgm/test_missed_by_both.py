"""What NVML and DCGM together can still tell of seconds in which no collector ran, and what nobody can."""

from dataclasses import replace

import pytest

from collector.chosen_source import ChosenSource
from domain.samples import UNATTRIBUTED, Basis, DeviceReading, FieldState, OwnerUse
from domain.series import GPU_BUSY, GPU_COMPUTE, GPU_GR_ACTIVE, GPU_SM_ACTIVE, OWNER_COMPUTE
from domain.units import MIB
from tests.collector.dcgm.both_sources import A100, CARD, INSTANCES, MigNvml, OpenBoth
from tests.collector.engine_nodes import EngineNode
from tests.fakes import dcgm

_ENGINE = Basis("dcgm_engine", "instances")


@pytest.fixture
def both(mig_nvml: MigNvml, open_: OpenBoth) -> tuple[EngineNode, ChosenSource]:
    """An A100 in MIG mode, of which NVML tells nothing of what its instances do, and one without MIG."""
    mig_nvml.source.devices = (A100, replace(CARD, uuid="GPU-2"))
    return open_(mig_nvml, dcgm.card(0, gis=(1, 7), mig_uuids=False), dcgm.card(1))


def _missed(node: EngineNode, source: ChosenSource, seconds: int) -> list[list[DeviceReading]]:
    """What is told of so many seconds after they have gone by."""
    from_s = node.now_s + 1
    node.engine.advance_s(seconds)
    return [second.readings for second in source.missed(from_s, node.now_s + 1)]


def _trembling(node: EngineNode) -> None:
    """Let the instances be as busy as the time says, each in its own way."""
    say = node.engine.say
    node.engine.say = lambda entity, number, at: (
        (at // 1_000_000 * (2 + entity.number)) % 10 / 10 if number in (1001, 1002) else say(entity, number, at)
    )


def test_m1_a_card_was_as_busy_as_its_instances_in_seconds_that_were_missed(
    both: tuple[EngineNode, ChosenSource],
) -> None:
    """M1: as it would have been told then, by their SMs."""
    node, source = both
    _trembling(node)
    from_s = node.now_s + 1
    live = []
    for _ in range(10):
        node.engine.advance_s()
        live.append(source.read("GPU-1", node.now_s)[0])

    told = [second.readings[0] for second in source.missed(from_s, node.now_s + 1)]

    assert len({each.values[GPU_BUSY] for each in told}) >= 5
    for series in (GPU_BUSY, GPU_COMPUTE):
        assert [each.values[series] for each in told] == [each.values[series] for each in live]
        assert {each.bases[series] for each in told} == {_ENGINE}
        assert not any(series in each.missing for each in told)


def test_m1_each_card_has_the_mean_of_its_own_instances(both: tuple[EngineNode, ChosenSource]) -> None:
    """M1: one that has none is as busy as DCGM says."""
    mig, one, seven, whole = _missed(*both, 5)[-1]

    assert [each.mig_uuid for each in (one, seven)] == ["MIG-driver-1", "MIG-driver-7"]
    assert mig.values[GPU_BUSY] == pytest.approx(0.75 * 56 / 98)
    assert mig.values[GPU_COMPUTE] == pytest.approx(0.5 * 56 / 98)
    assert (whole.values[GPU_BUSY], whole.values[GPU_COMPUTE]) == (0.91, 0.5)


def test_m1_another_cards_instances_are_not_in_the_mean(mig_nvml: MigNvml, open_: OpenBoth) -> None:
    """M1: each of two cards in MIG mode has its own."""
    other = replace(A100, uuid="GPU-2", instances=(replace(INSTANCES[0], uuid="MIG-driver-2"),))
    mig_nvml.source.devices = (A100, other)
    cards = dcgm.card(0, gis=(1, 7), mig_uuids=False), dcgm.card(1, gis=(1,), mig_uuids=False)
    node, source = open_(mig_nvml, *cards)

    told = _missed(node, source, 5)[-1]

    busy = {each.gpu_uuid: each.values[GPU_BUSY] for each in told if each.mig_uuid is None}
    assert busy == {"GPU-1": pytest.approx(0.75 * 56 / 98), "GPU-2": pytest.approx(0.75 * 14 / 98)}


def test_m1_it_is_not_told_where_one_of_them_told_nothing_then(both: tuple[EngineNode, ChosenSource]) -> None:
    """M1: an instance that was made a moment ago; without it the mean would be too low."""
    node, source = both
    say, seven = node.engine.say, node.engine.machine[0].instances[1].entity
    node.engine.say = lambda entity, number, at: (
        dcgm.NOT_SUPPORTED
        if entity == seven
        else dcgm.BLANK_DOUBLE + 2
        if number in (1001, 1002) and entity == node.engine.machine[0].entity
        else say(entity, number, at)
    )

    card, one, *_ = _missed(node, source, 5)[-1]

    assert one.values[GPU_GR_ACTIVE] == 0.75
    assert (card.values[GPU_BUSY], card.values[GPU_COMPUTE]) == (None, None)
    assert card.missing[GPU_BUSY] is card.missing[GPU_COMPUTE] is FieldState.UNSUPPORTED


def test_m1_nor_where_nvml_knows_of_another_instance_by_now(
    mig_nvml: MigNvml, both: tuple[EngineNode, ChosenSource]
) -> None:
    """M1: DCGM has not heard of it yet."""
    node, source = both
    mig_nvml.source.devices = (replace(A100, instances=(*A100.instances, replace(INSTANCES[0], uuid="new", gi_id=2))),)
    source.inventory()

    card, *_ = _missed(node, source, 5)[-1]

    assert (card.values[GPU_BUSY], card.missing[GPU_BUSY]) == (None, FieldState.UNSUPPORTED)
    assert card.bases[GPU_COMPUTE] == Basis("dcgm_engine", "sm_active"), "the engine's own"
    assert card.values[GPU_SM_ACTIVE] == card.values[GPU_COMPUTE]


def test_compute_by_owner_is_missing_with_the_reason_and_no_zero(both: tuple[EngineNode, ChosenSource]) -> None:
    """Whose processes there were is not known any more; memory is nobody's, as whatever has no proof."""
    card, *others = _missed(*both, 5)[-1]

    assert OWNER_COMPUTE not in card.missing, "where MIG is on, it is told of the instances"
    assert card.owners == {}
    for each in others:
        assert each.missing[OWNER_COMPUTE] is FieldState.UNSUPPORTED
        assert each.owners == {UNATTRIBUTED: OwnerUse(5_000 * MIB, None)}
