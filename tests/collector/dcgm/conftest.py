"""Nodes with a host engine."""

from collections.abc import Callable, Iterator

import pytest

from collector.dcgm.host_engine import EngineCard
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
