"""Cards by way of a host engine: what it reads in each second, what it cannot, and what it does when it is sick."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from structlog.testing import capture_logs

from collector.dcgm.engine_source import BASIS
from collector.ranges import refuse_garbage
from domain.errors import UnavailableError
from domain.inventory import Device
from domain.samples import UNATTRIBUTED, Basis, FieldState, OwnerUse
from domain.series import (
    GPU_BUSY,
    GPU_COMPUTE,
    GPU_ENERGY,
    GPU_GR_ACTIVE,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_SM_ACTIVE,
    GPU_SM_ACTIVE_CYCLES,
    GPU_TEMPERATURE,
    GPU_UP,
)
from domain.units import MIB
from tests.collector.engine_nodes import EngineNode, told_values
from tests.fakes import dcgm


def test_the_inventory_is_what_the_engine_says_of_each_card(make_node: Callable[..., EngineNode]) -> None:
    node = make_node(dcgm.card(1), dcgm.card(0))

    first, second = node.source.inventory()

    assert first == Device(
        uuid="GPU-1",
        index=0,
        model="NVIDIA A100-SXM4-80GB",
        vram_total_bytes=81_920 * MIB,
        vram_reserved_bytes=600 * MIB,
        pci_bus_id="00000000:00:00.0",
        driver_version="580.105.08",
        minor=0,
        vbios_version="92.00.36.00.02",
    )
    assert (second.uuid, second.index) == ("GPU-2", 1)


@pytest.mark.parametrize("lacking", [{"vram_total_bytes": 0}, {"gpu_uuid": ""}, {"model": ""}])
def test_a_card_without_a_name_or_a_size_is_left_out_and_said_once(
    make_node: Callable[..., EngineNode], lacking: dict[str, Any]
) -> None:
    node = make_node(dcgm.card(0), dcgm.card(1, **lacking))

    with capture_logs() as logs:
        assert [device.uuid for device in node.source.inventory()] == ["GPU-1"]
        node.source.inventory()

    (told,) = [entry for entry in logs if entry["event"] == "card_left_out"]
    assert told["gpu_uuid"] == lacking.get("gpu_uuid", "GPU-2")


def test_an_engine_without_cards_is_an_error_with_a_remedy(make_node: Callable[..., EngineNode]) -> None:
    node = make_node()
    node.engine.machine = []

    with pytest.raises(UnavailableError, match="it has no card; see `dcgmi discovery -l`"):
        node.source.inventory()


def test_a_second_says_what_was_read_before_it_began(node: EngineNode) -> None:
    reading = node.last(3)

    told = told_values(reading)
    assert (told[GPU_UP], told[GPU_BUSY], told[GPU_POWER]) == (1, 0.91, 300.0)
    assert (told[GPU_SM_ACTIVE], told[GPU_GR_ACTIVE]) == (0.5, 0.75)
    assert told[GPU_MEMORY_USED] == 5_000 * MIB
    assert reading.owners == {UNATTRIBUTED: OwnerUse(5_000 * MIB, None)}
    assert reading.bases[GPU_SM_ACTIVE] == BASIS
    assert reading.bases[GPU_COMPUTE] == Basis("dcgm_engine", "sm_active")
    assert told[GPU_COMPUTE] == 0.5
    assert refuse_garbage(reading).refused == ()


def test_each_second_has_a_value_of_its_own(node: EngineNode) -> None:
    """The engine's energy grows by 300 J a second."""
    node.seconds(2)
    energy = [told_values(told[0])[GPU_ENERGY] for told in node.seconds(5) if told is not None]

    assert [after - before for before, after in pairwise(energy)] == [300] * 4


def test_in_the_first_period_all_is_blank_and_the_card_is_mute(node: EngineNode) -> None:
    assert node.seconds(1) == [None]
    assert node.read() is None, "the same second is asked once"
    assert node.seconds(1)[0] is not None


def test_mappings_that_do_not_change_are_the_same_objects(node: EngineNode) -> None:
    """What is told only where it changes is compared by identity."""
    before, after = node.last(3), node.last()

    assert before.missing is after.missing
    assert before.bases is after.bases


def test_what_a_card_cannot_tell_says_why(node: EngineNode) -> None:
    node.engine.say = lambda entity, number, at: {150: dcgm.NO_PERMISSION, 100: dcgm.NOT_FOUND, 101: None}.get(
        number, dcgm.busy_card(entity, number, at)
    )
    node.engine.restart()
    node.seconds(3)

    missing = node.last().missing
    assert missing[GPU_TEMPERATURE] is FieldState.NO_PERMISSION
    assert missing[GPU_SM_ACTIVE_CYCLES] is FieldState.UNSUPPORTED


def test_l5_samples_that_are_lost_are_seconds_that_are_missing(node: EngineNode) -> None:
    """L5: 18 to 82 % of what is watched is lost under load (DCGM 313). Nothing is repeated in their place."""
    node.seconds(3)
    node.engine.lost = 0.4

    told = node.seconds(300)

    share = sum(readings is not None for readings in told) / len(told)
    assert 0.5 <= share <= 0.7
    energy = [told_values(readings[0])[GPU_ENERGY] for readings in told if readings is not None]
    assert len(set(energy)) == len(energy)


def test_l6_values_whose_time_stands_still_are_stale(node: EngineNode) -> None:
    """L6: gpu-monitoring-tools 188: a field whose source time does not advance is not told for ever."""
    node.seconds(3)
    say = node.engine.say
    node.engine.say = lambda entity, number, at: None if number == 155 else say(entity, number, at)

    states = [node.last().missing.get(GPU_POWER) for _ in range(6)]

    assert states[0] is FieldState.NOT_READY
    assert states[-1] is FieldState.STALE
    assert GPU_POWER not in told_values(node.last())
    assert told_values(node.last())[GPU_SM_ACTIVE] == 0.5


def test_l6_an_engine_that_is_restarted_is_found_again(node: EngineNode) -> None:
    """L6: its times stop and begin again; nothing of before is told as new."""
    node.seconds(3)
    node.engine.is_up = False
    node.engine.restart()
    with capture_logs() as logs:
        assert node.seconds(5) == [None] * 5
    assert [entry["event"] for entry in logs] == ["host_engine_gone"]
    node.engine.is_up = True

    told = node.seconds(3)

    assert told[0] is None
    assert told[-1] is not None
    assert told_values(told[-1][0])[GPU_SM_ACTIVE] == 0.5
