"""R4: ratios above 1 by no more than 5 % are 1, and how many there were is told: by card, series and source."""

from collections.abc import Callable, Iterator

import pytest

from collector.dcgm.engine_seconds import EngineSeconds
from collector.dcgm.engine_source import HostEngineSource
from collector.dcgm.exporter import DcgmExporterSource
from collector.dcgm.fields import FIELD_OF_NAME, FIELD_OF_NUMBER
from collector.dcgm.host_engine import Entity, EntityGroup, FieldValue, Status
from collector.own_metrics import OwnMetrics, OwnValue, source_values
from collector.ranges import refuse_garbage
from collector.source import ScriptedSource
from domain.samples import FieldState
from domain.series import (
    COLLECTOR_CAPPED_RATIOS,
    COLLECTOR_DRIVER_OPENED,
    GPU_GR_ACTIVE,
    GPU_SM_ACTIVE,
    GPU_TENSOR_ACTIVE,
    Series,
)
from tests.collector.dcgm.both_sources import CARD, OpenBoth, ScriptedNvml
from tests.collector.dcgm_pages import GR, Exporter, line, page
from tests.collector.engine_nodes import EngineNode, told_values
from tests.collector.sample_logs import START_S
from tests.fakes import dcgm

SM, TENSOR = "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"


def _capped(source: DcgmExporterSource | HostEngineSource) -> dict[tuple[str, str], float]:
    """What a source has counted, by card and series."""
    told = list(source.values())
    assert {(each.series, each.labels["source"]) for each in told} <= {(COLLECTOR_CAPPED_RATIOS, source.name)}
    return {(each.labels["gpu_uuid"], each.labels["field"]): each.value for each in told}


def _says(node: EngineNode, ratio: Callable[[int], float]) -> None:
    """Let the engine read this SM active of each card and instance, by the time, and all else as before."""
    say = node.engine.say
    node.engine.say = lambda entity, number, at: ratio(at) if number == 1002 else say(entity, number, at)


@pytest.mark.parametrize("written", [1, 1.0, 0.999, 1.050001, 1.294, -1, float("nan"), float("inf"), 2**63 - 14])
def test_r4_what_is_told_as_it_was_written_is_not_counted(written: float) -> None:
    """R4: nor what is garbage, or blank."""
    assert not FIELD_OF_NAME[SM].is_capped(written)


def test_r4_a_ratio_is_capped_up_to_5_percent_above_1() -> None:
    """R4: 100 percent is no more than that, though it is more than 1."""
    assert FIELD_OF_NAME[SM].is_capped(1.000001)
    assert FIELD_OF_NAME[SM].is_capped(1.05)
    assert not FIELD_OF_NUMBER[203].is_capped(100)


def test_r4_each_ratio_of_a_page_that_is_taken_as_1_is_counted(
    dcgm_source: DcgmExporterSource, exporter: Exporter
) -> None:
    """R4: of a MIG instance, on its card; a page that says nothing of the kind adds nothing."""
    own = page("GPU-1", **{SM: 1.02, TENSOR: 1.294, GR: 1})
    exporter.says(own + line(SM, 1.04, GPU_I_ID="7") + "\n" + page("GPU-2", **{SM: 0.5}))
    dcgm_source.inventory()
    assert _capped(dcgm_source) == {}, "no second was read"

    told = dcgm_source.read("GPU-1", START_S)
    dcgm_source.read("GPU-2", START_S)

    assert [told_values(each)[GPU_SM_ACTIVE] for each in told] == [1, 1]
    assert GPU_TENSOR_ACTIVE in refuse_garbage(told[0]).refused
    assert _capped(dcgm_source) == {("GPU-1", GPU_SM_ACTIVE.name): 2}
    exporter.says(page("GPU-1", "GPU-2", **{GR: 1.01}))
    for uuid in ("GPU-1", "GPU-2"):
        dcgm_source.read(uuid, START_S + 1)
    assert _capped(dcgm_source) == {
        ("GPU-1", GPU_SM_ACTIVE.name): 2,
        ("GPU-1", GPU_GR_ACTIVE.name): 1,
        ("GPU-2", GPU_GR_ACTIVE.name): 1,
    }


def test_r4_copies_for_pods_are_one_ratio(dcgm_source: DcgmExporterSource, exporter: Exporter) -> None:
    """R4: and where they contradict each other there is none, so nothing is counted."""
    exporter.says(page("GPU-1") + "\n".join(line(SM, 1.02, pod=pod) for pod in "ab") + "\n")
    dcgm_source.read("GPU-1", START_S)
    assert _capped(dcgm_source) == {("GPU-1", GPU_SM_ACTIVE.name): 1}

    exporter.says(page("GPU-1") + "\n".join(line(SM, value, pod=str(value)) for value in (1.02, 0.4)) + "\n")
    (reading,) = dcgm_source.read("GPU-1", START_S + 1)

    assert GPU_SM_ACTIVE in refuse_garbage(reading).refused
    assert _capped(dcgm_source) == {("GPU-1", GPU_SM_ACTIVE.name): 1}


