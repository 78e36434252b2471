"""What a host engine read, as whole seconds: wherever in them it reads, how often, and until when it holds."""

from collections.abc import Callable

import pytest

from collector.dcgm.engine_seconds import EngineSeconds
from collector.dcgm.fields import FIELD_OF_NUMBER
from collector.dcgm.host_engine import Entity, EntityGroup, FieldValue, Status
from collector.ranges import refuse_garbage
from domain.samples import FieldState
from domain.series import GPU_BUSY, GPU_LAST_XID, GPU_MEMORY_USED, GPU_SM_ACTIVE
from domain.units import MIB
from tests.collector.engine_nodes import EngineNode, told_values


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


def test_r10_the_last_xid_stays_after_it_has_happened(node: EngineNode) -> None:
    """R10: it is told when it happens, and is no value of a period."""
    node.seconds(2)
    say, at_us = node.engine.say, (node.now_s + 1) * 1_000_000
    node.engine.say = lambda entity, number, at: (
        (31 if at < at_us else None) if number == 230 else say(entity, number, at)
    )

    assert told_values(node.last(20))[GPU_LAST_XID] == 31


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

    told = [seconds.of_second(entity, second_s).fields[power] for second_s in (1, 2, 3, 4)]

    assert told == [300, 300, 301, FieldState.NOT_READY]


def test_of_the_last_xid_the_newest_is_kept_and_no_more() -> None:
    """A card that fails all day must not fill the memory."""
    entity, field = Entity(EntityGroup.GPU, 0), FIELD_OF_NUMBER[230]
    seconds = EngineSeconds()
    for second_s in range(1_000, 1_100):
        seconds.add([FieldValue(entity, 230, second_s * 1_000_000, second_s % 100, 0)])
        seconds.forget_before((second_s - 5) * 1_000_000)
    assert seconds.of_second(entity, 1_099).fields[field] == 99
    assert field not in seconds.of_second(entity, 1_050).fields, "those of before are gone"

    seconds.forget_before(2_000_000_000)
    assert seconds.of_second(entity, 3_000).fields[field] == 99


def test_a_failure_holds_as_long_as_the_engine_says_so() -> None:
    """A card is not lost any more where the engine no longer says it, though it says nothing else yet."""
    entity, power = Entity(EntityGroup.GPU, 0), FIELD_OF_NUMBER[155]
    seconds = EngineSeconds()
    seconds.add([FieldValue(entity, 155, 1_000_000, 300.0, 0)])
    seconds.add([FieldValue(entity, 155, 1_000_000, None, Status.GPU_IS_LOST)])
    assert seconds.of_second(entity, 2).fields[power] is FieldState.LOST

    seconds.add([])

    assert seconds.of_second(entity, 3).fields[power] is FieldState.NOT_READY
