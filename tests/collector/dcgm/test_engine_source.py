"""Cards by way of a host engine: what it reads in each second, what it cannot, and what it does when it is sick."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from structlog.testing import capture_logs

from collector.dcgm.engine_seconds import EngineSeconds
from collector.dcgm.engine_source import BASIS
from collector.dcgm.fields import FIELD_OF_NUMBER
from collector.dcgm.host_engine import Entity, EntityGroup, FieldValue, Status
from collector.ranges import refuse_garbage
from domain.errors import UnavailableError
from domain.inventory import Device
from domain.samples import UNATTRIBUTED, Basis, FieldState, OwnerUse
from domain.series import (
    GPU_BUSY,
    GPU_COMPUTE,
    GPU_ENERGY,
    GPU_GR_ACTIVE,
    GPU_LAST_XID,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_SM_ACTIVE,
    GPU_SM_ACTIVE_CYCLES,
    GPU_SM_ELAPSED_CYCLES,
    GPU_TEMPERATURE,
    GPU_UP,
)
from domain.units import MIB
from tests.collector.engine_nodes import EngineNode, told_values
from tests.fakes import dcgm

PROFILING = tuple(range(1001, 1009))
NEW_PROFILING = (1084, 1085, 1091, 1092)


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


def test_l8_a_profiler_that_has_the_lock_leaves_the_busy_basis_with_the_reason(
    make_node: Callable[..., EngineNode],
) -> None:
    """L8: Nsight, or a second DCGM, on a card before Hopper (DCGM 56, 62, 151)."""
    node = make_node()
    node.engine.refused = dict.fromkeys(PROFILING, Status.PROFILING_LIBRARY_ERROR)
    node.source.inventory()

    reading = node.last(3)

    assert GPU_SM_ACTIVE not in told_values(reading)
    assert reading.missing[GPU_SM_ACTIVE] is FieldState.PROFILER_BUSY
    assert told_values(reading)[GPU_COMPUTE] == 0.91
    assert reading.bases[GPU_COMPUTE] == Basis("dcgm_engine", "busy")
    node.engine.refused = {}
    told = told_values(node.last(32))
    assert (told[GPU_SM_ACTIVE], told[GPU_COMPUTE]) == (0.5, 0.5), "it is tried again"


def test_l8_profiling_that_is_paused_is_busy_and_comes_back(node: EngineNode) -> None:
    """L8: `dcgmi profile --pause` makes every field of profiling blank at once."""
    node.seconds(3)
    say = node.engine.say
    node.engine.say = lambda entity, number, at: dcgm.BLANK_DOUBLE if number in PROFILING else say(entity, number, at)

    paused = node.last(3)

    assert {paused.missing[series] for series in (GPU_SM_ACTIVE, GPU_GR_ACTIVE)} == {FieldState.PROFILER_BUSY}
    assert told_values(paused)[GPU_COMPUTE] == 0.91
    node.engine.say = say
    assert told_values(node.last(2))[GPU_COMPUTE] == 0.5


@pytest.mark.parametrize(
    "status", [Status.MODULE_NOT_LOADED, Status.PROFILING_NOT_SUPPORTED, Status.NOT_SUPPORTED, Status.GPU_NOT_SUPPORTED]
)
def test_l10_a_module_that_is_not_loaded_is_one_line_and_no_error_per_second(
    make_node: Callable[..., EngineNode], status: Status
) -> None:
    """L10: GeForce, or no datacenter-gpu-manager-4-proprietary (DCGM 50, dcgm-exporter 22, 152)."""
    node = make_node()
    node.engine.refused = dict.fromkeys(PROFILING, status)

    with capture_logs() as logs:
        node.source.inventory()
        node.seconds(100)

    (told,) = [entry for entry in logs if entry["event"] == "fields_not_watched"]
    assert (told["fields"], told["state"]) == ("PROFILING", "unsupported")
    assert [entry for entry in logs if entry["log_level"] == "error"] == []
    assert node.last().missing[GPU_SM_ACTIVE] is FieldState.UNSUPPORTED
    assert node.engine.asked.count("watch") == 4, "it is not tried again"


def test_an_engine_that_does_not_know_new_fields_tells_the_old_ones(make_node: Callable[..., EngineNode]) -> None:
    """An older version answers for the whole group of fields that one of them is bad."""
    node = make_node()
    node.engine.refused = dict.fromkeys(NEW_PROFILING, Status.BAD_PARAMETER)
    node.source.inventory()

    reading = node.last(3)

    assert told_values(reading)[GPU_SM_ACTIVE] == 0.5
    assert reading.missing[GPU_SM_ELAPSED_CYCLES] is FieldState.UNSUPPORTED


def test_m5_what_one_card_cannot_measure_costs_another_nothing(make_node: Callable[..., EngineNode]) -> None:
    """M5: a GeForce beside an A100 (dcgm-exporter 736 asks card 0 for all)."""
    node = make_node(dcgm.card(0, model="NVIDIA GeForce RTX 4090"), dcgm.card(1))
    node.engine.of_card[0] = dict.fromkeys(PROFILING, Status.MODULE_NOT_LOADED)
    node.source.inventory()
    node.seconds(2)

    geforce, a100 = (node.last(1, uuid) for uuid in ("GPU-1", "GPU-2"))

    assert geforce.missing[GPU_SM_ACTIVE] is FieldState.UNSUPPORTED
    assert told_values(geforce)[GPU_COMPUTE] == 0.91
    assert told_values(a100)[GPU_COMPUTE] == 0.5


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


def test_two_watchers_with_different_periods_make_one_value_a_second(node: EngineNode) -> None:
    """Another program has the engine read five times a second: ratios are averaged, of memory the most counts."""
    entity = node.engine.machine[0].entity
    say = node.engine.say

    def trembling(entity: Entity, number: int, at: int) -> int | float | str | None:
        fifth = at // 200_000 % 5
        return {1002: 0.2 * fifth, 252: 5_000 + fifth, 203: 20 * fifth}.get(number, say(entity, number, at))

    node.engine.say = trembling
    node.engine.watch([entity], [1002, 252, 203], 200_000, 1.0)
    node.seconds(3)

    told = told_values(node.last())

    assert told[GPU_SM_ACTIVE] == pytest.approx(0.4, abs=0.07)
    assert told[GPU_BUSY] == pytest.approx(0.4, abs=0.07)
    assert told[GPU_MEMORY_USED] == 5_004 * MIB


def test_r1_one_garbage_value_among_several_is_not_averaged_away(node: EngineNode) -> None:
    """R1: 808334905 among good values is counted, and the second is a hole for that series."""
    entity = node.engine.machine[0].entity
    say = node.engine.say
    node.engine.say = lambda entity, number, at: (
        808_334_905 if number == 203 and at % 1_000_000 == 500_000 else say(entity, number, at)
    )
    node.engine.watch([entity], [203], 100_000, 1.0)
    node.seconds(3)

    checked = refuse_garbage(node.last())

    assert checked.refused == (GPU_BUSY,)
    assert checked.reading.missing[GPU_BUSY] is FieldState.GARBAGE


def test_r3_sm_active_of_0_while_a_kernel_runs_is_suspect_and_the_busy_basis_is_used(node: EngineNode) -> None:
    """R3: DCGM 303 and 202: after an XID 31 profiling says 0 for minutes."""
    say = node.engine.say
    node.engine.say = lambda entity, number, at: 0.0 if number in (1001, 1002) else say(entity, number, at)
    assert told_values(node.last(3))[GPU_COMPUTE] == 0, "a moment of it may be"

    reading = node.last(40)

    assert reading.missing[GPU_SM_ACTIVE] is FieldState.SUSPECT
    assert told_values(reading)[GPU_COMPUTE] == 0.91
    assert reading.bases[GPU_COMPUTE].basis == "busy"


def test_r4_a_ratio_of_1_294_is_garbage(node: EngineNode) -> None:
    """R4: DCGM 152 and 138, on a MIG instance."""
    say = node.engine.say
    node.engine.say = lambda entity, number, at: 1.294 if number == 1002 else say(entity, number, at)

    checked = refuse_garbage(node.last(3))

    assert GPU_SM_ACTIVE in checked.refused
    assert checked.reading.values.get(GPU_COMPUTE) != 1.294


def test_r10_the_last_xid_stays_after_it_has_happened(node: EngineNode) -> None:
    """R10: it is told when it happens, and is no value of a period."""
    node.seconds(2)
    say, at_us = node.engine.say, (node.now_s + 1) * 1_000_000
    node.engine.say = lambda entity, number, at: (
        (31 if at < at_us else None) if number == 230 else say(entity, number, at)
    )

    assert told_values(node.last(20))[GPU_LAST_XID] == 31


@pytest.mark.parametrize("garbage", [float("nan"), float("-inf"), float("inf")])
def test_r1_what_is_no_number_costs_its_own_field_only_and_is_counted(node: EngineNode, garbage: float) -> None:
    """R1: no error of the whole card, second after second."""
    say = node.engine.say
    node.engine.say = lambda entity, number, at: garbage if number == 1002 else say(entity, number, at)

    checked = refuse_garbage(node.last(3))

    assert GPU_SM_ACTIVE in checked.refused
    assert checked.reading.missing[GPU_SM_ACTIVE] is FieldState.GARBAGE
    assert told_values(checked.reading)[GPU_POWER] == 300.0


@pytest.mark.parametrize("phase_us", [1, 50_000, 500_000, 899_999, 950_000, 999_999])
def test_a_ratio_is_told_in_one_second_wherever_in_it_the_engine_reads(
    make_node: Callable[..., EngineNode], phase_us: int
) -> None:
    """No second has a part of what was read for the one before."""
    node = make_node()
    node.engine.phase_us = phase_us
    say = node.engine.say
    node.engine.say = lambda entity, number, at: (
        at // 1_000_000 % 10 / 10 if number == 1002 else say(entity, number, at)
    )
    node.source.inventory()
    node.seconds(2)

    for _ in range(10):
        told = told_values(node.last())
        assert told[GPU_SM_ACTIVE] == (node.now_s - 1) % 10 / 10


def test_a_period_that_is_a_little_long_makes_no_hole() -> None:
    """In one second nothing is read, since it was read a moment before; a period of two seconds is a hole."""
    entity, power = Entity(EntityGroup.GPU, 0), FIELD_OF_NUMBER[155]
    seconds = EngineSeconds()
    seconds.add([FieldValue(entity, 155, at_us, watts, 0) for at_us, watts in ((950_000, 300.0), (2_020_000, 301.0))])

    told = [seconds.of_second(entity, second_s)[power] for second_s in (1, 2, 3, 4)]

    assert told == [300, 300, 301, FieldState.NOT_READY]


def test_of_the_last_xid_the_newest_is_kept_and_no_more() -> None:
    """A card that fails all day must not fill the memory."""
    entity, field = Entity(EntityGroup.GPU, 0), FIELD_OF_NUMBER[230]
    seconds = EngineSeconds()
    for second_s in range(1_000, 1_100):
        seconds.add([FieldValue(entity, 230, second_s * 1_000_000, second_s % 100, 0)])
        seconds.forget_before((second_s - 5) * 1_000_000)
    assert seconds.of_second(entity, 1_099)[field] == 99
    assert field not in seconds.of_second(entity, 1_050), "those of before are gone"

    seconds.forget_before(2_000_000_000)
    assert seconds.of_second(entity, 3_000)[field] == 99


def test_a_failure_holds_as_long_as_the_engine_says_so() -> None:
    """A card is not lost any more where the engine no longer says it, though it says nothing else yet."""
    entity, power = Entity(EntityGroup.GPU, 0), FIELD_OF_NUMBER[155]
    seconds = EngineSeconds()
    seconds.add([FieldValue(entity, 155, 1_000_000, 300.0, 0)])
    seconds.add([FieldValue(entity, 155, 1_000_000, None, Status.GPU_IS_LOST)])
    assert seconds.of_second(entity, 2)[power] is FieldState.LOST

    seconds.add([])

    assert seconds.of_second(entity, 3)[power] is FieldState.NOT_READY