def test_r4_each_second_of_an_engine_that_has_such_a_ratio_is_counted_once(
    make_node: Callable[..., EngineNode],
) -> None:
    """R4: what the engine has read is asked for twice, so that nothing is missed; a card and its instance are two."""
    node = make_node(dcgm.card(0, gis=(7,)))
    node.source.inventory()
    node.engine.advance_s(2)
    assert _capped(node.source) == {}
    _says(node, lambda _: 1.03)

    told = [reading for readings in node.seconds(5) for reading in readings or []]

    counted = sum(told_values(each)[GPU_SM_ACTIVE] == 1 for each in told)
    assert counted >= 8
    assert _capped(node.source) == {("GPU-1", GPU_SM_ACTIVE.name): counted}
    node.engine.is_up = False
    node.seconds(2)
    node.engine.is_up = True
    again = [reading for readings in node.seconds(3) for reading in readings or []]
    counted += sum(told_values(each).get(GPU_SM_ACTIVE) == 1 for each in again)
    assert _capped(node.source) == {("GPU-1", GPU_SM_ACTIVE.name): counted}, "a new connection forgets no count"


@pytest.mark.parametrize(
    ("ratios", "counted", "is_garbage"),
    [
        ((0.5, 1.02), 1, False),
        ((1.02, 0.5), 1, False),
        ((1.02, 1.294), 0, True),
        ((1.02, float("nan")), 0, True),
        ((0.5, 1), 0, False),
    ],
)
def test_r4_a_second_with_several_ratios_counts_once_and_not_where_it_is_garbage(
    node: EngineNode, ratios: tuple[float, float], counted: int, *, is_garbage: bool
) -> None:
    """R4: another program has the engine read twice a second."""
    node.engine.watch([node.engine.machine[0].entity], [1002], 500_000, 10.0)
    node.seconds(3)
    assert _capped(node.source) == {}
    _says(node, lambda at: ratios[at // 500_000 % 2])
    node.engine.advance_s()

    checked = refuse_garbage(node.last())

    assert (GPU_SM_ACTIVE in checked.refused) is is_garbage
    assert sum(_capped(node.source).values()) == counted


def test_r4_a_ratio_whose_field_failed_since_is_not_told_and_not_counted() -> None:
    """R4: a failure holds for all seconds, until the engine answers again."""
    entity, seconds = Entity(EntityGroup.GPU, 0), EngineSeconds()
    seconds.add([FieldValue(entity, 1002, 1_000_000, 1.03, 0)])
    assert seconds.of_second(entity, 1).capped == {GPU_SM_ACTIVE}

    seconds.add([FieldValue(entity, 1002, 2_000_000, None, Status.GPU_IS_LOST)])

    assert seconds.of_second(entity, 1) == ({FIELD_OF_NUMBER[1002]: FieldState.LOST}, set())


def test_r4_seconds_that_were_missed_are_counted_as_they_are_told(node: EngineNode) -> None:
    """R4: they go to the store as the others do."""
    node.seconds(2)
    _says(node, lambda _: 1.03)
    from_s = node.now_s + 1
    node.engine.advance_s(10)

    told = list(node.source.missed(from_s, node.now_s))

    taken_as_1 = sum(told_values(second.readings[0])[GPU_SM_ACTIVE] == 1 for second in told)
    assert taken_as_1 >= 8
    assert _capped(node.source) == {("GPU-1", GPU_SM_ACTIVE.name): taken_as_1}


class CountingScript(ScriptedSource):
    """A driver by script that has counted nine of them."""

    def values(self) -> Iterator[OwnValue]:
        """What it says of its own work."""
        labels = {"gpu_uuid": "GPU-1", "field": GPU_SM_ACTIVE.name, "source": "nvml"}
        yield OwnValue(COLLECTOR_DRIVER_OPENED, 1)
        yield OwnValue(COLLECTOR_CAPPED_RATIOS, 9, labels)


def test_r4_two_sources_beside_each_other_are_two_counts(nvml: ScriptedNvml, open_: OpenBoth) -> None:
    """R4: what NVML counts of a card and what DCGM counts of it are two series, each of which only grows."""
    nvml.source = CountingScript((CARD,), nvml.says)
    node, source = open_(nvml)
    _says(node, lambda _: 1.03)
    node.engine.advance_s(2)
    source.read("GPU-1", node.now_s)

    told = OwnMetrics("node-a", source.values).values()

    assert _identities(told) == {
        (COLLECTOR_DRIVER_OPENED, None): 1,
        (COLLECTOR_CAPPED_RATIOS, "nvml"): 9,
        (COLLECTOR_CAPPED_RATIOS, "dcgm_engine"): 1,
    }
    for each in told:
        assert set(each.labels) == set(each.series.labels)
    assert list(source_values(ScriptedSource((), nvml.says))) == [], "one that counts nothing"


def _identities(told: list[OwnValue]) -> dict[tuple[Series, str | None], float]:
    named = {(each.series, each.labels.get("source")): each.value for each in told}
    assert len(named) == len(told)
    return named
