"""What a collector that is started again is told of the seconds in which there was none."""

from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from collector.dcgm.engine_source import HostEngineSource
from collector.dcgm.engine_watches import KEEP_SECONDS
from collector.dcgm.host_engine import EngineError, Status
from collector.past_seconds import PastSecond, RemembersSeconds, missed_seconds
from collector.source import ScriptedSource
from domain.samples import DeviceReading
from domain.series import GPU_COMPUTE, GPU_ENERGY, GPU_SM_ACTIVE
from tests.collector.engine_nodes import EngineNode, told_values
from tests.fakes import dcgm


def _values(second: PastSecond) -> dict[str, float]:
    return {series.name: value for series, value in told_values(second.readings[0]).items()}


def _restarted(node: EngineNode) -> HostEngineSource:
    """The source of the next collector on the node, which has seen the cards."""
    source = HostEngineSource(node.engine.connect, node.clock)
    source.inventory()
    return source


def test_a_collector_that_was_away_gets_the_seconds_that_it_missed(node: EngineNode) -> None:
    """A second that is told later is as it would have been told then."""
    node.seconds(5)
    node.source.close()
    from_s = node.now_s + 1
    node.engine.advance_s(20)
    source = _restarted(node)
    node.engine.advance_s(1)

    told = list(source.missed(from_s, node.now_s))

    assert [second.second_s for second in told] == list(range(from_s, from_s + 20))
    (live,) = source.read("GPU-1", node.now_s)
    assert told_values(live)[GPU_ENERGY] - _values(told[-1])[GPU_ENERGY.name] == 300
    assert {_values(second)[GPU_SM_ACTIVE.name] for second in told} == {0.5}
    assert {_values(second)[GPU_COMPUTE.name] for second in told} == {0.5}
    source.close()


def test_what_was_read_live_is_what_would_be_replayed(node: EngineNode) -> None:
    from_s = node.now_s + 1
    live = node.seconds(30)

    replayed = {second.second_s: second.readings for second in node.source.missed(from_s, node.now_s + 1)}

    for second_s, readings in enumerate(live, start=from_s):
        told = [told_values(reading) for reading in readings or []]
        assert told == [told_values(reading) for reading in replayed.get(second_s, [])], second_s


def test_what_the_engine_lost_stays_a_hole(node: EngineNode) -> None:
    node.seconds(3)
    from_s = node.now_s + 1
    node.engine.lost = 0.5
    node.engine.advance_s(100)

    told = list(node.source.missed(from_s, node.now_s))

    assert 30 <= len(told) <= 70
    energy = [_values(second)[GPU_ENERGY.name] for second in told]
    assert len(set(energy)) == len(energy), "nothing is told twice"


def test_an_engine_that_was_restarted_knows_only_what_it_read_since(node: EngineNode) -> None:
    node.seconds(3)
    from_s = node.now_s + 1
    node.engine.restart()
    node.engine.advance_s(10)
    source = _restarted(node)
    node.engine.advance_s(5)

    told = [second.second_s for second in source.missed(from_s, node.now_s)]

    assert told
    assert min(told) > from_s + 10, "its first period is blank"
    source.close()


def test_it_is_asked_for_no_more_than_it_keeps(node: EngineNode) -> None:
    node.seconds(2)
    from_s = node.now_s + 1
    node.engine.advance_s(2 * KEEP_SECONDS)

    told = [second.second_s for second in node.source.missed(from_s, node.now_s)]

    assert len(told) in (KEEP_SECONDS - 1, KEEP_SECONDS)
    assert told[-1] == node.now_s - 1


def test_all_cards_of_a_second_come_together(make_node: Callable[..., EngineNode]) -> None:
    node = make_node(dcgm.card(0), dcgm.card(1, gis=(2,)))
    node.source.inventory()
    from_s = node.now_s
    node.engine.advance_s(5)

    last = list(node.source.missed(from_s, node.now_s))[-1]

    assert [(each.gpu_uuid, each.mig_uuid) for each in last.readings] == [
        ("GPU-1", None),
        ("GPU-2", None),
        ("GPU-2", "MIG-2-2"),
    ]


def test_nothing_is_missed_where_the_source_remembers_nothing() -> None:
    source = ScriptedSource((), lambda uuid, _: [DeviceReading(uuid, None, {}, {})])

    assert not isinstance(source, RemembersSeconds)
    assert list(missed_seconds(source, 0, 100)) == []


def test_an_engine_that_cannot_tell_of_the_past_costs_the_present_nothing(node: EngineNode) -> None:
    node.seconds(3)
    node.engine.is_up = False

    with pytest.raises(EngineError) as failed:
        list(node.source.missed(node.now_s - 2, node.now_s))
    assert failed.value.status == Status.CONNECTION_NOT_VALID
    with capture_logs() as logs:
        assert list(missed_seconds(node.source, node.now_s - 2, node.now_s)) == []
    assert [entry["event"] for entry in logs] == ["missed_seconds_not_told"]
    node.engine.is_up = True
    assert node.seconds(3)[-1] is not None
