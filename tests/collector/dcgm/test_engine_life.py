"""MIG instances of a host engine, and what becomes of cards when it is sick, restarted or away."""

import threading
from collections.abc import Callable
from contextlib import closing

import pytest
from structlog.testing import capture_logs

from collector.dcgm.host_engine import Entity, EntityGroup, Status
from domain.errors import UnavailableError
from domain.samples import UNATTRIBUTED, DeviceReading, FieldState, OwnerUse
from domain.series import GPU_BUSY, GPU_COMPUTE, GPU_MEMORY_USED, GPU_POWER, GPU_SM_ACTIVE
from domain.units import MIB
from tests.collector.engine_nodes import EngineNode, told_values
from tests.collector.patience import PATIENCE_S
from tests.fakes import dcgm


def test_mig_instances_have_their_own_names_and_values(make_node: Callable[..., EngineNode]) -> None:
    """M7: the engine knows the driver's UUID of an instance."""
    node = make_node(dcgm.card(0, gis=(1, 7)))
    with capture_logs() as logs:
        (device,) = node.source.inventory()
    node.seconds(2)
    (told,) = node.seconds(1)

    assert told is not None
    card, first, second = told
    assert (device.mig_enabled, device.instances) == (True, ())
    assert [entry["event"] for entry in logs if entry["event"] == "mig_card_not_recorded"] == ["mig_card_not_recorded"]
    assert [each.mig_uuid for each in told] == [None, "MIG-1-1", "MIG-1-7"]
    assert card.missing[GPU_BUSY] is FieldState.UNSUPPORTED, "M1"
    assert card.owners == {}, "owners are told per instance"
    assert told_values(first)[GPU_SM_ACTIVE] == 0.5
    assert first.bases[GPU_COMPUTE].basis == "sm_active"
    assert second.owners == {UNATTRIBUTED: OwnerUse(5_000 * MIB, None)}
    assert GPU_POWER not in told_values(first), "only the whole card has it"


def test_m9_an_instance_without_memory_has_none(make_node: Callable[..., EngineNode]) -> None:
    """M9: dcgm-exporter 380: an H100's instances tell no framebuffer."""
    node = make_node(dcgm.card(0, gis=(1,), mig_uuids=False))
    say = node.engine.say

    def without(entity: Entity, number: int, at: int) -> int | float | str | None:
        is_instance = entity.group is EntityGroup.GPU_INSTANCE
        return dcgm.NOT_SUPPORTED if is_instance and number in range(250, 254) else say(entity, number, at)

    node.engine.say = without
    node.source.inventory()
    node.seconds(2)
    (told,) = node.seconds(1)

    assert told is not None
    assert told[1].mig_uuid == "MIG-GPU-1/1/0", "where the engine does not know its UUID"
    assert GPU_MEMORY_USED not in told_values(told[1])
    assert told[1].missing[GPU_MEMORY_USED] is FieldState.UNSUPPORTED
    assert told[1].owners == {}


def test_an_instance_that_comes_is_watched_after_the_next_look(make_node: Callable[..., EngineNode]) -> None:
    node = make_node()
    node.source.inventory()
    node.seconds(2)
    node.engine.machine = [dcgm.card(0, gis=(3,))]
    node.source.inventory()

    told = node.seconds(3)[-1]

    assert told is not None
    assert [each.mig_uuid for each in told] == [None, "MIG-1-3"]
    assert told_values(told[1])[GPU_SM_ACTIVE] == 0.5


def test_a_card_that_the_engine_has_lost_is_mute_and_stays_in_the_inventory(
    make_node: Callable[..., EngineNode],
) -> None:
    node = make_node(dcgm.card(0), dcgm.card(1))
    node.source.inventory()
    node.seconds(2)
    node.engine.machine.pop()

    assert [device.uuid for device in node.source.inventory()] == ["GPU-1", "GPU-2"]
    node.engine.advance_s()
    with pytest.raises(UnavailableError, match="has lost it"):
        node.source.read("GPU-2", node.now_s)


def test_l4_no_other_question_waits_for_a_call_that_blocks(node: EngineNode) -> None:
    """L4 and DCGM 313: it blocks for 45 s. The inventory is refused meanwhile, and does not hang behind it."""
    node.seconds(3)
    node.engine.answers.clear()
    node.engine.advance_s()
    told: list[list[DeviceReading] | None] = []
    thread = threading.Thread(target=lambda: told.append(node.read()), daemon=True)
    thread.start()
    assert node.engine.blocked.wait(PATIENCE_S)

    with pytest.raises(UnavailableError, match="has not answered the last question"):
        node.source.inventory()
    node.engine.advance_s(45)
    node.engine.answers.set()
    thread.join(PATIENCE_S)

    (late,) = told
    assert late is not None, "it answers at last"
    assert node.seconds(2)[-1] is not None


def test_a_clock_that_is_set_back_hides_nothing(node: EngineNode) -> None:
    node.seconds(3)
    node.clock.set_by_us(-600_000_000)
    node.engine.restart()

    assert node.seconds(4)[-1] is not None


def test_an_engine_that_cannot_list_its_cards_yet_is_asked_again_in_the_next_second(
    make_node: Callable[..., EngineNode],
) -> None:
    """It has just been started: connections are taken, and cards are not known."""
    node = make_node()
    node.source.inventory()
    node.engine.restart()
    node.engine.failing["cards"] = Status.NO_DATA
    assert node.seconds(3) == [None] * 3
    assert node.engine.asked.count("close") == 3, "no connection is left behind"

    node.engine.failing.clear()

    told = node.seconds(3)[-1]
    assert told is not None
    assert told_values(told[0])[GPU_SM_ACTIVE] == 0.5


def test_an_engine_that_is_away_at_the_start_is_the_error(make_node: Callable[..., EngineNode]) -> None:
    node = make_node()
    node.engine.is_up = False

    with closing(node.source) as source, pytest.raises(UnavailableError, match="see the log of nv-hostengine"):
        source.inventory()
