"""Nodes with a host engine, with NVML beside it, and a card of which both tell."""

from collections.abc import Callable, Iterator

import pytest

from collector.chosen_source import ChosenSource
from collector.dcgm.host_engine import EngineCard
from tests.collector.dcgm.both_sources import CARD, MigNvml, OpenBoth, ScriptedNvml
from tests.collector.dcgm.choice_seconds import ChoiceSeconds
from tests.collector.engine_nodes import EngineNode


@pytest.fixture
def make_node() -> Iterator[Callable[..., EngineNode]]:
    made: list[EngineNode] = []

    def make(*machine: EngineCard) -> EngineNode:
        made.append(EngineNode(*machine))
        return made[-1]

    yield make
    for node in made:
        node.engine.answers.set()
        node.source.close()


@pytest.fixture
def node(make_node: Callable[..., EngineNode]) -> EngineNode:
    node = make_node()
    node.source.inventory()
    return node


@pytest.fixture
def nvml() -> ScriptedNvml:
    return ScriptedNvml(CARD)


@pytest.fixture
def mig_nvml() -> MigNvml:
    return MigNvml()


@pytest.fixture
def open_(make_node: Callable[..., EngineNode]) -> Iterator[OpenBoth]:
    """Opens NVML beside an engine that has read for three seconds."""
    opened: list[ChosenSource] = []

    def open_both(nvml: ScriptedNvml, *machine: EngineCard) -> tuple[EngineNode, ChosenSource]:
        node = make_node(*machine)
        opened.append(ChosenSource(nvml.source, node.source))
        opened[-1].inventory()
        node.engine.advance_s(3)
        return node, opened[-1]

    yield open_both
    for source in opened:
        source.close()


@pytest.fixture
def after() -> ChoiceSeconds:
    return ChoiceSeconds()
